"""KCL's lease-count decider, vector by vector, and what holds for every fleet."""

import pytest
from hypothesis import given
from support.fleets import counts_after, fleet, fleets

from kcl_core.assignment.fleet import Fleet
from kcl_core.assignment.lease_count import plan_by_lease_count
from kcl_core.assignment.plan import AssignmentPlan


def plan(given_fleet: Fleet, *, balance: bool = True, most: int = 10) -> AssignmentPlan:
    return plan_by_lease_count(given_fleet, balance=balance, max_leases_for_worker=most, graceful=False)


def owned(**numbers: int) -> list[str]:
    return [f"{owner}{n:02}:{owner}:1" for owner, number in numbers.items() for n in range(number)]


@pytest.mark.parametrize(
    ("name", "workers", "leases", "moves", "counts"),
    [
        ("H01", [], [], 0, {}),
        ("H02", ["w1"], ["a:-:-", "b:-:-"], 2, {"w1": 2}),
        ("H03", ["w1", "w2"], ["a:-:-", "b:-:-", "c:-:-"], 3, {"w1": 2, "w2": 1}),
        ("H04", ["w1", "w2"], owned(w1=1, w2=1), 0, {"w1": 1, "w2": 1}),
        ("H05", ["w1", "w2"], owned(w1=2), 1, {"w1": 1, "w2": 1}),
        ("H06", ["w1", "w2"], [*owned(w1=2), "x:-:-", "y:-:-", "z:-:-"], 3, {"w1": 2, "w2": 3}),
        ("H09", ["w1", "w2"], owned(w1=12, w2=12), 0, {"w1": 12, "w2": 12}),
        ("H10", ["w1"], [f"l{n:02}:-:-" for n in range(15)], 10, {"w1": 10}),
        ("H11", ["w1", "w2"], [f"l{n}:dead:1:expired" for n in range(3)], 3, {"w1": 2, "w2": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_vectors(name: str, workers: list[str], leases: list[str], moves: int, counts: dict[str, int]) -> None:
    assert name
    given_fleet = fleet(workers, leases)
    made = plan(given_fleet)
    assert len(made) == moves
    assert counts_after(given_fleet, made) == counts


def test_h10_the_leases_beyond_the_fleets_capacity_are_named() -> None:
    assert len(plan(fleet(["w1"], [f"l{n:02}:-:-" for n in range(15)])).unplaced) == 5


@given(fleets())
def test_every_plan_is_sound_and_ends_level(given_fleet: Fleet) -> None:
    made = plan(given_fleet, most=100)
    active = {worker.worker_id for worker in given_fleet.workers}
    assert {move.target for move in made.moves} <= active
    assert len({move.lease_key for move in made.moves}) == len(made.moves)
    live = [view for view in given_fleet.leases if view.owner in active or view.is_available]
    if active and len(live) == len(given_fleet.leases):
        counts = counts_after(given_fleet, made)
        share = -(-len(given_fleet.leases) // len(active))
        assert max(counts.values()) <= max(share, *counts_after(given_fleet, AssignmentPlan()).values())
