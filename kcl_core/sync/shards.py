"""The shards of one listing as a graph: who continues whom, what is open, what is missing. Pure."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from kcl_core.errors import ShardGraphError
from kcl_core.leases.model import HashKeyRange
from kcl_core.streams.api import MAX_HASH_KEY, Shard


@dataclass(frozen=True, slots=True)
class ShardGraph:
    """One listing of a stream's shards, checked for contradictions.

    Attributes:
        stream: name of the stream, for messages.
        shards: all listed shards by id.
        order: all listed shards, parents before children, else by starting sequence number and then
            shard id as text (KCL: StartingSequenceNumberAndShardIdBasedComparator). Leases are created in this
            order, so that a crash in between leaves the older shards leased.
        children_of: ids of the listed children, sorted, by the id of a parent, which need not be listed itself.
    """

    stream: str
    shards: Mapping[str, Shard]
    order: tuple[Shard, ...]
    children_of: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, shards: Iterable[Shard], *, stream: str) -> Self:
        """Build the graph.

        Raises:
            ShardGraphError: an id is listed twice, a shard continues itself or ends before it starts, or parents
                form a cycle; the listing must not be acted on.
        """
        listing = list(shards)
        by_id: dict[str, Shard] = {}
        children: defaultdict[str, set[str]] = defaultdict(set)
        for shard in listing:
            if shard.shard_id in by_id:
                raise ShardGraphError("a shard is listed twice", stream=stream, shards=[shard.shard_id])
            if not 0 <= shard.starting_hash_key <= shard.ending_hash_key <= MAX_HASH_KEY:
                raise ShardGraphError("impossible range of hash keys", stream=stream, shards=[shard.shard_id])
            by_id[shard.shard_id] = shard
            for parent in shard.parents:
                children[parent].add(shard.shard_id)
        return cls(
            stream,
            by_id,
            _parents_first(by_id, children, stream),
            {parent: tuple(sorted(ids)) for parent, ids in children.items()},
        )

    @property
    def open(self) -> tuple[Shard, ...]:
        """Shards that records may still be written to, in `order`."""
        return tuple(shard for shard in self.order if shard.is_open)

    def parents(self, shard: Shard) -> tuple[str, ...]:
        """Ids of the parents of ``shard`` that are listed: a parent expires with the last of its records."""
        return tuple(dict.fromkeys(parent for parent in shard.parents if parent in self.shards))

    def children(self, shard_id: str) -> tuple[str, ...]:
        """Ids of the listed shards that continue ``shard_id``, sorted."""
        return self.children_of.get(shard_id, ())

    @property
    def unexpected_children(self) -> frozenset[str]:
        """Ids of shards whose parent is listed as open: the listing was taken in the middle of a reshard.

        KCL: HierarchicalShardSyncer.findInconsistentShardIds.
        """
        return frozenset(child for shard in self.order if shard.is_open for child in self.children(shard.shard_id))

    @property
    def holes(self) -> tuple[HashKeyRange, ...]:
        """Ranges of hash keys that no open shard takes; empty for a settled stream."""
        return uncovered(HashKeyRange(shard.starting_hash_key, shard.ending_hash_key) for shard in self.open)


def uncovered(ranges: Iterable[HashKeyRange]) -> tuple[HashKeyRange, ...]:
    """Return the parts of 0 .. 2**128 - 1 that lie in none of ``ranges``, which may overlap."""
    gaps, next_key = [], 0
    for each in sorted(ranges):
        if each.starting > next_key:
            gaps.append(HashKeyRange(next_key, each.starting - 1))
        next_key = max(next_key, each.ending + 1)
    if next_key <= MAX_HASH_KEY:
        gaps.append(HashKeyRange(next_key, MAX_HASH_KEY))
    return tuple(gaps)


def find_incompleteness(shards: Collection[Shard]) -> str | None:
    """Say why ``shards`` do not tile 0 .. 2**128 - 1 exactly, or return None if they do.

    A filtered listing shows the shards of one moment, so that an overlap is as suspicious as a gap
    (KCL: HierarchicalShardSyncer.isHashRangeOfShardsComplete).
    """
    if not shards:
        return "the listing is empty"
    next_key = 0
    for shard in sorted(shards, key=lambda shard: (shard.starting_hash_key, shard.ending_hash_key)):
        if shard.starting_hash_key != next_key:
            what = "is missing" if shard.starting_hash_key > next_key else "is taken twice"
            return f"hash key {min(next_key, shard.starting_hash_key)} {what} before {shard.shard_id}"
        next_key = shard.ending_hash_key + 1
    return None if next_key == MAX_HASH_KEY + 1 else f"hash key {next_key} and above are missing"


def _parents_first(
    shards: Mapping[str, Shard], children: Mapping[str, Collection[str]], stream: str
) -> tuple[Shard, ...]:
    # Kahn's algorithm with a heap. Where every child starts after its parents, as in Kinesis, this is the plain
    # sort by (starting sequence number, id); an emulator that numbers otherwise still gets its parents first.
    waits = {shard.shard_id: len({p for p in shard.parents if p in shards}) for shard in shards.values()}
    ready = [(int(shards[key].starting_sequence_number), key) for key, count in waits.items() if count == 0]
    heapq.heapify(ready)
    order: list[Shard] = []
    while ready:
        _, shard_id = heapq.heappop(ready)
        order.append(shards[shard_id])
        for child in children.get(shard_id, ()):
            waits[child] -= 1
            if waits[child] == 0:
                heapq.heappush(ready, (int(shards[child].starting_sequence_number), child))
    if len(order) < len(shards):
        cyclic = [shard_id for shard_id, count in waits.items() if count > 0]
        raise ShardGraphError("parents form a cycle", stream=stream, shards=cyclic)
    return tuple(order)
