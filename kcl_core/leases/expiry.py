"""Which leases have expired. Pure: a function of what was seen, and of when this observer saw it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcl_core.leases.model import Lease


@dataclass(frozen=True, slots=True)
class Sighting:
    """The counter that a lease had when last seen, and since when it has been that.

    Attributes:
        since: seconds on the observer's own monotonic clock.
    """

    lease_counter: int
    since: float


def observe(leases: Iterable[Lease], earlier: Mapping[str, Sighting], now: float) -> dict[str, Sighting]:
    """Return the sightings by lease key after looking at ``leases`` at monotonic second ``now``.

    A lease not seen before starts its time now, however old its row is: the clocks of two hosts
    are never compared (KCL 3: LeaseAssignmentManager keeps lastCounterIncrementNanos the same way).
    """
    seen: dict[str, Sighting] = {}
    for lease in leases:
        known = earlier.get(lease.lease_key)
        if known is None or known.lease_counter != lease.lease_counter:
            known = Sighting(lease.lease_counter, now)
        seen[lease.lease_key] = known
    return seen


def expired(seen: Mapping[str, Sighting], now: float, failover_seconds: float) -> frozenset[str]:
    """Return the keys of the leases whose counter has stood still for longer than ``failover_seconds``.

    Not of one that has stood still for exactly as long (KCL: Lease.isExpired).
    """
    return frozenset(key for key, sighting in seen.items() if now - sighting.since > failover_seconds)
