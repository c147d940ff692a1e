"""One worker of the fleet: leases kept in the background, micro-batches in the caller's thread."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import SparkSession

from kcl_core.clock import Clock
from kcl_core.config import KclConfig
from kcl_core.consumer.checkpointer import Checkpointer
from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.errors import KclError
from kcl_core.leases.discovery import DiscoverLeases
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.renewal import RenewLeases
from kcl_core.leases.table import Refused
from kcl_core.metrics.reporter import ReportWorkerMetrics
from kcl_core.metrics.throughput import ThroughputMeter
from kcl_core.runtime import Runtime, StopSignal
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_dagster.spark.batch import BatchReport, LeaseDoor, MicroBatch
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.fetch import FetchSettings
from kcl_dagster.spark.session import parallelism
from kcl_dagster.spark.table import RecordTable, TransactionNames

_log = logging.getLogger(__name__)

# A worker without a lease, or whose shards have nothing new, looks again after this long at the latest.
SHORTEST_PAUSE = timedelta(milliseconds=200)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker did from its start to its end.

    Attributes:
        batches: micro-batches that moved a position.
        rows: user records committed.
        released: keys of the leases that it gave up at its end, for others to take at once.
    """

    worker_id: str
    batches: int
    rows: int
    released: tuple[str, ...]


class StreamWorker:
    """Composes the library's components with the data path, and runs them until told to stop.

    Renewal, discovery and the worker's own metrics run in threads of `Runtime`; micro-batches run in the thread
    that calls `run`, because Spark and Dagster want it so.
    """

    def __init__(self, config: KclConfig, pipeline: SparkPathConfig, clock: Clock, worker_id: str) -> None:
        self._config = config
        self._pipeline = pipeline
        self._clock = clock
        self.worker_id = worker_id
        self._tables = ApplicationTables(config, config.aws.dynamodb())
        self._held = HeldLeases(clock, config.leases.failover_time)
        self._meter = ThroughputMeter(clock, config.leases.renewal_interval.total_seconds())
        self._renewal = RenewLeases(self._tables.leases, self._held, clock, worker_id, throughput=self._meter.rate)
        self._discovery = DiscoverLeases(self._tables.leases, self._held, worker_id)

    def run(self, spark: SparkSession, stop: StopSignal, on_batch: Callable[[BatchReport], None]) -> WorkerReport:
        """Consume until ``stop`` is set; then finish the batch under way and give the leases up.

        Raises:
            KclError: what retrying does not mend. Leases are not given up then: whoever takes them finds out
                what became of the last batch.
        """
        self._tables.create(self._clock, self.worker_id, stop)
        if stop.is_set():
            return WorkerReport(self.worker_id, 0, 0, ())
        batch = self._micro_batch(spark)
        metrics = ReportWorkerMetrics(self._tables.worker_metrics, self._clock, self.worker_id)
        self._renewal.recover()
        runtime = Runtime(self._clock)
        leases = self._config.leases
        runtime.start("metrics", metrics.run_once, self._config.assignment.reporter_period)
        runtime.start("renewal", self._renewal.run_once, leases.renewal_interval)
        runtime.start("discovery", self._discovery.run_once, leases.discovery_interval)
        try:
            batches, rows = self._consume(batch, runtime, stop, on_batch)
        finally:
            runtime.stop()
        metrics.withdraw()
        return WorkerReport(self.worker_id, batches, rows, self._release())

    def _consume(
        self, batch: MicroBatch, runtime: Runtime, stop: StopSignal, on_batch: Callable[[BatchReport], None]
    ) -> tuple[int, int]:
        batches = rows = 0
        while not stop.is_set():
            runtime.raise_failure()
            began = self._clock.monotonic()
            try:
                report = batch.run_once()
            except KclError as error:
                if not error.retryable:
                    raise
                _log.warning("batch repeated: %s", error)
                stop.wait(self._config.polling.idle_time_between_reads)
                continue
            on_batch(report)
            batches += bool(report.committed)
            rows += report.rows
            for lease, manifest in report.committed:
                self._meter.add(lease.lease_key, manifest.data_bytes)
            report.raise_hopeless()
            spent = timedelta(seconds=self._clock.monotonic() - began)
            pause = SHORTEST_PAUSE if report.has_backlog else self._config.polling.idle_time_between_reads - spent
            stop.wait(max(pause, SHORTEST_PAUSE))
        return batches, rows

    def _release(self) -> tuple[str, ...]:
        """Give the leases up, so that others are given them at once; return their keys."""
        released = []
        for lease in self._held.all():
            # A finished lease needs no owner any more, only lease cleanup.
            if not lease.is_finished and not isinstance(self._tables.leases.evict(lease), Refused):
                released.append(lease.lease_key)
            self._held.drop(lease.lease_key)
        return tuple(released)

    def _micro_batch(self, spark: SparkSession) -> MicroBatch:
        config, stream = self._config, StreamAddress(self._config.stream_name, self._config.stream_arn)
        created = KinesisHttp(config.aws).describe_stream_summary(stream).created
        table = RecordTable(self._pipeline)
        table.create_if_missing()
        leases = LeaseDoor(
            self._tables.leases, self._held, Checkpointer(self._tables.leases, self._held), self.worker_id
        )
        settings = FetchSettings(
            aws=config.aws,
            stream=stream,
            location=table.location,
            path=self._pipeline,
            timestamp=config.initial_position.timestamp,
            records_per_call=config.polling.max_records,
            request_timeout=config.polling.kinesis_request_timeout,
        )
        names = TransactionNames(config.application_name, config.stream_name, created)
        return MicroBatch(spark, leases, table, names, settings, cores=parallelism(spark))
