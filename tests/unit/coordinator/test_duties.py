"""One duty under the leader's lock."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kcl_core.clock import SystemClock
from kcl_core.coordinator.duties import NotLeading, run_as_leader
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.election.leader import LeaderElection
from kcl_core.election.lock_table import LockTable
from kcl_core.errors import StreamGoneError, TableMissingError
from kcl_core.leases.identity import new_version
from kcl_core.runtime import StopSignal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CLOCK = SystemClock()


@pytest.fixture
def lock(dynamodb: "DynamoDBClient", application_name: str) -> LockTable:
    location = TableLocation(application_name, "key")
    create_table(dynamodb, location, CLOCK, StopSignal().wait)
    return LockTable(dynamodb, location)


def election(lock: LockTable, worker_id: str, lease_duration: float = 30.0) -> LeaderElection:
    return LeaderElection(lock, CLOCK, new_version, worker_id=worker_id, lease_duration=lease_duration)


def test_the_duty_runs_under_the_lock_which_is_free_afterwards(lock: LockTable) -> None:
    held = run_as_leader(election(lock, "w"), CLOCK, lock.read)
    assert not isinstance(held, NotLeading)
    assert held is not None
    assert held.owner_name == "w"
    assert lock.read() is None


def test_a_duty_that_fails_leaves_the_lock_free(lock: LockTable) -> None:
    def fail() -> None:
        raise StreamGoneError(stream="s")

    with pytest.raises(StreamGoneError):
        run_as_leader(election(lock, "w"), CLOCK, fail)
    assert lock.read() is None


def test_while_another_leads_nothing_is_done_and_it_is_named(lock: LockTable) -> None:
    done: list[str] = []
    other = election(lock, "other")
    other.run_once()
    outcome = run_as_leader(election(lock, "w"), CLOCK, lambda: done.append("x"))
    assert outcome == NotLeading("other")
    assert done == []
    assert other.run_once().leads(CLOCK.monotonic())


def test_a_silent_leader_of_a_short_run_is_followed_within_the_patience(lock: LockTable) -> None:
    """A run that was killed while it held the lock must not stop all later ones."""
    election(lock, "killed", lease_duration=1.0).run_once()
    outcome = run_as_leader(election(lock, "w"), CLOCK, lambda: "done", patience=timedelta(seconds=20))
    assert outcome == "done"


def test_a_long_duty_keeps_the_lock_by_heartbeats(lock: LockTable) -> None:
    def long_duty() -> set[str]:
        versions: set[str] = set()
        pause, deadline = StopSignal(), CLOCK.monotonic() + 20
        while len(versions) < 3:
            held = lock.read()
            assert held is not None
            assert held.owner_name == "w"
            versions.add(held.record_version_number)
            assert CLOCK.monotonic() < deadline, "no heartbeat came"
            pause.wait(timedelta(milliseconds=50))
        return versions

    versions = run_as_leader(election(lock, "w", lease_duration=0.6), CLOCK, long_duty)
    assert not isinstance(versions, NotLeading)
    assert len(versions) == 3


def test_a_wait_for_the_lock_ends_when_the_process_is_to_end(lock: LockTable) -> None:
    election(lock, "other").run_once()
    stop, done = StopSignal(), list[str]()
    stop.set()
    outcome = run_as_leader(
        election(lock, "w"), CLOCK, lambda: done.append("x"), patience=timedelta(hours=1), stop=stop
    )
    assert (outcome, done) == (NotLeading("other"), [])


def test_a_duty_beside_another_is_refused_and_possible_right_after_it(lock: LockTable) -> None:
    done: list[str] = []

    def duty() -> object:
        outcome = run_as_leader(election(lock, "later"), CLOCK, lambda: done.append("later"))
        done.append("first")
        return outcome

    assert run_as_leader(election(lock, "first"), CLOCK, duty) == NotLeading("first")
    run_as_leader(election(lock, "later"), CLOCK, lambda: done.append("later"))
    assert done == ["first", "later"]


def test_without_a_table_for_the_lock_nothing_is_done(dynamodb: "DynamoDBClient", application_name: str) -> None:
    done: list[str] = []
    missing = LockTable(dynamodb, TableLocation(application_name, "key"))
    with pytest.raises(TableMissingError):
        run_as_leader(election(missing, "w"), CLOCK, lambda: done.append("x"))
    assert done == []
