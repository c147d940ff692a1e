"""Which tables an application has, and their creation."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kcl_core.clock import SystemClock
from kcl_core.config import KclConfig, load_config
from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.errors import ConfigurationError, TableSchemaError
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.metrics.model import WorkerMetrics
from kcl_core.metrics.table import WorkerMetricsTable
from kcl_core.runtime import StopSignal
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture
def config(dynamodb: "DynamoDBClient", application_name: str) -> Iterator[KclConfig]:
    made = load_config(None, application_name=application_name, stream_name="stream")
    yield made
    for name in (made.lease_table_name, made.worker_metrics_table_name, made.coordinator_state_table_name):
        if name in names(dynamodb):
            dynamodb.delete_table(TableName=name)


def names(dynamodb: "DynamoDBClient") -> list[str]:
    return [name for page in dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]]


def make(dynamodb: "DynamoDBClient", name: str, key: str, *, owner_index: bool = False) -> None:
    create_table(dynamodb, TableLocation(name, key), SystemClock(), StopSignal().wait, owner_index=owner_index)


def test_a_new_application_gets_the_three_tables_that_every_java_3x_joins(
    dynamodb: "DynamoDBClient", config: KclConfig
) -> None:
    tables = ApplicationTables(config, dynamodb)
    created = tables.create(SystemClock(), "w")
    base = config.application_name
    assert set(created) == {base, f"{base}-WorkerMetricStats", f"{base}-CoordinatorState"}
    assert tables.layout() == "three"
    assert tables.coordinator_state.client_version() == "CLIENT_VERSION_3X"
    assert tables.create(SystemClock(), "w") == ()
    indexes = dynamodb.describe_table(TableName=base)["Table"]["GlobalSecondaryIndexes"]
    assert [index["IndexName"] for index in indexes] == ["LeaseOwnerToLeaseKeyIndex"]


def test_the_mark_of_a_new_application_is_what_java_writes(dynamodb: "DynamoDBClient", config: KclConfig) -> None:
    ApplicationTables(config, dynamodb).create(VirtualClock(), "w")
    row = dynamodb.get_item(TableName=config.coordinator_state_table_name, Key={"key": {"S": "Migration3.0"}})["Item"]
    written = {"mb": {"S": "w"}, "mts": {"N": "1767225600000"}}
    assert row == {
        "key": {"S": "Migration3.0"},
        "cv": {"S": "CLIENT_VERSION_3X"},
        **written,
        "h": {"L": [{"M": {"cv": {"S": "CLIENT_VERSION_INIT"}, **written}}]},
        "entityType": {"S": "CLIENT_VERSION_MIGRATION"},
    }


def test_an_application_with_only_a_lease_table_uses_it_for_everything(
    dynamodb: "DynamoDBClient", config: KclConfig
) -> None:
    """KCL 3.5's single table. Its other rows are no leases to us."""
    make(dynamodb, config.lease_table_name, "leaseKey", owner_index=True)
    tables = ApplicationTables(config, dynamodb)
    assert tables.create(SystemClock(), "w") == ()
    assert tables.layout() == "single"
    metrics = WorkerMetrics(worker_id="w", last_update=1)
    tables.worker_metrics.write(metrics)
    lease = Lease(lease_key="shard", checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
    assert tables.leases.create(lease)
    assert tables.worker_metrics.scan().workers == (metrics,)
    found = tables.leases.scan()
    assert (found.leases, found.broken, found.foreign) == ((lease,), (), 2)
    assert tables.coordinator_state.client_version() == "CLIENT_VERSION_3X"
    assert tables.lock.read() is None


def set_table_migration(dynamodb: "DynamoDBClient", config: KclConfig, status: str) -> None:
    row = {"key": {"S": "TableMigration3.5"}, "tm": {"S": f"TABLE_MIGRATION_STATUS_{status}"}}
    dynamodb.put_item(TableName=config.coordinator_state_table_name, Item=row)


@pytest.mark.parametrize(
    ("status", "layout"), [("INIT", "three"), ("DEPLOYED", "three"), ("PENDING", "three"), ("COMPLETE", "single")]
)
def test_a_fleet_that_java_moved_to_one_table_is_joined_there_once_the_move_is_complete(
    dynamodb: "DynamoDBClient", config: KclConfig, status: str, layout: str
) -> None:
    """The old tables may be left over: their being there does not mean that anybody still reads them."""
    ApplicationTables(config, dynamodb).create(SystemClock(), "w")
    set_table_migration(dynamodb, config, status)
    assert ApplicationTables(config, dynamodb).layout() == layout


def test_a_complete_move_is_also_known_from_the_lease_table(dynamodb: "DynamoDBClient", config: KclConfig) -> None:
    """A worker of KCL 3.4 that starts beside the moved fleet creates the old tables anew, and empty."""
    ApplicationTables(config, dynamodb).create(SystemClock(), "w")
    row = {"leaseKey": {"S": "TableMigration3.5"}, "tm": {"S": "TABLE_MIGRATION_STATUS_COMPLETE"}}
    dynamodb.put_item(TableName=config.lease_table_name, Item=row)
    assert ApplicationTables(config, dynamodb).layout() == "single"


def test_during_a_move_workers_are_seen_in_whichever_table_they_report_to(
    dynamodb: "DynamoDBClient", config: KclConfig
) -> None:
    ApplicationTables(config, dynamodb).create(SystemClock(), "w")
    set_table_migration(dynamodb, config, "DEPLOYED")
    early = WorkerMetricsTable(dynamodb, TableLocation(config.lease_table_name, "leaseKey", "WORKER_METRIC_STATS"))
    late = WorkerMetricsTable(dynamodb, TableLocation(config.worker_metrics_table_name, "wid"))
    early.write(WorkerMetrics(worker_id="moved", last_update=1))
    early.write(WorkerMetrics(worker_id="moved and back", last_update=1))
    late.write(WorkerMetrics(worker_id="moved and back", last_update=2))
    both = ApplicationTables(config, dynamodb).worker_metrics
    found = both.scan()
    assert [(row.worker_id, row.last_update) for row in found.workers] == [("moved", 1), ("moved and back", 2)]
    assert all(both.delete(row) for row in found.workers)
    assert [row.last_update for row in both.scan().workers] == [1]
    both.write(WorkerMetrics(worker_id="ours", last_update=3))
    assert "ours" in [row.worker_id for row in late.scan().workers]


def test_settings_choose_the_layout_of_new_applications_only(dynamodb: "DynamoDBClient", config: KclConfig) -> None:
    single = config.model_copy(update={"metadata_tables": "single"})
    assert ApplicationTables(single, dynamodb).create(SystemClock(), "w") == (config.lease_table_name,)
    assert ApplicationTables(config, dynamodb).layout() == "single"


def test_a_fleet_of_kcl_2x_is_left_alone(dynamodb: "DynamoDBClient", config: KclConfig) -> None:
    make(dynamodb, config.coordinator_state_table_name, "key")
    row = {"key": {"S": "Migration3.0"}, "cv": {"S": "CLIENT_VERSION_UPGRADE_FROM_2X"}}
    dynamodb.put_item(TableName=config.coordinator_state_table_name, Item=row)
    with pytest.raises(ConfigurationError, match="UPGRADE_FROM_2X"):
        ApplicationTables(config, dynamodb).create(SystemClock(), "w")


def test_a_foreign_table_of_that_name_is_an_error(dynamodb: "DynamoDBClient", config: KclConfig) -> None:
    make(dynamodb, config.lease_table_name, "somethingElse")
    with pytest.raises(TableSchemaError, match="somethingElse"):
        ApplicationTables(config, dynamodb).create(SystemClock(), "w")


def test_workers_that_start_at_once_end_with_one_set_of_tables(dynamodb: "DynamoDBClient", config: KclConfig) -> None:
    with ThreadPoolExecutor(6) as pool:
        created = list(pool.map(lambda n: ApplicationTables(config, dynamodb).create(SystemClock(), f"w{n}"), range(6)))
    assert sorted(name for each in created for name in each) == sorted(
        (config.lease_table_name, config.worker_metrics_table_name, config.coordinator_state_table_name)
    )
    assert ApplicationTables(config, dynamodb).coordinator_state.client_version() == "CLIENT_VERSION_3X"
