"""Lease <-> row, with the attribute names and types of Java KCL 3 (DynamoDBLeaseSerializer). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal

from kcl_core.dynamodb.location import ENTITY_TYPE, LEASE, Item
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber

LEASE_KEY = "leaseKey"
LEASE_OWNER = "leaseOwner"
LEASE_COUNTER = "leaseCounter"
CHECKPOINT_OWNER = "checkpointOwner"
OWNER_SWITCHES = "ownerSwitchesSinceCheckpoint"
CHECKPOINT = "checkpoint"
CHECKPOINT_SUB = "checkpointSubSequenceNumber"
PENDING = "pendingCheckpoint"
PENDING_SUB = "pendingCheckpointSubSequenceNumber"
PENDING_STATE = "pendingCheckpointState"
PARENTS = "parentShardId"
CHILDREN = "childShardIds"
STARTING_HASH_KEY = "startingHashKey"
ENDING_HASH_KEY = "endingHashKey"
THROUGHPUT = "throughputKBps"
STREAM_NAME = "streamName"
SHARD_ID = "shardId"

_SIX_DECIMALS = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that should be a lease and cannot be read as one. To be reported and left alone.

    Attributes:
        key: its partition key; None if even that cannot be read.
        reason: what is wrong.
    """

    key: str | None
    reason: str


class _BadAttributeError(Exception):
    """An attribute is missing or of another type."""


def decode_lease(item: Mapping[str, Any]) -> Lease | BrokenRow:
    """Return the lease that the row holds, or why it holds none.

    As in Java, a row without counter or owner switches is broken. A missing sub-sequence number is 0, and a
    pending state that is not binary is none (Java writes a number there when it creates a lease with a pending
    checkpoint).
    """
    try:
        return Lease(
            lease_key=_text(item, LEASE_KEY),
            lease_owner=_optional_text(item, LEASE_OWNER),
            lease_counter=_integer(item, LEASE_COUNTER),
            checkpoint_owner=_optional_text(item, CHECKPOINT_OWNER),
            owner_switches_since_checkpoint=_integer(item, OWNER_SWITCHES),
            checkpoint=ExtendedSequenceNumber(_text(item, CHECKPOINT), _integer(item, CHECKPOINT_SUB, default=0)),
            pending_checkpoint=_pending(item),
            pending_checkpoint_state=_binary(item, PENDING_STATE),
            parent_shard_ids=_text_set(item, PARENTS),
            child_shard_ids=_text_set(item, CHILDREN),
            hash_key_range=_hash_key_range(item),
            throughput_kbps=_throughput(item),
            stream_name=_optional_text(item, STREAM_NAME),
            multi_stream_shard_id=_optional_text(item, SHARD_ID),
        )
    except (_BadAttributeError, ValueError) as error:
        return BrokenRow(_key_of(item), str(error))


def encode_lease(lease: Lease) -> Item:
    """Return the whole row of a lease that is to be created. Absent values are left out, never NULL or empty."""
    item: Item = {
        LEASE_KEY: {"S": lease.lease_key},
        ENTITY_TYPE: {"S": LEASE},
        LEASE_COUNTER: encode_integer(lease.lease_counter),
        OWNER_SWITCHES: encode_integer(lease.owner_switches_since_checkpoint),
        **encode_checkpoint(lease.checkpoint),
        **encode_learned(lease),
    }
    if lease.lease_owner is not None:
        item[LEASE_OWNER] = {"S": lease.lease_owner}
    if lease.checkpoint_owner is not None:
        item[CHECKPOINT_OWNER] = {"S": lease.checkpoint_owner}
    if lease.pending_checkpoint is not None:
        item |= encode_pending(lease.pending_checkpoint, lease.pending_checkpoint_state)
    if lease.parent_shard_ids:
        item[PARENTS] = encode_text_set(lease.parent_shard_ids)
    if lease.throughput_kbps is not None:
        item[THROUGHPUT] = encode_throughput(lease.throughput_kbps)
    return item


def encode_learned(lease: Lease) -> Item:
    """Return what Java repeats with every checkpoint if it is known: children, hash keys, stream."""
    item: Item = {}
    if lease.child_shard_ids:
        item[CHILDREN] = encode_text_set(lease.child_shard_ids)
    if lease.hash_key_range is not None:
        item |= encode_hash_key_range(lease.hash_key_range)
    if lease.stream_name is not None:
        item[STREAM_NAME] = {"S": lease.stream_name}
    if lease.multi_stream_shard_id is not None:
        item[SHARD_ID] = {"S": lease.multi_stream_shard_id}
    return item


def encode_checkpoint(position: ExtendedSequenceNumber) -> Item:
    """Return the two attributes of a checkpoint."""
    return {
        CHECKPOINT: {"S": position.sequence_number},
        CHECKPOINT_SUB: encode_integer(position.sub_sequence_number),
    }


def encode_pending(position: ExtendedSequenceNumber, state: bytes | None) -> Item:
    """Return the two or three attributes of a prepared checkpoint."""
    item: Item = {
        PENDING: {"S": position.sequence_number},
        PENDING_SUB: encode_integer(position.sub_sequence_number),
    }
    if state is not None:
        item[PENDING_STATE] = {"B": state}
    return item


def encode_hash_key_range(hash_key_range: HashKeyRange) -> Item:
    """Return the two attributes of a range of hash keys."""
    return {
        STARTING_HASH_KEY: {"S": str(hash_key_range.starting)},
        ENDING_HASH_KEY: {"S": str(hash_key_range.ending)},
    }


def encode_text_set(texts: frozenset[str]) -> Item:
    """Return a string set, in a stable order. Must not be empty: DynamoDB has no empty sets."""
    return {"SS": sorted(texts)}


def encode_integer(number: int) -> Item:
    """Return a whole number."""
    return {"N": str(number)}


def encode_throughput(kbps: float) -> Item:
    """Return KiB/s as KCL writes it: six decimals, rounded half up (DynamoDBLeaseSerializer)."""
    return {"N": f"{Decimal(str(kbps)).quantize(_SIX_DECIMALS, ROUND_HALF_UP):f}"}


def _key_of(item: Mapping[str, Any]) -> str | None:
    try:
        return _text(item, LEASE_KEY)
    except _BadAttributeError:
        return None


def _value(item: Mapping[str, Any], attribute: str, kind: Literal["S", "N", "B", "SS"]) -> Any:
    """Return the attribute's value, or None if the row lacks it."""
    typed = item.get(attribute)
    if typed is None:
        return None
    if kind not in typed:
        raise _BadAttributeError(f"{attribute} is of type {'/'.join(typed)}, not {kind}")
    return typed[kind]


def _optional_text(item: Mapping[str, Any], attribute: str) -> str | None:
    text: str | None = _value(item, attribute, "S")
    return text or None


def _text(item: Mapping[str, Any], attribute: str) -> str:
    text = _optional_text(item, attribute)
    if text is None:
        raise _BadAttributeError(f"{attribute} is missing")
    return text


def _integer(item: Mapping[str, Any], attribute: str, default: int | None = None) -> int:
    number: str | None = _value(item, attribute, "N")
    if number is not None:
        try:
            return int(number)
        except ValueError as error:
            raise _BadAttributeError(f"{attribute} is {number}, not a whole number") from error
    if default is None:
        raise _BadAttributeError(f"{attribute} is missing")
    return default


def _pending(item: Mapping[str, Any]) -> ExtendedSequenceNumber | None:
    text = _optional_text(item, PENDING)
    return None if text is None else ExtendedSequenceNumber(text, _integer(item, PENDING_SUB, default=0))


def _binary(item: Mapping[str, Any], attribute: str) -> bytes | None:
    value = item.get(attribute, {}).get("B")
    return None if value is None else bytes(value)


def _text_set(item: Mapping[str, Any], attribute: str) -> frozenset[str]:
    return frozenset(_value(item, attribute, "SS") or ())


def _throughput(item: Mapping[str, Any]) -> float | None:
    number: str | None = _value(item, THROUGHPUT, "N")
    return None if number is None else float(number)


def _hash_key_range(item: Mapping[str, Any]) -> HashKeyRange | None:
    starting, ending = _optional_text(item, STARTING_HASH_KEY), _optional_text(item, ENDING_HASH_KEY)
    if starting is None or ending is None:
        return None
    if not (starting.isascii() and starting.isdigit() and ending.isascii() and ending.isdigit()):
        raise _BadAttributeError(f"hash keys {starting!r} to {ending!r} are not numbers")
    if int(starting) > int(ending):
        raise _BadAttributeError(f"hash keys {starting} to {ending} are the wrong way round")
    return HashKeyRange(int(starting), int(ending))
