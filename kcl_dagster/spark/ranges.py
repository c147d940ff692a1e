"""Which leases a micro-batch reads, from where, in how many Spark tasks. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber

# One request costs about as much as this many KiB of records; keeps idle leases from piling up in one task.
_KIB_PER_REQUEST = 64.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRange:
    """What one lease reads next. Its end is not known before it was read.

    Attributes:
        start: everything up to here is in the table; a sentinel if the shard was not begun.
        hash_key_range: of the shard, for taking KPL aggregates apart; None means every key.
        shard_iterator: continues exactly after ``start``; None if there is none that is fresh.
    """

    lease_key: str
    shard_id: str
    start: ExtendedSequenceNumber
    hash_key_range: HashKeyRange | None = None
    shard_iterator: str | None = None


@dataclass(frozen=True, slots=True)
class SkippedLease:
    """A held lease that this batch does not read, and why."""

    lease_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one micro-batch reads.

    Attributes:
        tasks: ranges by Spark task, at least one each.
        skipped: leases that are held but not read.
    """

    tasks: tuple[tuple[LeaseRange, ...], ...]
    skipped: tuple[SkippedLease, ...]

    @property
    def ranges(self) -> tuple[LeaseRange, ...]:
        """All ranges, task by task."""
        return tuple(planned for task in self.tasks for planned in task)


def parent_keys(lease: Lease) -> tuple[str, ...]:
    """Return the lease keys of the shards whose records come before this one's."""
    prefix = lease.lease_key.removesuffix(lease.shard_id)
    return tuple(sorted(prefix + parent for parent in lease.parent_shard_ids))


def plan_batch(
    held: Iterable[Lease],
    parents: Mapping[str, Lease],
    *,
    leaving: Collection[str],
    cores: int,
    iterators: Mapping[str, tuple[ExtendedSequenceNumber, str]] | None = None,
) -> BatchPlan:
    """Plan the next micro-batch.

    Args:
        held: leases of this worker.
        parents: those leases of the held ones' parents that exist, by lease key (KCL: BlockOnParentShardTask; a
            parent without a lease blocks nothing).
        leaving: keys of leases that are being handed over; they are not begun again.
        cores: how many tasks run at once; there are never more, because each costs 40 to 70 ms.
        iterators: by lease key, a shard iterator and the position that it continues after.
    """
    planned: list[tuple[float, LeaseRange]] = []
    skipped: list[SkippedLease] = []
    for lease in sorted(held, key=lambda lease: lease.lease_key):
        reason = _reason_to_skip(lease, parents, leaving)
        if reason is not None:
            skipped.append(SkippedLease(lease.lease_key, reason))
            continue
        position, iterator = (iterators or {}).get(lease.lease_key, (None, None))
        read = LeaseRange(
            lease_key=lease.lease_key,
            shard_id=lease.shard_id,
            start=lease.checkpoint,
            hash_key_range=lease.hash_key_range,
            shard_iterator=iterator if position == lease.checkpoint else None,
        )
        planned.append((_KIB_PER_REQUEST + (lease.throughput_kbps or 0.0), read))
    return BatchPlan(_pack(planned, cores), tuple(skipped))


def _reason_to_skip(lease: Lease, parents: Mapping[str, Lease], leaving: Collection[str]) -> str | None:
    if lease.is_finished:
        return "read to its end"
    if lease.lease_key in leaving:
        return "being handed over"
    if lease.pending_checkpoint is not None:
        return "its prepared checkpoint is not decided yet"
    waiting = [key for key in parent_keys(lease) if key in parents and not parents[key].is_finished]
    return f"waits for parent {', '.join(waiting)}" if waiting else None


def _pack(planned: list[tuple[float, LeaseRange]], cores: int) -> tuple[tuple[LeaseRange, ...], ...]:
    """Spread the ranges over the tasks: the heaviest first, each to the task that has least to do."""
    count = min(max(cores, 1), len(planned))
    weights = [0.0] * count
    tasks: list[list[LeaseRange]] = [[] for _ in range(count)]
    for weight, read in sorted(planned, key=lambda entry: (-entry[0], entry[1].lease_key)):
        lightest = min(range(count), key=lambda index: (weights[index], index))
        weights[lightest] += weight
        tasks[lightest].append(read)
    return tuple(tuple(task) for task in tasks)
