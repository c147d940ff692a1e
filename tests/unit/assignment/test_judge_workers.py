"""Who may be given leases: KCL's vectors, and what holds for all rows."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.assignment.assign_leases import judge_workers
from kcl_core.config import WorkerUtilizationAwareAssignmentConfig
from kcl_core.metrics.model import NO_VALUE, WorkerMetrics

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
CONFIG = WorkerUtilizationAwareAssignmentConfig()


def row(
    worker_id: str,
    values: dict[str, tuple[float, ...]] | None = None,
    ranges: dict[str, int] | None = None,
    *,
    age: float = 0,
) -> WorkerMetrics:
    return WorkerMetrics(
        worker_id=worker_id, last_update=int(NOW - age), values=values or {}, operating_range=ranges or {}
    )


def reasons(*rows: WorkerMetrics, now: float = NOW) -> dict[str, str | None]:
    """Return why each worker gets nothing; None for those who get leases."""
    active, bystanders = judge_workers(rows, now, CONFIG)
    return {worker.worker_id: None for worker in active} | {each.worker_id: each.reason for each in bystanders}


@pytest.mark.parametrize(
    ("name", "values", "ranges", "reason"),
    [
        ("G02", {"C": (50, NO_VALUE)}, {"C": 80}, "its last report lacks a value"),
        ("G03", {"C": (NO_VALUE, 50, 50)}, {"C": 80}, None),
        ("I02", {}, {}, None),
        ("I03", {"C": ()}, {}, "no operating range for C"),
        ("I06", {"C": (5, 5)}, {"M": 80}, "no operating range for C"),
        ("I07, I09", {"C": (5, 5)}, {"C": 0}, "no operating range for C"),
        ("I08", {}, {"C": 80}, None),
        ("I10", {"C": (5, 5)}, {"C": 80}, None),
        ("I11", {"C": (50, 1), "M": (NO_VALUE, 11)}, {"C": 80, "M": 80}, None),
        ("I12", {"C": ()}, {"C": 80}, None),
        ("I13", {"C": (50, NO_VALUE)}, {"C": 80}, "its last report lacks a value"),
        ("one of two metrics", {"C": (50,), "M": (NO_VALUE,)}, {"C": 80, "M": 80}, "its last report lacks a value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_vectors(name: str, values: dict[str, tuple[float, ...]], ranges: dict[str, int], reason: str | None) -> None:
    assert name
    assert reasons(row("w", values, ranges)) == {"w": reason}


def test_g07_a_worker_that_never_reported_since_1970_gets_nothing() -> None:
    assert reasons(row("y", {"C": (90,)}, {"C": 80}), row("w", {"C": (5,)}, {"C": 80}, age=NOW))["w"] is not None


@pytest.mark.parametrize(("age", "active"), [(0, True), (60, True), (60.001, False), (61, False), (86_400, False)])
def test_i22_a_worker_is_gone_once_it_has_missed_two_reports(age: float, active: bool) -> None:
    found = reasons(row("w"), now=NOW + age)
    assert (found["w"] is None) is active
    assert active or f"has not reported for {age:.0f} s" == found["w"]


def test_a_worker_that_has_just_reported_for_the_first_time_is_active() -> None:
    assert reasons(row("new"), row("old", {"C": (1,) * 10}, {"C": 80})) == {"new": None, "old": None}


def test_a_worker_whose_clock_is_ahead_is_active() -> None:
    assert reasons(row("w", age=-30)) == {"w": None}


def test_a_reading_is_the_moving_average_with_the_leaders_weight() -> None:
    config = WorkerUtilizationAwareAssignmentConfig(worker_metrics_ema_alpha=0.25)
    (worker,), _ = judge_workers([row("w", {"C": (40, NO_VALUE, 80)}, {"C": 90})], NOW, config)
    assert (worker.utilisation["C"].value, worker.utilisation["C"].operating_range) == (50, 90)
    assert not worker.by_throughput


METRICS = st.dictionaries(
    st.sampled_from(["C", "M", "NI", "THROUGHPUT"]),
    st.lists(st.floats(0, 100) | st.just(NO_VALUE), max_size=4).map(tuple),
    max_size=3,
)
ROWS = st.lists(
    st.builds(
        lambda worker_id, age, values, ranges: row(worker_id, values, ranges, age=age),
        st.sampled_from([f"w{number}" for number in range(8)]),
        st.integers(-60, 200),
        METRICS,
        st.dictionaries(st.sampled_from(["C", "M", "NI"]), st.integers(0, 100)),
    ),
    unique_by=lambda each: each.worker_id,
)


@given(ROWS, st.randoms(use_true_random=False))
def test_every_worker_is_either_active_or_told_why_not(rows: list[WorkerMetrics], order: random.Random) -> None:
    active, bystanders = judge_workers(rows, NOW, CONFIG)
    names = [worker.worker_id for worker in active] + [each.worker_id for each in bystanders]
    assert sorted(names) == sorted(each.worker_id for each in rows)
    assert all(each.reason for each in bystanders)
    assert [worker.worker_id for worker in active] == sorted(worker.worker_id for worker in active)
    ages = {each.worker_id: NOW - each.last_update for each in rows}
    assert all(ages[worker.worker_id] <= 60 for worker in active)
    for worker in active:
        assert worker.by_throughput or all(each.operating_range > 0 for each in worker.utilisation.values())
        assert all(0 <= each.value <= 100 for each in worker.utilisation.values())
    order.shuffle(rows)
    assert judge_workers(rows, NOW, CONFIG) == (active, bystanders)
