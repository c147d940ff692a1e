"""A data path whose workers a test may stop at any step; as a script, a worker that kills itself."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig, InitialPosition, KclConfig, load_config
from kcl_core.consumer.checkpointer import Checkpointer
from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.sync.shard_sync import SyncShards
from kcl_dagster.spark.batch import LeaseDoor, MicroBatch, Step
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.fetch import FetchSettings
from kcl_dagster.spark.rows import FILE_SCHEMA
from kcl_dagster.spark.session import open_session
from kcl_dagster.spark.table import RecordTable, TransactionNames

POSITION_COLUMNS = ["shard_id", "sequence_number", "sub_sequence_number", "data"]


class Killed(BaseException):
    """Raised where a worker dies; nothing of it runs afterwards."""


class Pipeline:
    """One application with its stream, tables and raw table."""

    def __init__(self, aws: AwsConfig, name: str, table: Path) -> None:
        self.config: KclConfig = load_config(
            None,
            application_name=name,
            stream_name=name,
            aws=aws,
            initial_position=InitialPosition(position="TRIM_HORIZON"),
        )
        self.path = SparkPathConfig(
            table_location=str(table), window_minutes=1, max_batch_seconds=2.0, allowed_lateness_seconds=0
        )
        self.clock = SystemClock()
        self.stream = StreamAddress(name)
        self.tables = ApplicationTables(self.config, aws.dynamodb())
        self.table = RecordTable(self.path)
        self.kinesis = KinesisHttp(aws)

    def create(self) -> None:
        """Create all tables and the first leases."""
        self.tables.create(self.clock, "test")
        self.table.create_if_missing()
        self.sync()

    def sync(self) -> None:
        """Create missing leases."""
        SyncShards(self.kinesis, self.leases, self.stream, self.config.initial_position).run_once()

    @property
    def leases(self) -> LeaseTable:
        return self.tables.leases

    @property
    def names(self) -> TransactionNames:
        created = self.kinesis.describe_stream_summary(self.stream).created
        return TransactionNames(self.config.application_name, self.stream.name, created)

    def rows(self) -> list[tuple[str, str, int, bytes]]:
        """Return shard, sequence number, sub-sequence number and data of each row of the table."""
        dataset = ds.dataset(list(self.table.snapshot().files()), schema=FILE_SCHEMA, format="parquet")
        rows = dataset.to_table(columns=POSITION_COLUMNS).to_pylist()
        return sorted(tuple(row[column] for column in POSITION_COLUMNS) for row in rows)

    def payloads(self) -> Counter[bytes]:
        """Return how often the table has each payload."""
        return Counter(row[3] for row in self.rows())


class Worker:
    """A worker without threads: it holds what it is given, and its leases do not expire while a test runs."""

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, worker_id: str, on_step: Callable[[Step], None] = lambda _: None
    ) -> None:
        self.worker_id = worker_id
        self._leases = pipeline.leases
        self.held = HeldLeases(VirtualClock(), timedelta(seconds=10))
        self.checkpointer = Checkpointer(self._leases, self.held)
        settings = FetchSettings(
            aws=pipeline.config.aws,
            stream=pipeline.stream,
            location=pipeline.table.location,
            path=pipeline.path,
            timestamp=None,
            records_per_call=10_000,
            request_timeout=timedelta(seconds=10),
        )
        door = LeaseDoor(self._leases, self.held, self.checkpointer, worker_id)
        self.batch = MicroBatch(spark, door, pipeline.table, pipeline.names, settings, cores=2, on_step=on_step)

    def take_all(self) -> tuple[Lease, ...]:
        """Be assigned every lease, as the leader does once a lease has expired."""
        for lease in self._leases.scan().leases:
            taken = self._leases.assign(lease, self.worker_id)
            assert not isinstance(taken, Refused)
            self.held.acquire(taken)
        return self.held.all()

    def drain(self) -> None:
        """Read until nothing new comes, children of finished shards included."""
        for _ in range(20):
            report = self.batch.run_once()
            if report.finished:
                self.take_all()
            elif not report.committed and not report.left_out:
                return
        message = "the stream never came to its tip"
        raise AssertionError(message)


def kill_at(step: Step) -> Callable[[Step], None]:
    """Return an observer that ends the worker at ``step``."""

    def observe(reached: Step) -> None:
        if reached is step:
            raise Killed

    return observe


def main() -> None:
    """Run one batch with every lease, and die by SIGKILL at the step that is named."""
    name, table, step, kinesis, dynamodb = sys.argv[1:]
    aws = AwsConfig(region_name="us-east-1", kinesis_endpoint_url=kinesis, dynamodb_endpoint_url=dynamodb)
    pipeline = Pipeline(aws, name, Path(table))

    def die(reached: Step) -> None:
        if reached is Step(step):
            os.kill(os.getpid(), signal.SIGKILL)

    session = open_session(SparkPathConfig(master="local[2]", driver_memory="512m"), "doomed")
    worker = Worker(pipeline, session, "doomed", die)
    worker.take_all()
    worker.batch.run_once()


if __name__ == "__main__":
    main()
