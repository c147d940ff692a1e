"""KCL's variance-based decider, vector by vector, and what holds for every fleet."""

from typing import Any

import pytest
from hypothesis import given
from support.fleets import counts_after, fleet, fleets, targets

from kcl_core.assignment.fleet import Fleet
from kcl_core.assignment.plan import AssignmentPlan
from kcl_core.assignment.variance import plan_by_variance
from kcl_core.config import WorkerUtilizationAwareAssignmentConfig

Y, T = "Y C 90,90;80", "T C 50,50;80"


def plan(given_fleet: Fleet, *, balance: bool = True, most: int | None = None, **settings: Any) -> AssignmentPlan:
    config = WorkerUtilizationAwareAssignmentConfig(**{"dampening_percentage": 80, **settings})
    return plan_by_variance(given_fleet, config, balance=balance, max_leases_for_worker=most, graceful=False)


@pytest.mark.parametrize(
    ("name", "workers", "leases", "threshold", "expected"),
    [
        ("G01", [Y, T], ["s:-:-"], 20, {"s": "T"}),
        ("G03", ["W C -1,50,50;80"], ["a:-:-", "b:-:-"], 20, {"a": "W", "b": "W"}),
        ("G06", ["W1 C 41;50", "W2 C 59;50"], ["l1:W2:1000", "l2:W2:1"], 20, {"l2": "W1"}),
        ("G08", [Y, T], ["l1:Y:100", "l2:Y:200", "l3:Y:300", "l4:Y:400"], 10, {"l1": "T"}),
        ("G10", [Y, T], ["l1:Y:300", "l2:Y:299", "l3:Y:301", "l4:T:3000"], 10, {"l2": "T"}),
        ("G11", ["Y1 C 90;80", "Y2 C 90;80", T], ["l1:Y1:10", "l2:Y1:1000", "l3:Y2:10", "l4:Y2:1000", "l5:T:10"], 10,
         {"l1": "T", "l3": "T"}),
        ("G15", [Y, T], ["l1:Y:5", "l2:T:30"], 20, {"l1": "T"}),
        ("G18", ["w1", "w2 C 50;80"], ["l1:-:-", "l2:-:-", "l3:-:-", "l6:w2:10"], 20,
         {"l1": "w1", "l2": "w1", "l3": "w1"}),
        ("G19", ["w1", "w2 C 50;80"], ["l1:w1:100", "l2:w1:200", "l3:w2:300", "l4:w2:400"], 20, {}),
        ("G20", ["w1", "w2 C 90;80"], ["l1:w1:10", "l2:w2:10"], 20, {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_vectors_with_one_outcome(
    name: str, workers: list[str], leases: list[str], threshold: int, expected: dict[str, str]
) -> None:
    assert name
    assert targets(plan(fleet(workers, leases), re_balance_threshold_percentage=threshold)) == expected


@pytest.mark.parametrize(
    ("name", "workers", "leases", "threshold", "source", "target", "moved"),
    [
        ("G04", [Y, T], [f"l{n}:Y:0" for n in range(10)], 20, "Y", "T", 1),
        ("G14", ["R C 90;50", "T C 40;80"], [f"k{n}:R:10" for n in range(6)], 20, "R", "T", 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_vectors_where_only_the_number_counts(
    name: str, workers: list[str], leases: list[str], threshold: int, source: str, target: str, moved: int
) -> None:
    assert name
    moves = plan(fleet(workers, leases), re_balance_threshold_percentage=threshold).moves
    assert [(move.source, move.target) for move in moves] == [(source, target)] * moved


@pytest.mark.parametrize(
    ("name", "workers", "leases", "source", "target", "moved"),
    [
        ("G33", ["A C 70;100", "B C 40;100"], [f"a{n}:A:100" for n in range(7)] + [f"b{n}:B:100" for n in range(4)],
         "A", "B", 1),
        ("G34", ["A C 70;100", "B C 40;100"],
         [f"a{n:02}:A:20" for n in range(35)] + [f"b{n:02}:B:20" for n in range(20)], "A", "B", 4),
        ("G35", ["A C 52;100", "B C 48;100"], ["a:A:10", "b:B:10"], "A", "B", 0),
        ("G36", ["A C 60;100", "B C 0;100"], [f"a{n}:A:10" for n in range(4)], "A", "B", 1),
        ("G37", ["A C 80;100 NI 20;100", "B C 40;100 NI 60;100"],
         [f"a{n}:A:100" for n in range(5)] + [f"b{n}:B:100" for n in range(5)], "A", "B", 0),
        ("G38", ["A", "B", "C"], [f"a{n}:A:100" for n in range(6)] + ["b0:B:100", "b1:B:100", "c0:C:100"], "A", "C", 1),
        ("G41", ["A C 90;80"], ["a:A:10", "b:A:20"], "A", "A", 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_computed_vectors_with_the_librarys_defaults(
    name: str, workers: list[str], leases: list[str], source: str, target: str, moved: int
) -> None:
    assert name
    moves = plan(fleet(workers, leases), dampening_percentage=60).moves
    assert [(move.source, move.target) for move in moves] == [(source, target)] * moved


def test_g05_no_worker_gets_more_leases_than_it_may_have() -> None:
    made = plan(fleet([T], ["a:-:-", "b:-:-", "c:-:-"]), most=2)
    assert targets(made) == {"a": "T", "b": "T"}
    assert [left.lease_key for left in made.unplaced] == ["c"]


def test_g09_without_overshoot_nothing_moves_that_does_not_fit() -> None:
    leases = ["l1:Y:300", "l2:Y:299", "l3:Y:301", "l4:T:3000"]
    assert not plan(fleet([Y, T], leases), allow_throughput_overshoot=False)


def test_g13_leases_move_until_the_target_would_pass_the_average() -> None:
    leases = ["Y1:Y:1000", "T1:-:-", *(f"Y{n}:Y:10" for n in (2, 3, 5, 6, 7, 8, 9))]
    moved = targets(plan(fleet([Y, T], leases)))
    assert moved.pop("T1") == "T"
    assert sorted(moved.values()) == ["T"] * 3
    assert "Y1" not in moved


def test_g39_leases_without_throughput_go_where_there_is_most_headroom() -> None:
    made = plan(fleet(["A C 10;100", "B C 22;100", "C C 34;100"], [f"l{n}:-:-" for n in range(1, 7)]))
    assert [move.target for move in made.moves] == ["A", "A", "B", "A", "B", "C"]


def test_g40_an_idle_worker_is_preferred_to_a_loaded_one() -> None:
    assert targets(plan(fleet(["A C 20;100", "B C 0;100"], ["u:-:-", "x:A:10"]), balance=False)) == {"u": "B"}


def test_g42_equal_idle_workers_share_evenly() -> None:
    given_fleet = fleet([f"W{n}" for n in range(1, 5)], [f"l{n}:-:-" for n in range(4)])
    assert counts_after(given_fleet, plan(given_fleet)) == {"W1": 1, "W2": 1, "W3": 1, "W4": 1}


@given(fleets())
def test_every_plan_is_sound(given_fleet: Fleet) -> None:
    """Moves go to active workers only, one per lease, and no lease without an owner is forgotten."""
    made = plan(given_fleet)
    active = {worker.worker_id for worker in given_fleet.workers}
    moved = [move.lease_key for move in made.moves]
    assert len(moved) == len(set(moved))
    views = {view.lease.lease_key: view for view in given_fleet.leases}
    for move in made.moves:
        assert move.target in active
        assert move.reason
        view = views[move.lease_key]
        assert move.source == view.owner
        assert view.is_available or move.source != move.target
    left = {each.lease_key for each in made.unplaced}
    for view in given_fleet.available:
        if view.owner in active:
            continue  # an expired lease whose owner reports may be left to it, as in KCL
        assert view.lease.lease_key in {*moved, *left}


@given(fleets())
def test_without_balancing_only_leases_without_a_live_owner_move(given_fleet: Fleet) -> None:
    available = {view.lease.lease_key for view in given_fleet.available}
    assert set(targets(plan(given_fleet, balance=False))) <= available


@given(fleets())
def test_a_plan_is_the_same_for_the_same_fleet(given_fleet: Fleet) -> None:
    assert plan(given_fleet) == plan(given_fleet)
