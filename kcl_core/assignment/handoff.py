"""Graceful handoffs as the leader sees them: who drains, until when, and what may be moved. Pure.

KCL: LeaseAssignmentManager (deadlines), Lease.blockedOnPendingCheckpoint and Lease.isEligibleForGracefulShutdown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcl_core.leases.model import Lease


@dataclass(frozen=True, slots=True)
class Handoff:
    """A handoff that this observer has seen under way.

    Attributes:
        source: worker that still reads (``checkpointOwner``).
        target: worker that the lease goes to (``leaseOwner``).
        deadline: second on the observer's own monotonic clock from which the lease may be taken anyway.
    """

    source: str
    target: str | None
    deadline: float


def observe_handoffs(
    leases: Iterable[Lease], earlier: Mapping[str, Handoff], now: float, allowed_seconds: float
) -> dict[str, Handoff]:
    """Return the handoffs under way by lease key. One not seen before, or between others, starts its time now.

    Args:
        leases: all leases.
        earlier: what this observer returned at its last look.
        now: monotonic second of this look.
        allowed_seconds: how long a handoff may take: KCL's gracefulLeaseHandoffTimeoutMillis plus the failover time.
    """
    seen: dict[str, Handoff] = {}
    for lease in leases:
        if lease.checkpoint_owner is not None:
            new = Handoff(lease.checkpoint_owner, lease.lease_owner, now + allowed_seconds)
            known = earlier.get(lease.lease_key)
            is_same = known is not None and (known.source, known.target) == (new.source, new.target)
            seen[lease.lease_key] = known if known is not None and is_same else new
    return seen


def is_blocked(lease: Lease, handoff: Handoff | None, *, available: bool, now: float) -> bool:
    """Whether the lease must not be moved now: its former owner still has time to finish.

    Args:
        lease: the row.
        handoff: what was seen of its handoff.
        available: whether the lease is expired or has no owner.
        now: monotonic second.
    """
    under_way = lease.checkpoint_owner is not None and handoff is not None
    return under_way and handoff is not None and not available and not lease.is_finished and now < handoff.deadline


def is_eligible(lease: Lease, *, available: bool) -> bool:
    """Whether the lease can be handed over gracefully: a live owner is reading it and not handing over yet."""
    return not available and not lease.is_finished and lease.checkpoint_owner is None
