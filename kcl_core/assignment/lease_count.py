"""Decider `lease_count`: each worker up to an equal share of the leases, whatever they weigh. Pure.

KCL: LeaseCountBasedLeaseAssignmentDecider. One difference: a worker at `max_leases_for_worker` gets nothing more,
where Java gives one to each worker that it visits.
"""

from collections import deque

from kcl_core.assignment.fleet import Fleet, LeaseView
from kcl_core.assignment.handoff import is_blocked
from kcl_core.assignment.plan import AssignmentPlan, Move, Unplaced


def plan_by_lease_count(
    fleet: Fleet, *, balance: bool, max_leases_for_worker: int | None = None, graceful: bool = True
) -> AssignmentPlan:
    """Fill workers up to their share with leases that have no live owner, then, if asked, level the others.

    The share is leases by workers, rounded up, so that the last worker may end below it.

    Args:
        fleet: the snapshot; utilisation is ignored.
        balance: whether to level.
        max_leases_for_worker: bound for each worker; leases beyond the fleet's capacity are reported unplaced.
        graceful: whether live owners are asked to hand over rather than lose the lease at once.
    """
    held: dict[str, list[LeaseView]] = {worker.worker_id: [] for worker in fleet.workers}
    for view in sorted(fleet.leases, key=lambda view: view.lease.lease_key):
        if view.owner in held:
            held[view.owner].append(view)
    limit = max_leases_for_worker or len(fleet.leases)
    share = min(limit, -(-len(fleet.leases) // max(1, len(held))))
    moves, unplaced = _fill(fleet, held, share, limit)
    if balance:
        moves |= _level(fleet, held, share)
    views = {view.lease.lease_key: view for view in fleet.leases}
    effective = [move for key, move in moves.items() if _changes(views[key], move)]
    return fleet.finish_plan(effective, unplaced, graceful=graceful)


def _fill(
    fleet: Fleet, held: dict[str, list[LeaseView]], share: int, limit: int
) -> tuple[dict[str, Move], list[Unplaced]]:
    to_place = deque(fleet.available)
    moves: dict[str, Move] = {}
    for worker_id in sorted(held, key=lambda worker_id: (len(held[worker_id]), worker_id)):
        # A lease that goes back to its silent owner does not add to what that worker has.
        while to_place and len(held[worker_id]) - (to_place[0].owner == worker_id) < limit:
            view = to_place.popleft()
            if view.owner in held:
                held[view.owner].remove(view)
            held[worker_id].append(view)
            reason = f"{fleet.why_available(view)}; {worker_id} has {len(held[worker_id])} leases with it, {share} due"
            moves[view.lease.lease_key] = Move(view.lease.lease_key, view.owner, worker_id, reason)
            if len(held[worker_id]) >= share:
                break
    unplaced = [
        Unplaced(view.lease.lease_key, f"{fleet.why_available(view)}; no active worker may take more leases")
        for view in to_place
    ]
    return moves, unplaced


def _level(fleet: Fleet, held: dict[str, list[LeaseView]], share: int) -> dict[str, Move]:
    """Two pointers over the workers by number of leases: the emptiest takes from the fullest until they meet."""
    moves: dict[str, Move] = {}
    emptiest_first = sorted(held, key=lambda worker_id: (len(held[worker_id]), worker_id))
    left, right = 0, len(emptiest_first) - 1
    while left < right:
        target, source = emptiest_first[left], emptiest_first[right]
        movable = [view for view in held[source] if not _is_blocked(fleet, view)]
        if len(held[target]) >= share:
            left += 1
        elif len(held[source]) <= share or not movable:
            right -= 1
        else:
            view = movable[0]
            reason = f"{source} has {len(held[source])} leases, {target} {len(held[target])}, {share} due"
            moves[view.lease.lease_key] = Move(view.lease.lease_key, view.owner, target, reason)
            held[source].remove(view)
            held[target].append(view)
    return moves


def _is_blocked(fleet: Fleet, view: LeaseView) -> bool:
    return is_blocked(view.lease, view.handoff, available=view.is_available, now=fleet.now)


def _changes(view: LeaseView, move: Move) -> bool:
    # Assigning to the same owner matters only for a row stuck in the handoff of an owner that has fallen silent.
    return view.owner != move.target or (view.is_available and view.lease.checkpoint_owner is not None)
