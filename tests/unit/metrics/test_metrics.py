"""Rows of worker metrics: KCL's format, and what the leader makes of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

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


def test_the_average_weighs_the_newest_value_by_alpha() -> None:
    assert moving_average([10, NO_VALUE, 20, 40], 0.5) == 27.5


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
