"""The fleet at one moment: workers that may be given leases, leases, and what was seen of them. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kcl_core.assignment.handoff import Handoff, is_blocked, is_eligible
from kcl_core.assignment.plan import AssignmentPlan, Move, Unplaced
from kcl_core.leases.model import Lease

THROUGHPUT_METRIC = "T"


@dataclass(frozen=True, slots=True)
class Utilisation:
    """How busy a worker is by one metric.

    Attributes:
        value: moving average of what the worker reported; percent.
        operating_range: what the worker says it should not exceed; percent.
    """

    value: float
    operating_range: float


@dataclass(frozen=True, slots=True)
class ActiveWorker:
    """A worker that reports, and so may be given leases.

    Attributes:
        utilisation: by short name of the metric (``C`` for CPU).
        by_throughput: whether the worker reports no metric and is judged by the throughput of its leases.
    """

    worker_id: str
    utilisation: Mapping[str, Utilisation] = field(default_factory=dict)
    by_throughput: bool = False


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One lease as the leader sees it.

    Attributes:
        since: monotonic second at which its counter was first seen as it is now.
        is_expired: whether somebody owns the lease, but its counter has stood still for the failover time or that
            worker is known to have ended.
        handoff: the handoff under way, else None.
    """

    lease: Lease
    since: float
    is_expired: bool = False
    handoff: Handoff | None = None

    @property
    def owner(self) -> str | None:
        """The worker that may read now."""
        return self.lease.actual_owner

    @property
    def is_available(self) -> bool:
        """Whether nobody alive owns it."""
        return self.is_expired or self.owner is None

    @property
    def age_order(self) -> tuple[bool, float, str]:
        """Key that sorts leases without an owner first, then those that have been silent for longest."""
        return (self.owner is not None, self.since, self.lease.lease_key)


@dataclass(frozen=True, slots=True)
class Bystander:
    """A worker that has a metrics row and is given nothing, and why."""

    worker_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """A snapshot for the deciders.

    Attributes:
        workers: sorted by id.
        leases: sorted by key.
        bystanders: workers that report and get nothing.
        now: monotonic second of the snapshot, on the clock of ``LeaseView.since`` and of the handoffs' deadlines.
        ended: ids of workers known to have ended; their leases count as expired at once.
    """

    workers: tuple[ActiveWorker, ...]
    leases: tuple[LeaseView, ...]
    bystanders: tuple[Bystander, ...] = ()
    now: float = 0.0
    ended: frozenset[str] = frozenset()

    @property
    def available(self) -> tuple[LeaseView, ...]:
        """Leases that nobody alive owns, oldest first."""
        return tuple(sorted((view for view in self.leases if view.is_available), key=lambda view: view.age_order))

    def why_available(self, view: LeaseView) -> str:
        """Say why the lease needs an owner."""
        if view.owner is None:
            return "no owner"
        if view.owner in self.ended:
            return f"{view.owner} has ended"
        return f"{view.owner} silent for {self.now - view.since:.0f} s"

    def finish_plan(
        self, moves: Collection[Move], unplaced: Collection[Unplaced] = (), *, graceful: bool
    ) -> AssignmentPlan:
        """Turn a decider's intentions into a plan: handoffs where possible, blocked leases left alone.

        KCL decides first and filters when it writes (LeaseAssignmentManager.persistLeaseAssignments).
        """
        views = {view.lease.lease_key: view for view in self.leases}
        planned, kept = [], list(unplaced)
        for move in moves:
            view = views[move.lease_key]
            if is_blocked(view.lease, view.handoff, available=view.is_available, now=self.now):
                left = view.handoff.deadline - self.now if view.handoff else 0.0
                kept.append(Unplaced(move.lease_key, f"{view.owner} may hand it over for another {left:.0f} s"))
            elif graceful and is_eligible(view.lease, available=view.is_available):
                planned.append(replace(move, kind="handoff"))
            else:
                planned.append(move)
        return AssignmentPlan(tuple(planned), tuple(kept))
