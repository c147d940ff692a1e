"""The lease rows in DynamoDB. Every write is conditional on the row that it was decided on.

Conditions and changes of each write are those of Java KCL 3 (DynamoDBLeaseRefresher, DynamoDBLeaseSerializer).
Rows are only ever updated, so attributes unknown to this version survive.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcl_core.dynamodb import scans
from kcl_core.dynamodb.location import Item, TableLocation
from kcl_core.dynamodb.writes import (
    Changes,
    ConditionFailed,
    Expected,
    Value,
    delete_item,
    get_item,
    put_item,
    update_item,
)
from kcl_core.errors import InvariantViolatedError
from kcl_core.leases import codec
from kcl_core.leases.codec import BrokenRow, decode_lease, encode_lease
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_log = logging.getLogger(__name__)

_PENDING = (codec.PENDING, codec.PENDING_SUB, codec.PENDING_STATE)


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition of a write failed: somebody else changed the row first.

    Attributes:
        current: the row as it is now, or None if it is gone.
    """

    current: Lease | None


@dataclass(frozen=True, slots=True)
class LeaseScan:
    """All rows of the table.

    Attributes:
        leases: in no particular order.
        broken: rows that should be leases and cannot be read as such.
        foreign: number of rows of another kind.
    """

    leases: tuple[Lease, ...]
    broken: tuple[BrokenRow, ...] = ()
    foreign: int = 0


class LeaseTable:
    """The leases of one application. Knows DynamoDB; decides nothing.

    Every method raises `TableThrottledError` and `EndpointUnavailableError` (retry; after the latter it is not
    known whether a write happened), `TableMissingError` and `AccessDeniedError`.
    """

    def __init__(self, client: "DynamoDBClient", location: TableLocation) -> None:
        self._client = client
        self._location = location

    def create(self, lease: Lease) -> bool:
        """Write the row of a new lease; return False if there is a row of this key already."""
        outcome = put_item(self._client, self._location, encode_lease(lease), {codec.LEASE_KEY: None})
        return not isinstance(outcome, ConditionFailed)

    def get(self, lease_key: str) -> Lease | None:
        """Return the lease as it is now, or None: no such row, or one that is not a readable lease (logged)."""
        return self._decode(get_item(self._client, self._location, lease_key))

    def scan(self) -> LeaseScan:
        """Return all leases. Those read late may be seconds newer than those read early."""
        leases: list[Lease] = []
        broken: list[BrokenRow] = []
        foreign = 0
        for item in scans.scan(self._client, self._location):
            if not self._location.holds(item):
                foreign += 1
                continue
            row = decode_lease(item)
            if isinstance(row, Lease):
                leases.append(row)
            else:
                broken.append(row)
        return LeaseScan(tuple(leases), tuple(broken), foreign)

    def keys_owned_by(self, worker_id: str) -> tuple[str, ...]:
        """Return the keys of the leases whose ``leaseOwner`` is the worker, a moment old.

        Read from the owner index; from a scan while the table has none that is ready.
        """
        keys = scans.query_owner_index(self._client, self._location, worker_id)
        if keys is None:
            return tuple(lease.lease_key for lease in self.scan().leases if lease.lease_owner == worker_id)
        return keys

    def renew(self, lease: Lease, *, throughput_kbps: float | None = None) -> Lease | Refused:
        """Show that the owner lives: the counter grows by one.

        If ``lease`` shows no handoff, the row must not either; so its owner learns of one by being refused.

        Args:
            lease: as its owner remembers it; the row must have its counter.
            throughput_kbps: KiB/s to write with it; None leaves what the row has.
        """
        expected: dict[str, Value | None] = {codec.LEASE_COUNTER: codec.encode_integer(lease.lease_counter)}
        if lease.checkpoint_owner is None:
            expected[codec.CHECKPOINT_OWNER] = None
        changes: Item = {codec.LEASE_COUNTER: codec.encode_integer(lease.lease_counter + 1)}
        if throughput_kbps is not None:
            changes[codec.THROUGHPUT] = codec.encode_throughput(throughput_kbps)
        return self._update(lease, Changes(set=changes), expected)

    def take(self, lease: Lease, new_owner: str) -> Lease | Refused:
        """Give the lease to ``new_owner`` if its counter has not moved (KCL 2: the taker of expired leases)."""
        return self._update(
            lease,
            Changes(
                set={
                    codec.LEASE_COUNTER: codec.encode_integer(lease.lease_counter + 1),
                    codec.LEASE_OWNER: {"S": new_owner},
                },
                add=_owner_switch(lease, new_owner),
                remove=(codec.CHECKPOINT_OWNER,),
            ),
            {codec.LEASE_COUNTER: codec.encode_integer(lease.lease_counter)},
        )

    def assign(self, lease: Lease, new_owner: str) -> Lease | Refused:
        """Give the lease to ``new_owner`` if the row still has the owners that ``lease`` shows.

        The counter grows, so the former owner loses the lease at its next renewal or checkpoint, and
        ``checkpointOwner`` goes, so the new owner may start at once. Also the end of a graceful handoff.
        """
        return self._update(
            lease,
            Changes(
                set={codec.LEASE_OWNER: {"S": new_owner}},
                add={codec.LEASE_COUNTER: 1, **_owner_switch(lease, new_owner)},
                remove=(codec.CHECKPOINT_OWNER,),
            ),
            _same_owners(lease),
        )

    def evict(self, lease: Lease) -> Lease | Refused:
        """Take the lease from its owner, or end its handoff in favour of the next owner."""
        remove = [codec.CHECKPOINT_OWNER]
        if lease.checkpoint_owner is None:
            remove.append(codec.LEASE_OWNER)
        return self._update(lease, Changes(add={codec.LEASE_COUNTER: 1}, remove=remove), _same_owners(lease))

    def initiate_graceful_handoff(self, lease: Lease, new_owner: str) -> Lease | Refused:
        """Ask the owner to finish what it has in hand and then give the lease to ``new_owner``.

        The counter stays, so the owner may renew and checkpoint meanwhile.

        Raises:
            InvariantViolatedError: the lease has no owner who could hand it over, or it is ``new_owner``.
        """
        if lease.lease_owner in (None, new_owner):
            raise InvariantViolatedError(
                "a handoff is from one worker to another", lease=lease.lease_key, owner=lease.lease_owner, to=new_owner
            )
        return self._update(
            lease,
            Changes(set={codec.LEASE_OWNER: {"S": new_owner}, codec.CHECKPOINT_OWNER: {"S": lease.lease_owner}}),
            {**_same_owners(lease), codec.CHECKPOINT_OWNER: None},
        )

    def checkpoint(self, lease: Lease, position: ExtendedSequenceNumber) -> Lease | Refused:
        """Record that everything up to ``position`` is durable, and forget a prepared checkpoint.

        Args:
            lease: as its owner remembers it; the row must have its counter.
            position: not checked against the present checkpoint.
        """
        wanted = replace(
            lease,
            lease_counter=lease.lease_counter + 1,
            checkpoint=position,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            pending_checkpoint_state=None,
        )
        return self._write_checkpoint(lease, wanted)

    def prepare_checkpoint(self, lease: Lease, pending: ExtendedSequenceNumber, state: bytes | None) -> Lease | Refused:
        """Record a checkpoint that is about to be made, with bytes for whoever must decide its fate.

        Args:
            lease: as its owner remembers it; the row must have its counter.
            pending: replaces an earlier prepared checkpoint.
            state: up to 300 KB or so; a row may have 400 KB.
        """
        wanted = replace(
            lease,
            lease_counter=lease.lease_counter + 1,
            pending_checkpoint=pending,
            pending_checkpoint_state=state,
        )
        return self._write_checkpoint(lease, wanted)

    def update_children(self, lease_key: str, child_shard_ids: Collection[str]) -> bool:
        """Write which shards continue this one; return False if there is no such row. The counter stays.

        Raises:
            InvariantViolatedError: no children were given.
        """
        if not child_shard_ids:
            raise InvariantViolatedError("children are written once they are known", lease=lease_key)
        return self._update_meta(lease_key, {codec.CHILDREN: codec.encode_text_set(frozenset(child_shard_ids))})

    def update_hash_range(self, lease_key: str, hash_key_range: HashKeyRange) -> bool:
        """Write the shard's range of hash keys; return False if there is no such row. The counter stays."""
        return self._update_meta(lease_key, codec.encode_hash_key_range(hash_key_range))

    def delete(self, lease: Lease) -> bool:
        """Delete the row if its checkpoint is still the one of ``lease``; return whether the row is gone now.

        Java deletes whatever it finds. Here a lease that was deleted and created anew meanwhile survives.
        """
        expected: dict[str, Value | None] = {**codec.encode_checkpoint(lease.checkpoint), codec.PENDING: None}
        if lease.pending_checkpoint is not None:
            expected[codec.PENDING] = {"S": lease.pending_checkpoint.sequence_number}
        outcome = delete_item(self._client, self._location, lease.lease_key, expected)
        return not isinstance(outcome, ConditionFailed) or outcome.item is None

    def _write_checkpoint(self, lease: Lease, wanted: Lease) -> Lease | Refused:
        set_: Item = {
            codec.LEASE_COUNTER: codec.encode_integer(wanted.lease_counter),
            codec.OWNER_SWITCHES: codec.encode_integer(wanted.owner_switches_since_checkpoint),
            **codec.encode_checkpoint(wanted.checkpoint),
            **codec.encode_learned(lease),
        }
        if wanted.pending_checkpoint is not None:
            set_ |= codec.encode_pending(wanted.pending_checkpoint, wanted.pending_checkpoint_state)
        outcome = self._update(
            lease,
            Changes(set=set_, remove=[each for each in _PENDING if each not in set_]),
            {codec.LEASE_COUNTER: codec.encode_integer(lease.lease_counter)},
        )
        # A request whose answer was lost is repeated by botocore, and then refused because of itself.
        if isinstance(outcome, Refused) and outcome.current is not None and _is_same_write(outcome.current, wanted):
            return outcome.current
        return outcome

    def _update(self, lease: Lease, changes: Changes, expected: Expected) -> Lease | Refused:
        outcome = update_item(self._client, self._location, lease.lease_key, changes, expected)
        if isinstance(outcome, ConditionFailed):
            return Refused(self._decode(outcome.item))
        row = self._decode(outcome)
        return Refused(None) if row is None else row

    def _update_meta(self, lease_key: str, attributes: Item) -> bool:
        expected = self._location.key(lease_key)
        outcome = update_item(self._client, self._location, lease_key, Changes(set=attributes), expected)
        return not isinstance(outcome, ConditionFailed)

    def _decode(self, item: Item | None) -> Lease | None:
        if item is None or not self._location.holds(item):
            return None
        row = decode_lease(item)
        if isinstance(row, BrokenRow):
            _log.warning("row %s of table %s is not a lease: %s", row.key, self._location.table_name, row.reason)
            return None
        return row


def _owner_switch(lease: Lease, new_owner: str) -> dict[str, int]:
    """Return what to add to the owner switches: a completed graceful handoff is none, KCL decides so."""
    switches = lease.lease_owner not in (None, new_owner) or lease.checkpoint_owner == new_owner
    return {codec.OWNER_SWITCHES: 1} if switches else {}


def _same_owners(lease: Lease) -> dict[str, Value | None]:
    """Condition that the row exists with the owners that ``lease`` shows."""
    return {
        codec.LEASE_KEY: {"S": lease.lease_key},
        codec.LEASE_OWNER: None if lease.lease_owner is None else {"S": lease.lease_owner},
        codec.CHECKPOINT_OWNER: None if lease.checkpoint_owner is None else {"S": lease.checkpoint_owner},
    }


def _is_same_write(current: Lease, wanted: Lease) -> bool:
    """Whether the row is what a checkpoint by the same owner would have made of it."""
    return (
        current.lease_counter == wanted.lease_counter
        and current.actual_owner == wanted.actual_owner
        and current.checkpoint == wanted.checkpoint
        and current.pending_checkpoint == wanted.pending_checkpoint
        and current.pending_checkpoint_state == wanted.pending_checkpoint_state
    )
