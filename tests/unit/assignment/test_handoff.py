"""Graceful handoffs as the leader sees them: vectors of both deciders, and what holds for every handoff."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fleets import NOW, fleets, targets
from support.fleets import lease as view_of
from support.fleets import worker as worker_of

from kcl_core.assignment.fleet import Fleet, LeaseView
from kcl_core.assignment.handoff import Handoff, is_blocked, is_eligible, observe_handoffs
from kcl_core.assignment.lease_count import plan_by_lease_count
from kcl_core.assignment.plan import AssignmentPlan
from kcl_core.assignment.variance import plan_by_variance
from kcl_core.config import WorkerUtilizationAwareAssignmentConfig
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber

ALLOWED = 40.0
CONFIG = WorkerUtilizationAwareAssignmentConfig()


def handing_over(text: str, target: str, deadline: float) -> LeaseView:
    """Return the lease of ``text``, which its owner is handing over to ``target`` until ``deadline``."""
    view = view_of(text)
    row = replace(view.lease, lease_owner=target, checkpoint_owner=view.lease.lease_owner)
    assert row.checkpoint_owner is not None
    return replace(view, lease=row, handoff=Handoff(row.checkpoint_owner, target, deadline))


def by_count(*views: LeaseView) -> AssignmentPlan:
    fleet = Fleet((worker_of("w1"), worker_of("w2")), views, (), NOW)
    return plan_by_lease_count(fleet, balance=True, max_leases_for_worker=10, graceful=False)


def test_h07_a_lease_that_is_being_handed_over_does_not_move() -> None:
    made = by_count(view_of("a:w1:1"), handing_over("b:w1:1", "w3", NOW + 1))
    assert targets(made) == {"a": "w2"}


def test_h08_a_handoff_that_takes_too_long_does_not_keep_the_lease() -> None:
    made = by_count(view_of("a:w1:1"), handing_over("b:w1:1", "w3", NOW))
    assert len(made) == 1
    assert set(targets(made).values()) == {"w2"}


def test_a_finished_shard_is_never_handed_over_gracefully() -> None:
    view = view_of("a:w1:1")
    finished = replace(view, lease=replace(view.lease, checkpoint=ExtendedSequenceNumber.SHARD_END))
    fleet = Fleet((worker_of("w2"),), (finished, view_of("b:w2:1"), view_of("c:-:1")), (), NOW)
    assert not is_eligible(finished.lease, available=False)
    made = plan_by_lease_count(fleet, balance=True, graceful=True)
    assert {move.kind for move in made.moves} == {"assign"}


def test_g17_the_lease_of_a_silent_owner_moves_whatever_time_its_handoff_has_left() -> None:
    silent = replace(handing_over("a:gone:1", "heir", NOW + 30), is_expired=True)
    made = plan_by_variance(Fleet((worker_of("t"),), (silent,), (), NOW), CONFIG, balance=True)
    assert [(move.source, move.target, move.kind) for move in made.moves] == [("gone", "t", "assign")]


def test_a_row_stuck_in_the_handoff_of_a_silent_owner_may_go_back_to_that_owner() -> None:
    """Only another assignment clears its checkpoint owner."""
    stuck = replace(handing_over("a:t:1", "gone", NOW + 30), is_expired=True)
    fleet = Fleet((worker_of("t"),), (stuck,), (), NOW)
    assert targets(plan_by_variance(fleet, CONFIG, balance=True)) == {"a": "t"}
    assert targets(plan_by_lease_count(fleet, balance=True)) == {"a": "t"}


def test_a_blocked_lease_is_told_with_the_time_it_has_left() -> None:
    leases = (handing_over("a:hot:10", "other", NOW + 7), view_of("b:hot:100"))
    workers = (worker_of("cool C 10;100"), worker_of("hot C 90;100"))
    made = plan_by_variance(Fleet(workers, leases, (), NOW), CONFIG, balance=True)
    assert made.moves == ()
    assert [(left.lease_key, left.reason) for left in made.unplaced] == [("a", "hot may hand it over for another 7 s")]


NAMES = st.sampled_from(["a", "b", "c"])
LEASES = st.lists(
    st.builds(
        lambda key, owner, checkpoint_owner: Lease(
            lease_key=key,
            lease_owner=owner,
            checkpoint_owner=checkpoint_owner,
            checkpoint=ExtendedSequenceNumber.TRIM_HORIZON,
        ),
        st.sampled_from([f"l{number}" for number in range(4)]),
        st.none() | NAMES,
        st.none() | NAMES,
    ),
    unique_by=lambda lease: lease.lease_key,
)


@given(LEASES, LEASES, st.floats(0, 100))
def test_a_handoff_keeps_the_time_it_was_given_while_it_is_between_the_same_two(
    earlier: list[Lease], later: list[Lease], passed: float
) -> None:
    first = observe_handoffs(earlier, {}, 0.0, ALLOWED)
    second = observe_handoffs(later, first, passed, ALLOWED)
    assert set(second) == {lease.lease_key for lease in later if lease.checkpoint_owner}
    for key, handoff in second.items():
        known = first.get(key)
        is_same = known is not None and (known.source, known.target) == (handoff.source, handoff.target)
        assert handoff.deadline == (ALLOWED if is_same else passed + ALLOWED)
    assert observe_handoffs(later, second, passed + 1, ALLOWED) == second


@given(LEASES, st.booleans(), st.floats(0, 100), st.booleans())
def test_a_lease_is_never_both_blocked_and_open_to_a_handoff(
    leases: list[Lease], available: bool, now: float, finished: bool
) -> None:
    seen = observe_handoffs(leases, {}, 0.0, ALLOWED)
    for each in leases:
        lease = replace(each, checkpoint=ExtendedSequenceNumber.SHARD_END) if finished else each
        blocked = is_blocked(lease, seen.get(lease.lease_key), available=available, now=now)
        assert not (blocked and is_eligible(lease, available=available))
        assert not (blocked and (available or finished or now >= ALLOWED))


@pytest.mark.parametrize("decider", ["variance", "count"])
@given(given_fleet=fleets(), data=st.data())
def test_no_plan_of_any_fleet_moves_a_blocked_lease_or_takes_one_from_a_live_owner_at_once(
    decider: str, given_fleet: Fleet, data: st.DataObject
) -> None:
    """With handoffs under way, and graceful handoff on."""
    views = []
    for view in given_fleet.leases:
        deadline = NOW + data.draw(st.sampled_from([-5.0, 0.0, 5.0]))
        if view.owner is not None and data.draw(st.booleans()):
            row = replace(view.lease, lease_owner="heir", checkpoint_owner=view.owner)
            views.append(replace(view, lease=row, handoff=Handoff(view.owner, "heir", deadline)))
        else:
            views.append(view)
    fleet = replace(given_fleet, leases=tuple(views))
    if decider == "variance":
        made = plan_by_variance(fleet, CONFIG, balance=True)
    else:
        made = plan_by_lease_count(fleet, balance=True)
    by_key = {view.lease.lease_key: view for view in fleet.leases}
    for move in made.moves:
        view = by_key[move.lease_key]
        live = not view.is_available
        assert not (live and view.handoff is not None and fleet.now < view.handoff.deadline)
        if live:
            assert (move.kind == "handoff") is (view.handoff is None)
        else:
            assert move.kind == "assign"
