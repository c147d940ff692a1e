"""Which workers have fallen silent: what holds for every history of reports and renewals."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kcl_core.assignment.liveness import SeenReport, observe_reports
from kcl_core.leases.expiry import Sighting, observe
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.metrics.model import WorkerMetrics

PATIENCE = 13.3


@dataclass
class Worker:
    """A worker with one lease, as a leader sees it that looks now and then."""

    lease_counter: int = 1
    last_update: int = 1
    owns: bool = True

    def __post_init__(self) -> None:
        self.sightings: dict[str, Sighting] = {}
        self.reports: dict[str, SeenReport] = {}

    def look(self, now: float) -> bool:
        """Return whether the worker has fallen."""
        leases = [
            Lease(
                lease_key="a",
                lease_owner="w" if self.owns else "other",
                lease_counter=self.lease_counter,
                checkpoint=ExtendedSequenceNumber.TRIM_HORIZON,
            )
        ]
        self.sightings = observe(leases, self.sightings, now)
        rows = [WorkerMetrics(worker_id="w", last_update=self.last_update)]
        self.reports = observe_reports(rows, leases, self.sightings, self.reports, now=now, patience_seconds=PATIENCE)
        return self.reports["w"].is_fallen


PAUSES = st.lists(st.floats(0.1, 60), max_size=20)


@given(PAUSES)
def test_a_worker_without_a_lease_never_falls(pauses: list[float]) -> None:
    worker, now = Worker(owns=False), 0.0
    for pause in pauses:
        now += pause
        assert not worker.look(now)


@given(st.lists(st.floats(0.1, PATIENCE), max_size=20), st.booleans())
def test_a_worker_that_renews_or_reports_in_time_never_falls(pauses: list[float], renews: bool) -> None:
    worker, now = Worker(), 0.0
    worker.look(now)
    for pause in pauses:
        now += pause
        if renews:
            worker.lease_counter += 1
        else:
            worker.last_update += 1
        assert not worker.look(now)


@given(PAUSES)
def test_a_worker_that_does_neither_falls_once_the_patience_is_over_and_stays_so(pauses: list[float]) -> None:
    worker, now = Worker(), 0.0
    worker.look(now)
    for pause in pauses:
        now += pause
        assert worker.look(now) is (now > PATIENCE)


@given(PAUSES)
def test_a_worker_that_has_fallen_stays_so_without_leases_and_rises_with_its_next_report(pauses: list[float]) -> None:
    worker = Worker()
    worker.look(0.0)
    now = PATIENCE + 0.1
    assert worker.look(now)
    worker.owns = False
    for pause in pauses:
        now += pause
        worker.lease_counter += 1
        assert worker.look(now)
    worker.last_update += 1
    assert not worker.look(now + 1)


def test_a_report_later_than_the_last_renewal_acquits_until_the_next_renewal() -> None:
    """The worker lives, but cannot renew: it must not be condemned on the same evidence again."""
    worker = Worker()
    assert not worker.look(0.0)
    worker.last_update += 1
    assert not worker.look(5.0)
    assert not worker.look(100.0)
    worker.lease_counter += 1
    assert not worker.look(105.0)
    assert worker.look(105.0 + PATIENCE + 0.1)
