"""Which workers have fallen silent although their last report is recent. Pure.

KCL counts a worker as alive until it has missed two reports, a minute by default, and until then leaves expired
leases with it or gives it more. Here a worker that has let all its leases expire is given none until it reports again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kcl_core.leases.expiry import Sighting
from kcl_core.leases.model import Lease
from kcl_core.metrics.model import WorkerMetrics


@dataclass(frozen=True, slots=True)
class SeenReport:
    """A worker's last report, and since when this observer has seen no newer one.

    Attributes:
        last_update: as the worker wrote it; only ever compared for equality.
        since: second on the observer's own monotonic clock.
        is_fallen: whether the worker has let its leases expire, and not reported since.
    """

    last_update: int
    since: float
    is_fallen: bool = False


def observe_reports(
    rows: Iterable[WorkerMetrics],
    leases: Iterable[Lease],
    sightings: Mapping[str, Sighting],
    earlier: Mapping[str, SeenReport],
    *,
    now: float,
    patience_seconds: float,
) -> dict[str, SeenReport]:
    """Return what was seen of each worker by its id. A new report shows that the worker lives.

    Args:
        rows: all rows of workers.
        leases: all leases.
        sightings: since when each of ``leases`` has its counter.
        earlier: what this observer returned at its last look.
        now: monotonic second of this look.
        patience_seconds: how long all counters of a worker may stand still: not less than a live worker takes to
            find a lease that it was given, and to renew it.
    """
    last_sign: dict[str, float] = {}
    for lease in leases:
        if lease.actual_owner is not None:
            since = sightings[lease.lease_key].since
            last_sign[lease.actual_owner] = max(since, last_sign.get(lease.actual_owner, since))
    seen: dict[str, SeenReport] = {}
    for row in rows:
        known = earlier.get(row.worker_id)
        if known is None or known.last_update != row.last_update:
            known = SeenReport(row.last_update, now)
        elif not known.is_fallen:
            last = last_sign.get(row.worker_id, now)
            known = replace(known, is_fallen=known.since <= last and now - last > patience_seconds)
        seen[row.worker_id] = known
    return seen
