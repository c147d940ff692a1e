"""ReportWorkerMetrics: tells the leader that this worker lives and how busy it is."""

from kcl_core.clock import Clock
from kcl_core.metrics.model import WorkerMetrics
from kcl_core.metrics.table import WorkerMetricsTable


class ReportWorkerMetrics:
    """Writes this worker's row (KCL: WorkerMetricStatsReporter); a worker without a row is given no lease.

    No CPU or network metric is measured yet: the row lists none, and the leader judges the worker by the throughput
    of its leases instead.
    """

    def __init__(self, table: WorkerMetricsTable, clock: Clock, worker_id: str) -> None:
        self._table = table
        self._clock = clock
        self._worker_id = worker_id
        self._reported: WorkerMetrics | None = None

    def run_once(self) -> WorkerMetrics:
        """Report; return what was written.

        Raises:
            TableThrottledError: retry.
            EndpointUnavailableError: retry; after two missed reports others count this worker as gone.
        """
        reported = WorkerMetrics(worker_id=self._worker_id, last_update=int(self._clock.wall().timestamp()))
        self._table.write(reported)
        self._reported = reported
        return reported

    def withdraw(self) -> bool:
        """Delete this worker's row, for a planned stop: it is given no lease any more. False if there is none.

        KCL leaves the row, so that a stopped worker is given leases for another minute.
        """
        reported, self._reported = self._reported, None
        return reported is not None and self._table.delete(reported)
