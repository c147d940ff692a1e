"""AssignLeases: looks at leases and workers, plans who should have what, and writes it."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kcl_core.assignment.fleet import ActiveWorker, Bystander, Fleet, LeaseView, Utilisation
from kcl_core.assignment.handoff import observe_handoffs
from kcl_core.assignment.lease_count import plan_by_lease_count
from kcl_core.assignment.liveness import SeenReport, observe_reports
from kcl_core.assignment.observations import Observations
from kcl_core.assignment.plan import AssignmentPlan, Move
from kcl_core.assignment.variance import plan_by_variance
from kcl_core.clock import Clock
from kcl_core.config import KclConfig, WorkerUtilizationAwareAssignmentConfig
from kcl_core.leases.expiry import expired, observe
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.metrics.model import WorkerMetrics, is_failing, is_silent, moving_average, why_invalid
from kcl_core.metrics.table import WorkerMetricsScan, WorkerMetricsTable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FleetLook:
    """What was seen, and what should be done about it.

    Attributes:
        seen: to be given to the next look.
        stale: rows of workers that ended long ago, to be deleted.
    """

    fleet: Fleet
    plan: AssignmentPlan
    seen: Observations
    stale: tuple[WorkerMetrics, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignmentReport:
    """What was done.

    Attributes:
        moved: as planned.
        refused: planned, but the lease's row had changed by then; the next look decides anew.
        forgotten: ids of workers whose rows were deleted.
    """

    plan: AssignmentPlan
    moved: tuple[Move, ...] = ()
    refused: tuple[Move, ...] = ()
    forgotten: tuple[str, ...] = ()


class AssignLeases:
    """Gives leases to workers (KCL: LeaseAssignmentManager). To be run by the leader.

    `look` writes nothing and remembers nothing: what was seen before comes in and goes out, so that a sensor may
    look and a job may act. `run_once` is for a leader that lives on.
    """

    def __init__(self, leases: LeaseTable, worker_metrics: WorkerMetricsTable, clock: Clock, config: KclConfig) -> None:
        self._leases = leases
        self._worker_metrics = worker_metrics
        self._clock = clock
        self._config = config
        self._seen = Observations()
        self._turn = 0

    def look(self, seen: Observations, *, balance: bool, ended: Collection[str] = ()) -> FleetLook:
        """Plan from the tables as they are now.

        Args:
            seen: of the last look on the same clock; nothing owned can be expired at a first look.
            balance: whether to even out load, besides placing leases without a live owner.
            ended: ids of workers that whoever started them knows to have ended. Their leases are placed without
                waiting for the failover time, and they are given none. Should one of them live after all, it loses
                its leases as it does to any other assignment: at its next renewal or checkpoint.

        Raises:
            TableMissingError: the application has no tables yet.
            TableThrottledError: retry.
            EndpointUnavailableError: retry.
        """
        config, management = self._config.assignment, self._config.leases
        metrics = self._worker_metrics.scan()
        leases = self._leases.scan().leases
        now = self._clock.monotonic()
        sightings = observe(leases, seen.sightings, now)
        failover = management.failover_time.total_seconds()
        allowed = self._config.handoff.timeout.total_seconds() + failover
        handoffs = observe_handoffs(leases, seen.handoffs, now, allowed)
        patience = max(failover, (management.discovery_interval + management.renewal_interval).total_seconds())
        reports = observe_reports(metrics.workers, leases, sightings, seen.reports, now=now, patience_seconds=patience)
        silent = expired(sightings, now, failover)
        gone = frozenset(ended)
        workers, bystanders = self._judge(metrics, reports, gone)
        views = tuple(
            LeaseView(
                lease,
                sightings[lease.lease_key].since,
                is_expired=lease.actual_owner is not None and (lease.lease_key in silent or lease.actual_owner in gone),
                handoff=handoffs.get(lease.lease_key),
            )
            for lease in sorted(leases, key=lambda lease: lease.lease_key)
        )
        fleet = Fleet(workers, views, bystanders, now, gone)
        oldest = self._clock.wall() - config.stale_worker_metrics_entry_cleanup_duration
        stale = tuple(row for row in metrics.workers if row.last_update < oldest.timestamp())
        return FleetLook(fleet, self._plan(fleet, balance=balance), Observations(sightings, handoffs, reports), stale)

    def apply(self, look: FleetLook) -> AssignmentReport:
        """Write the plan, each move only if the lease is still as it was seen; delete stale rows of workers.

        Raises:
            TableThrottledError: the moves before this one were written; look again.
            EndpointUnavailableError: the same.
        """
        rows = {view.lease.lease_key: view.lease for view in look.fleet.leases}
        moved: list[Move] = []
        refused: list[Move] = []
        for move in look.plan.moves:
            lease = rows[move.lease_key]
            write = self._leases.initiate_graceful_handoff if move.kind == "handoff" else self._leases.assign
            outcome = write(lease, move.target)
            (refused if isinstance(outcome, Refused) else moved).append(move)
        forgotten = tuple(row.worker_id for row in look.stale if self._worker_metrics.delete(row))
        if moved:
            _log.info("moved %d leases of %s", len(moved), self._config.application_name)
        return AssignmentReport(look.plan, tuple(moved), tuple(refused), forgotten)

    def run_once(self) -> AssignmentReport:
        """Look and apply; balance at every ``variance_balancing_frequency``-th run, the first included."""
        balance = self._turn % self._config.assignment.variance_balancing_frequency == 0
        look = self.look(self._seen, balance=balance)
        self._seen = look.seen
        report = self.apply(look)
        self._turn += 1
        return report

    def _judge(
        self, metrics: WorkerMetricsScan, reports: Mapping[str, SeenReport], gone: frozenset[str]
    ) -> tuple[tuple[ActiveWorker, ...], tuple[Bystander, ...]]:
        out = {
            row.worker_id: "has let its leases expire" for row in metrics.workers if reports[row.worker_id].is_fallen
        }
        out |= {row.worker_id: "has ended" for row in metrics.workers if row.worker_id in gone}
        rows = [row for row in metrics.workers if row.worker_id not in out]
        workers, bystanders = judge_workers(rows, self._clock.wall().timestamp(), self._config.assignment)
        bystanders += tuple(Bystander(worker_id, reason) for worker_id, reason in out.items())
        bystanders += tuple(Bystander(row.key, f"its row cannot be read: {row.reason}") for row in metrics.broken)
        return workers, bystanders

    def _plan(self, fleet: Fleet, *, balance: bool) -> AssignmentPlan:
        most = self._config.leases.max_leases_for_worker
        graceful = self._config.handoff.is_graceful_lease_handoff_enabled
        if self._config.leases.lease_assignment_strategy == "LEASE_COUNT_BASED":
            return plan_by_lease_count(fleet, balance=balance, max_leases_for_worker=most, graceful=graceful)
        return plan_by_variance(
            fleet, self._config.assignment, balance=balance, max_leases_for_worker=most, graceful=graceful
        )


def judge_workers(
    rows: Iterable[WorkerMetrics], now: float, config: WorkerUtilizationAwareAssignmentConfig
) -> tuple[tuple[ActiveWorker, ...], tuple[Bystander, ...]]:
    """Return the workers that may be given leases, and the others with the reason why not.

    Args:
        rows: as stored.
        now: epoch seconds.
        config: thresholds; the leader's count.
    """
    active: list[ActiveWorker] = []
    bystanders: list[Bystander] = []
    for row in sorted(rows, key=lambda row: row.worker_id):
        invalid = why_invalid(row)
        if invalid is not None:
            bystanders.append(Bystander(row.worker_id, invalid))
        elif is_silent(row, now, config.reporter_period):
            bystanders.append(Bystander(row.worker_id, f"has not reported for {now - row.last_update:.0f} s"))
        elif is_failing(row):
            bystanders.append(Bystander(row.worker_id, "its last report lacks a value"))
        elif row.uses_throughput:
            active.append(ActiveWorker(row.worker_id, by_throughput=True))
        else:
            utilisation = {
                name: Utilisation(moving_average(values, config.worker_metrics_ema_alpha), row.operating_range[name])
                for name, values in row.values.items()
            }
            active.append(ActiveWorker(row.worker_id, utilisation))
    return tuple(active), tuple(bystanders)
