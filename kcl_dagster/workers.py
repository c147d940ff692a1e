"""The worker as a Dagster run: one op that holds leases and loops over micro-batches until it is told to stop."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import dagster as dg

from kcl_core.leases.identity import new_worker_id
from kcl_core.runtime import StopSignal
from kcl_dagster.lineage import WindowLineage, lineage_of_commit, materialization
from kcl_dagster.names import ROLE_TAG, WORKER_TAG, raw_table_key
from kcl_dagster.resources import KclApplication
from kcl_dagster.spark.batch import BatchReport
from kcl_dagster.spark.session import open_session
from kcl_dagster.spark.windows import Window

ENDED_RUNS_LOOKED_AT = 100


class Materializations:
    """Collects what was committed and tells Dagster at intervals: an event per window, not one per batch."""

    def __init__(self, context: dg.OpExecutionContext, application: KclApplication, worker_id: str) -> None:
        self._context = context
        self._application = application
        self._worker_id = worker_id
        self._interval = application.pipeline().materialization_interval_seconds
        self._clock = application.clock()
        self._pending: dict[Window, WindowLineage] = {}
        self._told = self._clock.monotonic()

    def take(self, report: BatchReport) -> None:
        """Add what a batch committed; tell Dagster if the interval is over."""
        for each in report.problems:
            self._context.log.warning("%s: %s", each.lease_key, each.problem.message)
        if report.version is not None:
            for window, lineage in lineage_of_commit(report.committed, report.version).items():
                known = self._pending.get(window)
                self._pending[window] = known.followed_by(lineage) if known else lineage
        if self._clock.monotonic() - self._told >= self._interval:
            self.flush()

    def flush(self) -> None:
        """Tell Dagster of everything that it does not know yet."""
        self._told = self._clock.monotonic()
        if not self._pending:
            return
        rows = self._application.record_table().snapshot().rows_by_window()
        stream = self._application.config().stream_name
        for window in sorted(self._pending):
            self._context.log_event(
                materialization(
                    raw_table_key(stream),
                    self._pending.pop(window),
                    stream=stream,
                    worker_id=self._worker_id,
                    rows_in_window=rows.get(window, 0),
                )
            )


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Turn SIGINT and SIGTERM, which Dagster sends to terminate a run, into a `StopSignal`."""
    stop = StopSignal()

    def ask_for_end(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    before = {number: signal.signal(number, ask_for_end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dg.op(description="Holds leases and commits their shards' records to the raw table, batch by batch, until terminated.")
def consume(context: dg.OpExecutionContext, application: KclApplication) -> None:
    """Run one worker of the fleet.

    Raises:
        DagsterExecutionInterruptedError: the run was terminated; leases and batches were left in order.
    """
    worker_id = new_worker_id()
    context.instance.add_run_tags(context.run_id, {WORKER_TAG: worker_id})
    context.log.info("worker %s starts in process %d", worker_id, os.getpid())
    with stop_on_signals() as stop:
        spark = open_session(application.pipeline(), f"worker {worker_id}")
        try:
            materializations = Materializations(context, application, worker_id)
            try:
                report = application.worker(worker_id).run(spark, stop, materializations.take)
            finally:
                materializations.flush()
        finally:
            spark.stop()
    context.log.info(
        "worker %s stopped: %d rows in %d batches, released %s",
        worker_id,
        report.rows,
        report.batches,
        ", ".join(report.released) or "no lease",
    )
    raise dg.DagsterExecutionInterruptedError


@dg.job(
    name="worker",
    executor_def=dg.in_process_executor,
    tags={ROLE_TAG: "worker"},
    description="One worker of the fleet, kept running by the fleet sensor. Terminate it to stop it in good order.",
)
def worker_job() -> None:
    """One op, for as long as the worker lives."""
    consume()


def ended_workers(instance: dg.DagsterInstance) -> frozenset[str]:
    """Return the ids of the workers whose runs have ended, however they ended; of the most recent runs only.

    Dagster learns of a killed process within a second, observers of a lease only after the failover time.
    """
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    runs = instance.get_runs(dg.RunsFilter(job_name=worker_job.name, statuses=ended), limit=ENDED_RUNS_LOOKED_AT)
    return frozenset(run.tags[WORKER_TAG] for run in runs if WORKER_TAG in run.tags)
