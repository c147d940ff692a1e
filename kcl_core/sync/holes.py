"""Whether the active leases cover every hash key, and how sure we are that they do not. Pure.

KCL: PeriodicShardSyncManager, the "leases recovery auditor". A hole in one look is usual (the parent is
finished and its children are not leased yet, or the scan was torn); the same hole several times in a row is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.streams.api import MAX_HASH_KEY


@dataclass(frozen=True, slots=True)
class Hole:
    """Two neighbouring leases with keys between them that nobody reads.

    Attributes:
        left: range of the lease before the hole; None if there is no active lease at all.
        right: range of the lease after it. At an end of the key space: the last of all ranges.
    """

    left: HashKeyRange | None
    right: HashKeyRange | None


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Attributes:
        hole: the first hole, or None.
        times: how many audits in a row have found this very hole, this one included.
        confirmed: whether that is often enough to act on.
        reason: for people.
    """

    hole: Hole | None
    times: int
    confirmed: bool
    reason: str


def find_hole(ranges: Iterable[HashKeyRange]) -> Hole | None:
    """Return the first hole between ``ranges``, which may overlap, or None.

    As KCL does, takes the last range in order of (start, end) for the one that reaches furthest, so a range
    nested in a longer one at the end of the key space is reported although nothing is missing.
    """
    ordered = sorted(ranges)
    if not ordered:
        return Hole(None, None)
    if ordered[0].starting != 0 or ordered[-1].ending != MAX_HASH_KEY:
        return Hole(ordered[0], ordered[-1])
    left, reached = ordered[0], ordered[0].ending
    for each in ordered[1:]:
        if each.starting > reached + 1:
            return Hole(left, each)
        if each.starting == reached + 1:
            left, reached = each, each.ending
        else:
            reached = max(reached, each.ending)
    return None


def audit(leases: Iterable[Lease], earlier: Audit | None = None, *, threshold: int = 3) -> Audit:
    """Look for a hole between the ranges of the unfinished ``leases``.

    Args:
        leases: all leases of the stream; those without a range of hash keys are not judged.
        earlier: this observer's last audit of the stream.
        threshold: KCL's leasesRecoveryAuditorInconsistencyConfidenceThreshold.
    """
    found = list(leases)
    if not found:
        return Audit(None, 0, confirmed=True, reason="there are no leases")
    hole = find_hole(lease.hash_key_range for lease in found if lease.hash_key_range and not lease.is_finished)
    if hole is None:
        return Audit(None, 0, confirmed=False, reason="every hash key is in an active lease")
    times = earlier.times + 1 if earlier is not None and earlier.hole == hole else 1
    where = (
        f"no active lease between {hole.left.ending} and {hole.right.starting}"
        if hole.left and hole.right and hole.left.ending < hole.right.starting
        else "the active leases do not reach both ends of the key space"
    )
    return Audit(hole, times, times >= threshold, f"{where}, seen {times} of {threshold} times")
