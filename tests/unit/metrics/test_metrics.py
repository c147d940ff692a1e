"""Rows of worker metrics: KCL's format, and what the leader makes of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.clock import SystemClock
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.metrics.model import NO_VALUE, WorkerMetrics, is_failing, is_silent, moving_average, why_invalid
from kcl_core.metrics.reporter import ReportWorkerMetrics
from kcl_core.metrics.table import WorkerMetricsTable
from kcl_core.metrics.throughput import ThroughputMeter
from kcl_core.runtime import StopSignal
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PERCENT = st.floats(0, 100)


@pytest.fixture
def location(dynamodb: "DynamoDBClient", application_name: str) -> Iterator[TableLocation]:
    made = TableLocation(application_name, "wid")
    create_table(dynamodb, made, SystemClock(), StopSignal().wait)
    yield made
    dynamodb.delete_table(TableName=made.table_name)


@pytest.fixture
def table(dynamodb: "DynamoDBClient", location: TableLocation) -> WorkerMetricsTable:
    return WorkerMetricsTable(dynamodb, location)


def test_a_row_comes_back_as_it_was_written(table: WorkerMetricsTable) -> None:
    row = WorkerMetrics(worker_id="w", last_update=1_767_225_600, values={"C": (1.5, -1.0)}, operating_range={"C": 80})
    table.write(row)
    assert table.scan().workers == (row,)


def test_a_worker_without_metrics_writes_what_java_writes(
    table: WorkerMetricsTable, dynamodb: "DynamoDBClient", location: TableLocation
) -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    ReportWorkerMetrics(table, clock, "w").run_once()
    item = dynamodb.get_item(TableName=location.table_name, Key={"wid": {"S": "w"}})["Item"]
    assert item == {
        "wid": {"S": "w"},
        "lut": {"N": "1767225600"},
        "sts": {"M": {}},
        "opr": {"M": {}},
        "entityType": {"S": "WORKER_METRIC_STATS"},
    }


def test_attributes_of_other_versions_survive_a_report(
    table: WorkerMetricsTable, dynamodb: "DynamoDBClient", location: TableLocation
) -> None:
    dynamodb.put_item(TableName=location.table_name, Item={"wid": {"S": "w"}, "sup": {"N": "1"}})
    ReportWorkerMetrics(table, VirtualClock(), "w").run_once()
    assert dynamodb.get_item(TableName=location.table_name, Key={"wid": {"S": "w"}})["Item"]["sup"] == {"N": "1"}


def test_broken_rows_are_reported_and_stop_nothing(
    table: WorkerMetricsTable, dynamodb: "DynamoDBClient", location: TableLocation
) -> None:
    dynamodb.put_item(TableName=location.table_name, Item={"wid": {"S": "broken"}, "lut": {"S": "yesterday"}})
    table.write(WorkerMetrics(worker_id="sound", last_update=1))
    found = table.scan()
    assert [row.worker_id for row in found.workers] == ["sound"]
    assert [row.key for row in found.broken] == ["broken"]


def test_withdrawing_deletes_the_own_row_and_only_once(table: WorkerMetricsTable) -> None:
    reporter = ReportWorkerMetrics(table, VirtualClock(), "w")
    assert not reporter.withdraw()
    reporter.run_once()
    assert reporter.withdraw()
    assert table.scan().workers == ()
    assert not reporter.withdraw()


def test_a_row_that_was_updated_meanwhile_is_not_deleted(table: WorkerMetricsTable) -> None:
    stale = WorkerMetrics(worker_id="w", last_update=1)
    table.write(WorkerMetrics(worker_id="w", last_update=2))
    assert not table.delete(stale)
    assert len(table.scan().workers) == 1


@pytest.mark.parametrize(
    ("stored", "usable"),
    [
        ({}, True),
        ({"sts": {}, "opr": {}}, True),
        ({"sts": {"C": []}}, False),
        ({"sts": {"C": [5, 5]}, "opr": {"C": [80, 10]}, "lut": None}, False),
        ({"opr": {"C": [80, 10]}}, False),
        ({"sts": {"C": [5, 5]}, "opr": {"M": [80, 10]}}, False),
        ({"sts": {"C": [5, 5]}, "opr": {"C": []}}, False),
        ({"sts": {}, "opr": {"C": [80, 10]}}, True),
        ({"sts": {"C": [5, 5]}, "opr": {"C": [0, 10]}}, False),
        ({"sts": {"C": [5, 5]}, "opr": {"C": [80, 10]}}, True),
    ],
)
def test_stored_rows_are_usable_as_in_kcl(
    table: WorkerMetricsTable,
    dynamodb: "DynamoDBClient",
    location: TableLocation,
    stored: dict[str, dict[str, list[int]] | None],
    usable: bool,
) -> None:
    """KCL's own cases; a row is of no use if it cannot be read or is not valid."""
    item: dict[str, Any] = {"wid": {"S": "w"}} if "lut" in stored else {"wid": {"S": "w"}, "lut": {"N": "1"}}
    for name, listed in stored.items():
        if listed is not None:
            item[name] = {"M": {each: {"L": [{"N": str(n)} for n in numbers]} for each, numbers in listed.items()}}
    dynamodb.put_item(TableName=location.table_name, Item=item)
    found = table.scan()
    assert len(found.workers) + len(found.broken) == 1
    assert any(why_invalid(row) is None for row in found.workers) is usable


@pytest.mark.parametrize(("age", "silent"), [(0, False), (60, False), (60.001, True), (86_400, True), (-5, False)])
def test_a_worker_is_gone_after_two_missed_reports(age: float, silent: bool) -> None:
    row = WorkerMetrics(worker_id="w", last_update=1000)
    assert is_silent(row, 1000 + age, timedelta(seconds=30)) is silent


@pytest.mark.parametrize(
    ("values", "ranges", "valid"),
    [
        ({}, {}, True),
        ({"C": (1.0,)}, {"C": 80}, True),
        ({"C": (1.0,)}, {}, False),
        ({"C": (1.0,)}, {"C": 0}, False),
        ({"THROUGHPUT": (1.0,)}, {}, True),
    ],
)
def test_rows_are_valid_as_in_kcl(values: dict[str, tuple[float, ...]], ranges: dict[str, int], valid: bool) -> None:
    row = WorkerMetrics(worker_id="w", last_update=1, values=values, operating_range=ranges)
    assert (why_invalid(row) is None) is valid


def test_a_worker_whose_last_value_is_missing_is_failing() -> None:
    assert is_failing(
        WorkerMetrics(worker_id="w", last_update=1, values={"C": (5, NO_VALUE)}, operating_range={"C": 8})
    )
    assert not is_failing(
        WorkerMetrics(worker_id="w", last_update=1, values={"C": (NO_VALUE, 5)}, operating_range={"C": 8})
    )


@given(st.lists(PERCENT | st.just(NO_VALUE), max_size=10), st.floats(0.01, 1))
def test_the_average_stays_within_what_was_measured(values: list[float], alpha: float) -> None:
    measured = [value for value in values if value != NO_VALUE]
    average = moving_average(values, alpha)
    if measured:
        assert min(measured) - 1e-9 <= average <= max(measured) + 1e-9
    else:
        assert average == 0


@pytest.mark.parametrize(
    ("alpha", "values", "expected"),
    [
        (0.5, [10], 10),
        (0.5, [10, 20], 15),
        (0.5, [10, 20, 30], 22.5),
        (0.2, [10, 20], 12),
        (0.2, [10, 20, 30], 15.6),
        (0.5, [], 0),
        (0.5, [NO_VALUE, 50, NO_VALUE, 70], 60),
        (0.5, [NO_VALUE, NO_VALUE], 0),
        (0.5, [10, NO_VALUE, 20, 40], 27.5),
    ],
)
def test_the_average_weighs_the_newest_value_by_alpha(alpha: float, values: list[float], expected: float) -> None:
    assert moving_average(values, alpha) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("count", "size", "age", "whole_kib"),
    [(5, 1_048_576, 0.001, 85), (1, 1_048_576, 0.001, 17), (1000, 1_073_741_824, 0.001, 17_476_266), (1, 1, 60.01, 0)],
)
def test_the_first_rate_is_what_came_within_the_period(count: int, size: int, age: float, whole_kib: int) -> None:
    clock = VirtualClock()
    meter = ThroughputMeter(clock, period_seconds=60.0)
    for _ in range(count):
        meter.add("lease", size)
    clock.advance(age)
    rate = meter.rate("lease")
    assert rate is not None
    assert int(rate) == whole_kib


def test_the_rate_of_a_lease_that_stands_still_reaches_zero_without_error() -> None:
    clock = VirtualClock()
    meter = ThroughputMeter(clock, period_seconds=1.0)
    meter.add("lease", 1)
    assert meter.rate("lease")
    clock.advance(2.0)
    assert [meter.rate("lease") for _ in range(2000)][-1] == 0.0


def test_throughput_is_averaged_over_periods_and_decays() -> None:
    clock = VirtualClock()
    meter = ThroughputMeter(clock, period_seconds=2.0)
    assert meter.rate("lease") is None
    meter.add("lease", 4096)
    assert meter.rate("lease") == 2.0
    clock.advance(2.0)
    assert meter.rate("lease") == 1.0
    clock.advance(2.0)
    assert meter.rate("lease") == 0.5
    meter.forget("lease")
    assert meter.rate("lease") is None
