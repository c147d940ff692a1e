"""Fleets in a line of text, for tests of the deciders."""

from collections.abc import Iterable

from hypothesis import strategies as st

from kcl_core.assignment.fleet import ActiveWorker, Fleet, LeaseView, Utilisation
from kcl_core.assignment.plan import AssignmentPlan
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.metrics.model import moving_average

NOW = 1000.0


def worker(text: str) -> ActiveWorker:
    """Parse ``Y C 90,90;80 NI 20;100``: name, metrics with values and operating range."""
    name, *metrics = text.split()
    found: dict[str, Utilisation] = {}
    for short_name, listed in zip(metrics[::2], metrics[1::2], strict=True):
        values, limit = listed.split(";")
        average = moving_average([float(value) for value in values.split(",")], 0.5)
        found[short_name] = Utilisation(average, float(limit))
    return ActiveWorker(name, found, by_throughput=not found)


def lease(text: str, since: float = NOW) -> LeaseView:
    """Parse ``key:owner:throughput``, with ``-`` for nobody or none; ``key:owner:throughput:expired`` is silent."""
    key, owner, throughput, *state = text.split(":")
    row = Lease(
        lease_key=key,
        lease_owner=None if owner == "-" else owner,
        checkpoint=ExtendedSequenceNumber.TRIM_HORIZON,
        throughput_kbps=None if throughput == "-" else float(throughput),
    )
    return LeaseView(row, since, is_expired=state == ["expired"])


def fleet(workers: Iterable[str], leases: Iterable[str]) -> Fleet:
    """Return the fleet; leases are in the order of the time they have been silent."""
    views = tuple(lease(text, NOW - 100 + place) for place, text in enumerate(leases))
    return Fleet(tuple(worker(text) for text in workers), views, (), NOW)


def targets(plan: AssignmentPlan) -> dict[str, str]:
    """Return the next owner by lease."""
    return {move.lease_key: move.target for move in plan.moves}


def counts_after(given: Fleet, plan: AssignmentPlan) -> dict[str, int]:
    """Return how many leases each active worker has once the plan is carried out."""
    owners = {view.lease.lease_key: None if view.is_expired else view.owner for view in given.leases}
    owners.update(targets(plan))
    return {each.worker_id: list(owners.values()).count(each.worker_id) for each in given.workers}


NAMES = [f"w{number}" for number in range(5)]
_METRICS = st.sampled_from(["", " C 10;80", " C 50;80", " C 90;80", " C 0;100", " C 60;100 NI 20;100"])


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Any fleet: some workers, leases of them, of nobody, and of workers that are gone."""
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    workers = [name + draw(_METRICS) for name in sorted(chosen)]
    leases = []
    for number in range(draw(st.integers(0, 12))):
        owner = draw(st.sampled_from([*NAMES, "-", "gone"]))
        throughput = draw(st.sampled_from(["-", "0", "1", "10", "500"]))
        expired = owner == "gone" or (owner != "-" and draw(st.booleans()))
        leases.append(f"l{number:02d}:{owner}:{throughput}" + (":expired" if expired else ""))
    return fleet(workers, leases)
