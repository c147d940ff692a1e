"""The sensor for closed windows, evaluated by Dagster, which checks its requests as the daemon does."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.kpl import UserRecord
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.application import build_kinesis_definitions
from kcl_dagster.names import REASON_TAG, raw_table_key
from kcl_dagster.partitions import window_partitions
from kcl_dagster.resources import KclApplication
from kcl_dagster.settings import load_settings
from kcl_dagster.spark.table_commit import LeaseCommit, commit_leases
from kcl_dagster.spark.window_files import WindowFiles, open_filesystem

pytestmark = [
    pytest.mark.dagster,
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LEASE = "shardId-000000000000"


class Pipeline:
    """One lease, a raw table with windows of an hour, and an asset downstream of it."""

    def __init__(self, overrides: dict[str, Any]) -> None:
        settings = load_settings(None, **overrides)
        self.application = KclApplication(overrides=overrides)
        self.stream = settings.kcl.stream_name
        windows = window_partitions(settings.pipeline.window_minutes, settings.pipeline.first_window)

        @dg.asset(name="statistics", partitions_def=windows)
        def statistics() -> None:
            """Stands for the user's asset."""

        definitions = build_kinesis_definitions(settings, overrides=overrides, downstream=[statistics])
        self.repository = definitions.get_repository_def()
        self.committed = 0

    def create(self) -> None:
        self.application.tables().create(self.application.clock(), "test")
        lease = Lease(lease_key=LEASE, checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
        assert self.application.tables().leases.create(lease)
        self.application.record_table().create_if_missing()

    def commit(self, *hours: int, reached: int) -> None:
        """Commit a record for each hour counted from noon."""
        table, grid = self.application.record_table(), self.application.pipeline().grid
        filesystem, root = open_filesystem(table.location, {})
        files = WindowFiles(filesystem, root, grid, VirtualClock(), stream=self.stream, shard_id=LEASE)
        files.write([UserRecord("7", 0, "k", None, (NOON + hour * HOUR).timestamp(), b"x") for hour in hours])
        self.committed += 1
        commit = LeaseCommit(
            lease_key=LEASE,
            shard_id=LEASE,
            number=self.committed,
            start=ExtendedSequenceNumber("1"),
            end=ExtendedSequenceNumber("9"),
            files=files.close(),
            reached=NOON + reached * HOUR,
        )
        assert commit_leases(table, self.application.transaction_names(), [commit], worker_id="w").committed

    def tick(self, instance: dg.DagsterInstance, cursor: str | None = None) -> tuple[list[str], str | None, Any]:
        """Return the partitions of the runs that are asked for, the cursor, and everything."""
        context = dg.build_sensor_context(
            instance=instance,
            cursor=cursor,
            repository_def=self.repository,
            resources={"application": self.application},
        )
        data = self.repository.get_sensor_def("closed_window_sensor").evaluate_tick(context)
        return [request.partition_key or "" for request in data.run_requests or ()], data.cursor, data


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def overrides(embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, tmp_path: Path) -> dict[str, Any]:
    return {
        "application_name": kinesis_stream.name,
        "stream_name": kinesis_stream.name,
        "initial_position": {"position": "TRIM_HORIZON"},
        "aws": embedded_aws.config().model_dump(),
        "pipeline": {"table_location": str(tmp_path / "records"), "allowed_lateness_seconds": 0},
    }


def test_before_there_are_tables_the_reason_says_so(overrides: dict[str, Any], instance: dg.DagsterInstance) -> None:
    requests, cursor, data = Pipeline(overrides).tick(instance)
    assert (requests, cursor) == ([], None)
    assert "does not exist yet" in data.skip_message


def test_each_closed_window_gets_one_run_and_one_observation(
    overrides: dict[str, Any], instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(overrides)
    pipeline.create()
    pipeline.commit(0, 0, 2, reached=3)
    requests, cursor, data = pipeline.tick(instance)
    assert requests == ["2026-03-01-12:00", "2026-03-01-14:00"]
    assert cursor == "2026-03-01-14:00"
    assert [request.run_key for request in data.run_requests] == [f"closed-{key}" for key in requests]
    assert {tuple(request.asset_selection) for request in data.run_requests} == {(dg.AssetKey("statistics"),)}
    assert "every shard has passed" in data.run_requests[0].tags[REASON_TAG]
    seen = {event.partition: event.metadata["dagster/partition_row_count"].value for event in data.asset_events}
    assert seen == {"2026-03-01-12:00": 2, "2026-03-01-14:00": 1}
    assert {event.asset_key for event in data.asset_events} == {raw_table_key(pipeline.stream)}


def test_the_cursor_goes_on_behind_what_was_asked_for(overrides: dict[str, Any], instance: dg.DagsterInstance) -> None:
    pipeline = Pipeline(overrides)
    pipeline.create()
    pipeline.commit(0, reached=1)
    _, cursor, _ = pipeline.tick(instance)
    requests, cursor, data = pipeline.tick(instance, cursor)
    assert (requests, cursor) == ([], "2026-03-01-12:00")
    assert f"lease {LEASE} has reached" in data.skip_message
    pipeline.commit(1, reached=2)
    assert pipeline.tick(instance, cursor)[:2] == (["2026-03-01-13:00"], "2026-03-01-13:00")


def test_records_from_before_the_first_partition_keep_no_later_window_from_its_run(
    overrides: dict[str, Any], instance: dg.DagsterInstance
) -> None:
    """Dagster refuses all requests of a tick if one is for a partition that it does not know."""
    overrides["pipeline"]["first_window"] = (NOON + HOUR).isoformat()
    pipeline = Pipeline(overrides)
    pipeline.create()
    pipeline.commit(-1, 0, reached=1)
    requests, cursor, data = pipeline.tick(instance)
    assert (requests, cursor) == ([], "2026-03-01-12:00")
    assert "before first_window, 2026-03-01-13:00" in data.skip_message
    pipeline.commit(1, reached=2)
    for since in (None, cursor):
        requests, cursor, data = pipeline.tick(instance, since)
        assert (requests, cursor) == (["2026-03-01-13:00"], "2026-03-01-13:00")
        assert [event.partition for event in data.asset_events] == requests


@pytest.mark.parametrize("first_window", ["2026-03-01T14:00:00+02:00", "2026-03-01T12:20:00Z", "2026-03-01T12:00:00"])
def test_the_window_of_first_window_is_the_first_partition_however_it_is_written(
    overrides: dict[str, Any], instance: dg.DagsterInstance, first_window: str
) -> None:
    overrides["pipeline"]["first_window"] = first_window
    pipeline = Pipeline(overrides)
    pipeline.create()
    pipeline.commit(-1, 0, reached=1)
    assert pipeline.tick(instance)[0] == ["2026-03-01-12:00"]
