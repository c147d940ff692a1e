"""Which leases a listing of shards calls for. Pure.

Two planners. `plan_leases` takes exactly the decisions of KCL's HierarchicalShardSyncer. `plan_leases_ahead` adds one
of our own: children of a closed shard are leased as soon as their parent's lease exists, rather than when the
parent has been read to its end. The rows are those that the finishing worker would write. They may be assigned
early, so a reshard is balanced before the parents are drained; no worker, Java's included, reads a child
before its parents are at SHARD_END.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kcl_core.config import InitialPosition
from kcl_core.errors import ShardGraphError
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import Shard
from kcl_core.sync.shards import ShardGraph, find_incompleteness


@dataclass(frozen=True, slots=True)
class NewLease:
    """One lease to create, and why.

    Attributes:
        follows: keys of the parents' leases whose existence is the reason; empty for KCL's own decisions.
    """

    lease: Lease
    reason: str
    follows: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MissingRange:
    """One lease row without a range of hash keys, as old versions wrote it, and the range that its shard has."""

    lease_key: str
    hash_key_range: HashKeyRange
    reason: str


@dataclass(frozen=True, slots=True)
class LeaseSyncPlan:
    """Leases to create, in this order. Falsy when there is nothing to do.

    Attributes:
        entries: parents before children, older shards first.
        ranges: rows to complete.
        listed: number of shards in the listing.
        leased: number of leases found in the table.
        problem: why this listing cannot be acted on; then there are no entries. To be raised by whoever applies.
    """

    entries: tuple[NewLease, ...] = ()
    ranges: tuple[MissingRange, ...] = ()
    listed: int = 0
    leased: int = 0
    problem: ShardGraphError | None = None

    def __len__(self) -> int:
        return len(self.entries) + len(self.ranges)


def plan_first_leases(
    shards: Collection[Shard],
    initial_position: InitialPosition,
    *,
    ignore_unexpected_child_shards: bool = False,
    stream: str = "unnamed",
) -> LeaseSyncPlan:
    """Plan a lease for each shard of a listing filtered by the initial position, for a table without leases.

    KCL: EmptyLeaseTableSynchronizer, and the check for complete hash ranges that comes before it.
    """
    try:
        graph = _consistent(shards, stream, ignore=ignore_unexpected_child_shards)
        if why := find_incompleteness(shards):
            raise ShardGraphError(why, stream=stream, shards=graph.shards)  # noqa: TRY301 - one place makes the plan
    except ShardGraphError as problem:
        return LeaseSyncPlan(listed=len(shards), problem=problem)
    position = initial_position.position
    entries = (
        NewLease(_lease(shard, position), f"first lease of the stream, from {position}") for shard in graph.order
    )
    return LeaseSyncPlan(tuple(entries), listed=len(shards))


def plan_leases(
    shards: Collection[Shard],
    leases: Collection[Lease],
    initial_position: InitialPosition,
    *,
    ignore_unexpected_child_shards: bool = False,
    stream: str = "unnamed",
) -> LeaseSyncPlan:
    """Plan the leases that KCL would create for an unfiltered listing and a table with ``leases``.

    KCL: NonEmptyLeaseTableSynchronizer. A shard that will be leased when its parents end gets no entry.

    Args:
        shards: all shards of the stream.
        leases: all leases of the stream, finished ones included.
        initial_position: where shards without leased ancestors are read from.
        ignore_unexpected_child_shards: leave children of open shards out, rather than reporting a problem.
        stream: name for messages.
    """
    try:
        graph = _consistent(shards, stream, ignore=ignore_unexpected_child_shards)
    except ShardGraphError as problem:
        return LeaseSyncPlan(listed=len(shards), leased=len(leases), problem=problem)
    leased = {lease.shard_id for lease in leases}
    entries = _missing_leases(graph, leased, initial_position)
    return LeaseSyncPlan(tuple(entries), _missing_ranges(graph, leases), len(shards), len(leases))


def plan_leases_ahead(
    shards: Collection[Shard],
    leases: Collection[Lease],
    initial_position: InitialPosition,
    *,
    ignore_unexpected_child_shards: bool = False,
    stream: str = "unnamed",
) -> LeaseSyncPlan:
    """Plan as `plan_leases` does, and lease the descendants of leased shards at once. This is ours, not KCL's.

    One decision of KCL's changes: a shard whose leased parent has expired from the stream is read from
    TRIM_HORIZON, as the parent's worker would have ordered, not from the initial position.
    """
    try:
        graph = _consistent(shards, stream, ignore=ignore_unexpected_child_shards)
    except ShardGraphError as problem:
        return LeaseSyncPlan(listed=len(shards), leased=len(leases), problem=problem)
    leased = {lease.shard_id for lease in leases}
    entries = {entry.lease.lease_key: entry for entry in children_ahead(graph, leased)}
    missing = _missing_leases(graph, leased | entries.keys(), initial_position)
    entries |= {entry.lease.lease_key: entry for entry in missing}
    entries |= {entry.lease.lease_key: entry for entry in children_ahead(graph, leased | entries.keys())}
    in_order = tuple(entries[shard.shard_id] for shard in graph.order if shard.shard_id in entries)
    return LeaseSyncPlan(in_order, _missing_ranges(graph, leases), len(shards), len(leases))


def children_ahead(graph: ShardGraph, leased: AbstractSet[str]) -> tuple[NewLease, ...]:
    """Plan a lease for each listed descendant of the ``leased`` shards that has none. This is ours, not KCL's.

    The row is the one that the worker finishing the parent writes (KCL: ShutdownTask.createLeasesForChildShards):
    checkpoint TRIM_HORIZON whatever the initial position. A child of a merge waits until all of its listed
    parents are leased; a parent that has expired from the stream has nothing left to wait for.
    """
    known = set(leased)
    unexpected = graph.unexpected_children
    entries = []
    for shard in graph.order:
        leased_parents = frozenset(known.intersection(shard.parents))
        if shard.shard_id in known or shard.shard_id in unexpected or not leased_parents:
            continue
        if not leased_parents.issuperset(graph.parents(shard)):
            continue
        known.add(shard.shard_id)
        reason = f"continues {' and '.join(sorted(leased_parents))}, leased already"
        entries.append(NewLease(_lease(shard, "TRIM_HORIZON"), reason, leased_parents))
    return tuple(entries)


def _consistent(shards: Collection[Shard], stream: str, *, ignore: bool) -> ShardGraph:
    graph = ShardGraph.of(shards, stream=stream)
    if (unexpected := graph.unexpected_children) and not ignore:
        raise ShardGraphError("shards are listed whose parents are still open", stream=stream, shards=unexpected)
    return graph


def _missing_leases(graph: ShardGraph, leased: AbstractSet[str], initial_position: InitialPosition) -> list[NewLease]:
    position = initial_position.position
    unexpected = graph.unexpected_children
    evaluated = _ancestry(graph, leased, (s.shard_id for s in graph.open if s.shard_id not in unexpected))
    is_descendant, oldest = _descent(graph, leased, evaluated, walks_back=position != "LATEST")
    why: dict[str, str] = {}
    for shard in evaluated:
        if shard.shard_id in leased:
            continue
        if is_descendant[shard.shard_id]:
            for parent in graph.parents(shard):
                if not is_descendant[parent]:
                    role = "oldest ancestor without a lease" if parent in oldest else "the other parent"
                    why.setdefault(parent, f"{role} of {shard.shard_id}, from {position}")
        elif shard.is_open and shard.shard_id not in unexpected:
            why.setdefault(shard.shard_id, f"open, no ancestor has a lease, from {position}")
    return [NewLease(_lease(s, position), why[s.shard_id]) for s in graph.order if s.shard_id in why]


def _ancestry(graph: ShardGraph, leased: AbstractSet[str], of: Iterable[str]) -> tuple[Shard, ...]:
    """Return, parents first, the shards ``of`` without lease and their listed ancestors, up to leased ones."""
    reached = set(of) - leased
    todo = list(reached)
    while todo:
        shard_id = todo.pop()
        if shard_id not in leased:
            new = set(graph.parents(graph.shards[shard_id])) - reached
            reached |= new
            todo += new
    return tuple(shard for shard in graph.order if shard.shard_id in reached)


def _descent(
    graph: ShardGraph, leased: AbstractSet[str], evaluated: Iterable[Shard], *, walks_back: bool
) -> tuple[Mapping[str, bool], AbstractSet[str]]:
    """Return whether each shard has, or will have, a leased ancestor or lease; and the roots to start from.

    KCL: HierarchicalShardSyncer.checkIfDescendantAndAddNewLeasesForAncestors, with its memoisation unrolled:
    shards come parents first, so no recursion is needed. All leases planned there end up with the sentinel
    of the initial position, whichever of its branches sets it. ``walks_back`` says that records from before now
    are wanted (TRIM_HORIZON, AT_TIMESTAMP), so that the oldest listed ancestor is read first.
    """
    is_descendant: dict[str, bool] = {}
    oldest: set[str] = set()
    for shard in evaluated:
        shard_id = shard.shard_id
        if shard_id in leased:
            is_descendant[shard_id] = True
            continue
        is_descendant[shard_id] = any(is_descendant[parent] or parent in oldest for parent in graph.parents(shard))
        if walks_back and not is_descendant[shard_id]:
            oldest.add(shard_id)
    return is_descendant, oldest


def _missing_ranges(graph: ShardGraph, leases: Iterable[Lease]) -> tuple[MissingRange, ...]:
    """Plan the hash ranges of unfinished rows that lack one (KCL: PeriodicShardSyncManager.fillWithHashRanges)."""
    found = []
    for lease in sorted(leases, key=lambda lease: lease.lease_key):
        shard = graph.shards.get(lease.shard_id)
        if lease.hash_key_range is None and not lease.is_finished and shard is not None:
            hash_key_range = _hash_key_range(shard)
            if hash_key_range is not None:
                found.append(MissingRange(lease.lease_key, hash_key_range, "the row has no range of hash keys"))
    return tuple(found)


def _lease(shard: Shard, sentinel: str) -> Lease:
    return Lease(
        lease_key=shard.shard_id,
        checkpoint=ExtendedSequenceNumber(sentinel),
        parent_shard_ids=frozenset(shard.parents),
        hash_key_range=_hash_key_range(shard),
    )


def _hash_key_range(shard: Shard) -> HashKeyRange | None:
    # Java rejects a row whose range holds one key only; without a range it can read the row.
    if shard.starting_hash_key == shard.ending_hash_key:
        return None
    return HashKeyRange(shard.starting_hash_key, shard.ending_hash_key)
