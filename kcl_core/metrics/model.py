"""A worker's row of metrics, and what the leader makes of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

NO_VALUE = -1.0
"""Written for a report period in which nothing was measured."""

_THROUGHPUT = "THROUGHPUT"
_SILENT_PERIODS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetrics:
    """One row.

    Attributes:
        last_update: epoch seconds of the last report, on the worker's clock.
        values: by short name of the metric (``C`` for CPU), percent, oldest first; empty if the worker has none.
        operating_range: by short name, percent that the worker should not exceed.
    """

    worker_id: str
    last_update: int
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    operating_range: Mapping[str, int] = field(default_factory=dict)

    @property
    def uses_throughput(self) -> bool:
        """Whether it has no metric of its own, so that the throughput of its leases stands for one."""
        return (not self.values and not self.operating_range) or _THROUGHPUT in self.values


def why_invalid(metrics: WorkerMetrics) -> str | None:
    """Return why the row cannot be used (KCL: WorkerMetricStats.isValidWorkerMetric), or None if it can."""
    if metrics.uses_throughput:
        return None
    without = sorted(name for name in metrics.values if not metrics.operating_range.get(name))
    return f"no operating range for {', '.join(without)}" if without else None


def is_silent(metrics: WorkerMetrics, now: float, period: timedelta) -> bool:
    """Whether the worker has missed two reports and counts as gone.

    Args:
        metrics: the row.
        now: epoch seconds. Wall clocks of two hosts are compared here, because KCL does; hence the wide margin.
        period: pause between two reports, as the leader is configured.
    """
    return now - metrics.last_update > _SILENT_PERIODS * period.total_seconds()


def is_failing(metrics: WorkerMetrics) -> bool:
    """Whether a metric could not be measured in the last period."""
    return not metrics.uses_throughput and any(values and values[-1] == NO_VALUE for values in metrics.values.values())


def moving_average(values: Sequence[float], alpha: float) -> float:
    """Return the exponential moving average, oldest first; periods without a value do not count; 0 if none has one.

    Args:
        values: percent, oldest first.
        alpha: weight of the newer value, 0 .. 1 (KCL: workerMetricsEMAAlpha).
    """
    average: float | None = None
    for value in values:
        if value != NO_VALUE:
            average = value if average is None else alpha * value + (1 - alpha) * average
    return average or 0.0
