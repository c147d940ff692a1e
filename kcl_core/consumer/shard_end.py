"""What is written when a shard has been read to its end (KCL: ShutdownTask)."""

import logging
from collections.abc import Sequence

from kcl_core.consumer.checkpointer import Checkpointer
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable
from kcl_core.streams.api import ChildShard

_log = logging.getLogger(__name__)

_PARENTS_OF_A_MERGE = 2


def finish_shard(
    table: LeaseTable,
    held: HeldLeases,
    checkpointer: Checkpointer,
    lease_key: str,
    children: Sequence[ChildShard],
    *,
    acquisition: int | None = None,
) -> bool:
    """Create the children's leases, name the children in the finished lease, and checkpoint it at SHARD_END.

    In this order: SHARD_END is what tells others that the children exist, so it comes last, and until then all of
    it is done again by whoever reads the shard's end next. Call it when the shard's records are durable.

    Args:
        table: of the lease and its children.
        held: must hold the lease.
        checkpointer: writes SHARD_END, which also forgets a prepared checkpoint.
        lease_key: lease of the finished shard.
        children: as the last answer of Kinesis named them; none if Kinesis no longer knows the shard, or they are
            not known: then shard sync creates their leases.
        acquisition: `HeldLeases.acquisition` at the time the shard's end was read; None trusts that it is the same.

    Returns:
        False if nothing is finished yet: the lease is no longer this worker's, or a merge waits for the lease of the
        other parent, or the children named are not plausible. If the lease is still held, read the end again later.
    """
    lease = _verified(table, held, lease_key, acquisition)
    if lease is None:
        return False
    if lease.is_finished:
        return True
    if children:
        new = [_child_lease(lease, child) for child in children]
        problem = _problem(table, lease, new)
        if problem is not None:
            _log.warning("the end of %s is not recorded yet: %s", lease_key, problem)
            return False
        created = [child.lease_key for child in new if table.create(child)]
        if created:
            _log.info("created the leases of %s, which continue %s", ", ".join(created), lease_key)
        if not table.update_children(lease_key, [child.shard_id for child in children]):
            held.drop(lease_key)
            return False
    return checkpointer.checkpoint(lease_key, ExtendedSequenceNumber.SHARD_END, acquisition=acquisition)


def _verified(table: LeaseTable, held: HeldLeases, lease_key: str, acquisition: int | None) -> Lease | None:
    """Return the held lease if its row is still as this worker left it.

    A worker that was suspended for long must not create leases that have come and gone meanwhile: they would be
    read from the start once more.
    """
    with held.exclusive(lease_key):
        lease, present = held.get(lease_key), held.acquisition(lease_key)
        if lease is None or (acquisition is not None and acquisition != present):
            return None
        row = table.get(lease_key)
    if row is None or (row.lease_counter, row.actual_owner) != (lease.lease_counter, lease.actual_owner):
        _log.info("the end of %s is not recorded: the next renewal will show whose it is", lease_key)
        return None
    return lease


def _child_lease(parent: Lease, child: ChildShard) -> Lease:
    """Return the lease to create for a child: TRIM_HORIZON, whatever the initial position of the stream is."""
    several_streams = parent.multi_stream_shard_id is not None
    # Java rejects a row whose range holds one key only; without a range it can read the row.
    one_key_only = child.starting_hash_key == child.ending_hash_key
    return Lease(
        lease_key=parent.lease_key.removesuffix(parent.shard_id) + child.shard_id,
        checkpoint=ExtendedSequenceNumber.TRIM_HORIZON,
        parent_shard_ids=frozenset(child.parent_shards),
        hash_key_range=None if one_key_only else HashKeyRange(child.starting_hash_key, child.ending_hash_key),
        stream_name=parent.stream_name,
        multi_stream_shard_id=child.shard_id if several_streams else None,
    )


def _problem(table: LeaseTable, lease: Lease, children: Sequence[Lease]) -> str | None:
    """Say why the children's leases may not be created now, or return None."""
    for child in children:
        if lease.shard_id not in child.parent_shard_ids:
            return f"Kinesis names {child.shard_id} as its child, but not it as a parent of {child.shard_id}"
    if len(children) > 1:
        return None
    child = children[0]
    if len(child.parent_shard_ids) != _PARENTS_OF_A_MERGE:
        return f"Kinesis names one child, {child.shard_id}, with {len(child.parent_shard_ids)} parent"
    other = next(iter(child.parent_shard_ids - {lease.shard_id}))
    other_key = lease.lease_key.removesuffix(lease.shard_id) + other
    if table.get(other_key) is None and table.get(child.lease_key) is None:
        # Without a lease the other parent would not keep the child from being read before it.
        return f"{other}, merged with it into {child.shard_id}, has no lease yet"
    return None
