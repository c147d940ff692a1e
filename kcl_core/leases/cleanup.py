"""Which leases may be deleted, which must wait and for what. Pure.

KCL: LeaseCleanupManager, which each worker runs for the shards that it finished itself. Here the leader looks at
all leases and one listing of the stream's shards at once; the conditions are the same, with two more:
a finished lease waits while Kinesis still lists its shard but not its children, and the lease of an expired
shard waits until the shard's children are leased (else they would be read from the initial position).
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from kcl_core.leases.model import Lease

# KCL: a child at one of these has not been read yet; LATEST, a number or SHARD_END is progress.
_NOT_BEGUN = ("TRIM_HORIZON", "AT_TIMESTAMP")


@dataclass(frozen=True, slots=True)
class Deletion:
    """One lease to delete, and why.

    Attributes:
        lease: as it was decided on; to be deleted only if its checkpoint still is this one.
        kind: ``completed`` if its shard was read to the end, ``garbage`` if Kinesis has dropped the shard.
    """

    lease: Lease
    kind: Literal["completed", "garbage"]
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """One lease that will go, but not yet, and what it waits for."""

    lease_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChildrenFound:
    """Children of a finished shard that its row does not name yet."""

    lease_key: str
    child_shard_ids: frozenset[str]
    reason: str


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """What to delete. Falsy when there is nothing to write.

    Attributes:
        deletions: in this order, parents before children. A child's goes only if its parents' are gone.
        children: rows to complete, of leases that stay for now.
        waiting: everything else that is finished or gone.
    """

    deletions: tuple[Deletion, ...] = ()
    children: tuple[ChildrenFound, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def __len__(self) -> int:
        return len(self.deletions) + len(self.children)


def plan_cleanup(
    leases: Iterable[Lease],
    listed: AbstractSet[str],
    children_of: Mapping[str, Collection[str]],
    *,
    cleanup_completed: bool = True,
) -> CleanupPlan:
    """Plan which of ``leases`` may go.

    Args:
        leases: all leases of the stream.
        listed: ids of all shards that Kinesis lists. None listed means that nothing is known: nothing goes.
        children_of: ids of listed children by the id of the parent, listed or not.
        cleanup_completed: KCL's cleanupLeasesUponShardCompletion; without it only garbage goes.
    """
    by_shard = {lease.shard_id: lease for lease in sorted(leases, key=lambda lease: lease.lease_key)}
    if not listed:
        return CleanupPlan()
    candidates = {
        shard_id: _Candidate(lease, shard_id not in listed, frozenset(children_of.get(shard_id, ())))
        for shard_id, lease in by_shard.items()
        if shard_id not in listed or (lease.is_finished and cleanup_completed)
    }
    deletions: list[Deletion] = []
    remaining = set(by_shard)
    while free := [each for each in candidates.values() if _obstacle(each, by_shard, remaining) is None]:
        # The oldest of each chain; with them gone, perhaps the next ones.
        for each in free:
            deletions.append(_deletion(each))
            remaining.remove(each.lease.shard_id)
            del candidates[each.lease.shard_id]
    kept = [(each.lease.lease_key, _obstacle(each, by_shard, remaining)) for each in candidates.values()]
    return CleanupPlan(
        tuple(deletions),
        tuple(
            ChildrenFound(each.lease.lease_key, each.listed_children, "Kinesis names them, the row does not")
            for each in candidates.values()
            if each.lease.is_finished and each.listed_children and not each.lease.child_shard_ids
        ),
        tuple(Waiting(lease_key, reason) for lease_key, reason in kept if reason is not None),
    )


@dataclass(frozen=True, slots=True)
class _Candidate:
    lease: Lease
    is_gone: bool
    listed_children: frozenset[str]

    @property
    def children(self) -> list[str]:
        # Of a shard that is gone, recorded children that are not listed have themselves come and gone.
        recorded = frozenset() if self.is_gone else self.lease.child_shard_ids
        return sorted(recorded or self.listed_children)


def _obstacle(candidate: _Candidate, leases: Mapping[str, Lease], remaining: AbstractSet[str]) -> str | None:
    """Say what keeps the lease from being deleted, or return None."""
    if parents := sorted(remaining & candidate.lease.parent_shard_ids):
        return f"the lease of its parent {parents[0]} goes first"
    if candidate.lease.pending_checkpoint is not None:
        return "its owner has prepared a checkpoint"
    for child in candidate.children:
        if child not in leases:
            return f"its child {child} has no lease yet"
        if not candidate.is_gone and leases[child].checkpoint.sequence_number in _NOT_BEGUN:
            return f"reading of its child {child} has not begun"
    return None if candidate.is_gone or candidate.children else "Kinesis names no children yet"


def _deletion(candidate: _Candidate) -> Deletion:
    if candidate.is_gone:
        unread = "" if candidate.lease.is_finished else f"; it was read up to {candidate.lease.checkpoint} only"
        return Deletion(candidate.lease, "garbage", f"Kinesis no longer has the shard{unread}")
    children = " and ".join(candidate.children)
    return Deletion(candidate.lease, "completed", f"read to its end, and {children} are being read")
