"""How many worker runs there should be."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kcl_dagster.fleet import LONGEST_PAUSE, SlotRun, pause_after, plan_fleet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = st.lists(
    st.builds(
        SlotRun,
        st.integers(0, 5),
        st.uuids().map(str),
        st.none() | st.timedeltas(timedelta(0), timedelta(minutes=10)).map(lambda ago: NOW - ago),
        st.integers(0, 20),
    ),
    unique_by=lambda run: run.slot,
)


@given(st.integers(0, 6), RUNS)
def test_every_place_has_a_run_or_gets_one_or_waits(wanted: int, runs: list[SlotRun]) -> None:
    plan = plan_fleet(wanted, runs, NOW)
    taken = [run.slot for run in runs if run.ended is None and run.slot < wanted]
    started = [start.slot for start in plan.starts]
    assert len(taken) + len(started) + len(plan.waiting) == wanted
    assert not set(taken) & set(started)
    assert len(started) == len(set(started))


@given(RUNS)
def test_the_same_cause_gives_the_same_key_so_that_a_repeated_request_starts_nothing(runs: list[SlotRun]) -> None:
    first, second = plan_fleet(6, runs, NOW), plan_fleet(6, runs, NOW)
    assert first == second
    assert len({start.run_key for start in first.starts}) == len(first.starts)


def test_a_run_that_ended_is_followed_at_once_the_first_time() -> None:
    (start,) = plan_fleet(1, [SlotRun(0, "run-1", NOW, 1)], NOW).starts
    assert start.run_key == "worker-0-after-run-1"


def test_a_worker_that_cannot_start_causes_no_storm_of_runs() -> None:
    plan = plan_fleet(1, [SlotRun(0, "run-5", NOW - timedelta(seconds=10), 5)], NOW)
    assert plan.starts == ()
    assert "failed 5 times" in plan.waiting[0]
    assert plan_fleet(1, [SlotRun(0, "run-5", NOW - timedelta(minutes=5), 5)], NOW).starts


@given(st.integers(0, 1000))
def test_the_pause_grows_with_the_failures_and_has_an_end(failures: int) -> None:
    assert timedelta(0) <= pause_after(failures) <= pause_after(failures + 1) <= LONGEST_PAUSE
