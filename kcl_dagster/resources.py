"""The application as a Dagster resource: from settings to the library's components."""

from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from kcl_core.assignment.assign_leases import AssignLeases
from kcl_core.clock import HostClock
from kcl_core.config import KclConfig
from kcl_core.coordinator.cleanup import CleanUpLeases
from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.election.leader import LeaderElection
from kcl_core.election.lock import LockSighting
from kcl_core.leases.identity import new_version
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.sync.shard_sync import SyncShards
from kcl_dagster.settings import PipelineConfig, Settings, load_settings
from kcl_dagster.spark.closed_windows import ClosedWindows
from kcl_dagster.spark.table import RecordTable, TransactionNames
from kcl_dagster.spark.worker import StreamWorker

DUTY_LOCK_SECONDS = 15.0


class KclApplication(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One KCL application: a stream, its tables and where its records land.

    Reads nothing and calls nobody until it is used. Credentials come from AWS's default chain in the
    process that runs, and are refreshed there.
    """

    config_file: str | None = Field(default=None, description="Settings file; the environment (KCL_*) wins over it.")
    overrides: dict[str, Any] = Field(default={}, description="Top-level settings that win over both.")

    @cached_property
    def _settings(self) -> Settings:
        return load_settings(Path(self.config_file) if self.config_file else None, **self.overrides)

    @cached_property
    def _tables(self) -> ApplicationTables:
        return ApplicationTables(self.config(), self.config().aws.dynamodb())

    @cached_property
    def _kinesis(self) -> KinesisHttp:
        return KinesisHttp(self.config().aws)

    @cached_property
    def _transaction_names(self) -> TransactionNames:
        created = self._kinesis.describe_stream_summary(self.stream()).created
        return TransactionNames(self.config().application_name, self.config().stream_name, created)

    @cached_property
    def _clock(self) -> HostClock:
        return HostClock()

    def config(self) -> KclConfig:
        """Return the library's settings."""
        return self._settings.kcl

    def pipeline(self) -> PipelineConfig:
        """Return the orchestration's settings."""
        return self._settings.pipeline

    def clock(self) -> HostClock:
        """Return the clock of this host, whose readings sensors and runs may exchange."""
        return self._clock

    def tables(self) -> ApplicationTables:
        """Return the DynamoDB tables of the application."""
        return self._tables

    def kinesis(self) -> KinesisHttp:
        """Return the door to Kinesis."""
        return self._kinesis

    def stream(self) -> StreamAddress:
        """Return the stream that is consumed."""
        return StreamAddress(self.config().stream_name, self.config().stream_arn)

    def sync_shards(self) -> SyncShards:
        """Return the duty that creates missing leases."""
        config = self.config()
        return SyncShards(
            self.kinesis(),
            self.tables().leases,
            self.stream(),
            config.initial_position,
            ignore_unexpected_child_shards=config.leases.ignore_unexpected_child_shards,
        )

    def clean_up_leases(self) -> CleanUpLeases:
        """Return the duty that deletes finished leases."""
        return CleanUpLeases(self.kinesis(), self.tables().leases, self.stream())

    def assign_leases(self) -> AssignLeases:
        """Return the duty that gives leases to workers."""
        tables = self.tables()
        return AssignLeases(tables.leases, tables.worker_metrics, self.clock(), self.config())

    def election(self, worker_id: str, seen: LockSighting | None = None) -> LeaderElection:
        """Return a candidate for the leader's lock, for one short run.

        The lock that it takes expires soon: a run that was killed must not keep the next ones out for
        longer than they wait. Observers, Java KCL's too, go by the duration in the item.
        """
        return LeaderElection(
            self.tables().lock,
            self.clock(),
            new_version,
            worker_id=worker_id,
            lease_duration=DUTY_LOCK_SECONDS,
            seen=seen,
        )

    def record_table(self) -> RecordTable:
        """Return the raw table."""
        return RecordTable(self.pipeline())

    def transaction_names(self) -> TransactionNames:
        """Return the names under which the table keeps each lease's place.

        Raises:
            StreamGoneError: the stream does not exist.
        """
        return self._transaction_names

    def closed_windows(self) -> ClosedWindows:
        """Return the question which windows are closed."""
        return ClosedWindows(self.tables().leases, self.record_table(), self.transaction_names(), self.pipeline())

    def worker(self, worker_id: str) -> StreamWorker:
        """Return a worker of the fleet, not yet running."""
        return StreamWorker(self.config(), self.pipeline(), self.clock(), worker_id)
