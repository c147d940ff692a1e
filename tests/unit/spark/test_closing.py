"""When a window is closed."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.spark.closing import closed_windows
from kcl_dagster.spark.windows import WindowGrid

GRID = WindowGrid(60)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def lease(number: int, *parents: int, finished: bool = False) -> Lease:
    position = ExtendedSequenceNumber.SHARD_END if finished else ExtendedSequenceNumber("5")
    return Lease(lease_key=f"s{number}", checkpoint=position, parent_shard_ids=frozenset(f"s{p}" for p in parents))


def closed(leases: list[Lease], reached: dict[str, datetime], lateness: timedelta = timedelta(0)) -> list[str]:
    look = closed_windows(leases, reached, GRID, open_from=NOON, lateness=lateness)
    return [window.arrival_time for window in look.windows]


def test_a_window_closes_when_the_last_lease_has_passed_its_end() -> None:
    leases = [lease(0), lease(1)]
    assert closed(leases, {"s0": NOON + 90 * MINUTE, "s1": NOON + 59 * MINUTE}) == []
    assert closed(leases, {"s0": NOON + 90 * MINUTE, "s1": NOON + 60 * MINUTE}) == ["12-00"]
    assert closed(leases, {"s0": NOON + 190 * MINUTE, "s1": NOON + 180 * MINUTE}) == ["12-00", "13-00", "14-00"]


def test_lateness_keeps_it_open_for_longer() -> None:
    assert closed([lease(0)], {"s0": NOON + 61 * MINUTE}, lateness=2 * MINUTE) == []
    assert closed([lease(0)], {"s0": NOON + 62 * MINUTE}, lateness=2 * MINUTE) == ["12-00"]


def test_a_finished_lease_holds_nothing_open_but_its_unread_children_do() -> None:
    parent, child = lease(0, finished=True), lease(1, 0)
    reached = {"s0": NOON + 30 * MINUTE}
    assert closed([parent, child], reached) == []
    assert closed([parent, child], {**reached, "s1": NOON + 60 * MINUTE}) == ["12-00"]


def test_a_child_counts_with_the_lesser_of_its_parents_until_it_is_read() -> None:
    child = lease(2, 0, 1)
    assert closed([child], {"s0": NOON + 60 * MINUTE, "s1": NOON + 120 * MINUTE}) == ["12-00"]
    assert closed([child], {"s0": NOON + 60 * MINUTE}) == []


def test_a_lease_of_which_nothing_is_known_holds_everything_open_and_is_named() -> None:
    look = closed_windows([lease(0), lease(1)], {"s0": NOON + 90 * MINUTE}, GRID, open_from=NOON)
    assert look.windows == ()
    assert [held.lease_key for held in look.held_by] == ["s1"]
    assert "s1" in look.reason


def test_without_a_lease_nothing_closes() -> None:
    assert closed([], {"s0": NOON + 600 * MINUTE}) == []


def test_when_every_shard_is_at_its_end_what_holds_records_closes() -> None:
    assert closed([lease(0, finished=True)], {"s0": NOON + 30 * MINUTE}) == ["12-00"]


FLEETS = st.lists(
    st.tuples(st.booleans(), st.none() | st.integers(0, 600), st.lists(st.integers(0, 3), max_size=2)), max_size=8
)


@given(FLEETS, st.integers(0, 10))
def test_no_window_is_closed_that_a_lease_can_still_deliver_into(
    drawn: list[tuple[bool, int | None, list[int]]], late: int
) -> None:
    leases = [lease(n, *(p for p in parents if p < n), finished=done) for n, (done, _, parents) in enumerate(drawn)]
    reached = {f"s{n}": NOON + at * MINUTE for n, (_, at, _) in enumerate(drawn) if at is not None}
    look = closed_windows(leases, reached, GRID, open_from=NOON, lateness=late * MINUTE)
    for each in leases:
        if each.is_finished or not look.windows:
            continue
        bounds = [
            reached.get(key) for key in ([each.lease_key] if each.lease_key in reached else each.parent_shard_ids)
        ]
        assert bounds
        assert None not in bounds
        assert all(bound is not None and bound >= look.windows[-1].end + late * MINUTE for bound in bounds)


@given(FLEETS, st.integers(0, 600))
def test_one_more_unfinished_lease_never_closes_more(drawn: list[tuple[bool, int | None, list[int]]], at: int) -> None:
    leases = [lease(n, finished=done) for n, (done, _, _) in enumerate(drawn)]
    reached = {f"s{n}": NOON + time * MINUTE for n, (_, time, _) in enumerate(drawn) if time is not None}
    if all(each.is_finished for each in leases):
        return  # an ended stream closes by what it brought; a new lease means that it has not ended
    before = closed_windows(leases, reached, GRID, open_from=NOON).windows
    more = closed_windows([*leases, lease(99)], {**reached, "s99": NOON + at * MINUTE}, GRID, open_from=NOON).windows
    assert set(more) <= set(before)
