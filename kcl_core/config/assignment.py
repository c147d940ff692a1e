"""WorkerUtilizationAwareAssignmentConfig and GracefulLeaseHandoffConfig: who gets which lease."""

from datetime import timedelta

from pydantic import Field, PositiveInt

from kcl_core.config.section import Section


class WorkerUtilizationAwareAssignmentConfig(Section):
    """How worker metrics are taken and used. Names and defaults: KCL 3.5, the class of the same name."""

    worker_metrics_reporter_freq_in_millis: PositiveInt = 30_000
    """Pause between two reports of a worker. A worker silent for twice as long counts as gone."""

    no_of_persisted_metrics_per_worker_metrics: PositiveInt = 10
    """Values kept per metric in a worker's row."""

    max_throughput_per_host_kbps: float | None = Field(default=None, gt=0)
    """KiB/s that one worker may be given; None is unlimited."""

    dampening_percentage: int = Field(default=60, gt=0, le=100)
    """Share of the surplus load that one run moves away from an overloaded worker."""

    re_balance_threshold_percentage: int = Field(default=10, ge=0)
    """A worker this far off the fleet's average starts a rebalance."""

    allow_throughput_overshoot: bool = True
    """Whether the smallest lease moves when none fits into the surplus."""

    stale_worker_metrics_entry_cleanup_duration: timedelta = timedelta(days=1)
    """A row not updated for this long is deleted."""

    variance_balancing_frequency: PositiveInt = 3
    """Every how many assignment runs the load is balanced; the others only place leases without an owner."""

    worker_metrics_ema_alpha: float = Field(default=0.5, gt=0, le=1)
    """Weight of the newest value in a worker's moving average."""

    @property
    def reporter_period(self) -> timedelta:
        """Pause between two reports."""
        return timedelta(milliseconds=self.worker_metrics_reporter_freq_in_millis)


class GracefulLeaseHandoffConfig(Section):
    """How a lease moves between two live workers. Names and defaults: KCL 3.5, the class of the same name."""

    graceful_lease_handoff_timeout_millis: PositiveInt = 30_000
    """How long the former owner may drain a shard before the lease moves anyway."""

    is_graceful_lease_handoff_enabled: bool = True
    """Whether the former owner is asked to finish, rather than losing the lease at once."""

    @property
    def timeout(self) -> timedelta:
        """How long the former owner may drain."""
        return timedelta(milliseconds=self.graceful_lease_handoff_timeout_millis)
