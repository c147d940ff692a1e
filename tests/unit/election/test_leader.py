"""The leader's lock: never two leaders, and a silent one is followed after its own promised time."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.clock import SystemClock
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.election.evidence import dump, load
from kcl_core.election.leader import LeaderElection
from kcl_core.election.lock import Lock, LockSighting, next_step, see
from kcl_core.election.lock_table import LockTable
from kcl_core.errors import EndpointUnavailableError, TableSchemaError
from kcl_core.leases.identity import boot_id
from kcl_core.runtime import StopSignal
from kcl_core.simulation.clock import VirtualClock
from kcl_core.testing.server import EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

DURATION = 120.0
LOCKS = st.builds(Lock, st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), st.floats(1, 200), st.booleans())
TIMES = st.floats(0, 1000)


@pytest.fixture
def location(dynamodb: "DynamoDBClient", application_name: str) -> Iterator[TableLocation]:
    made = TableLocation(application_name, "key")
    create_table(dynamodb, made, SystemClock(), StopSignal().wait)
    yield made
    dynamodb.delete_table(TableName=made.table_name)


@pytest.fixture
def lock_table(dynamodb: "DynamoDBClient", location: TableLocation) -> LockTable:
    return LockTable(dynamodb, location)


def candidate(
    table: LockTable, clock: VirtualClock, worker_id: str, duration: float = DURATION, seen: LockSighting | None = None
) -> LeaderElection:
    versions = (f"{worker_id}-{id(clock)}-{number}" for number in count())
    return LeaderElection(table, clock, lambda: next(versions), worker_id=worker_id, lease_duration=duration, seen=seen)


def test_the_first_candidate_leads_and_the_second_learns_who_does(lock_table: LockTable) -> None:
    clock = VirtualClock()
    first, second = candidate(lock_table, clock, "first"), candidate(lock_table, clock, "second")
    assert first.run_once().leads(clock.monotonic())
    standing = second.run_once()
    assert (standing.leader, standing.leads(clock.monotonic())) == ("first", False)


def test_of_ten_candidates_at_once_exactly_one_leads(embedded_aws: EmbeddedAws, location: TableLocation) -> None:
    clock = VirtualClock()
    tables = [LockTable(embedded_aws.config().dynamodb(), location) for _ in range(10)]
    candidates = [candidate(table, clock, f"w{n}") for n, table in enumerate(tables)]
    with ThreadPoolExecutor(len(candidates)) as pool:
        standings = list(pool.map(LeaderElection.run_once, candidates))
    assert sum(standing.leads(clock.monotonic()) for standing in standings) == 1


def test_a_heartbeat_seen_by_an_observer_starts_its_wait_anew(lock_table: LockTable) -> None:
    clock = VirtualClock()
    leader, heir = candidate(lock_table, clock, "leader"), candidate(lock_table, clock, "heir")
    leader.run_once()
    heir.run_once()
    clock.advance(DURATION - 1)
    leader.run_once()
    clock.advance(2)
    assert heir.run_once().leader == "leader"
    clock.advance(DURATION)
    assert heir.run_once().leader == "leader"
    clock.advance(0.1)
    assert heir.run_once().leads(clock.monotonic())


def test_of_two_heirs_of_a_silent_leader_the_later_write_is_refused(lock_table: LockTable) -> None:
    clock = VirtualClock()
    candidate(lock_table, clock, "silent").run_once()
    heirs = [candidate(lock_table, clock, name) for name in ("one", "two")]
    expired = heirs[0].watch()
    heirs[1].watch()
    assert expired is not None
    clock.advance(DURATION + 1)
    assert heirs[0].run_once().leads(clock.monotonic())
    assert heirs[1].run_once().leader == "one"
    assert not lock_table.take_expired(Lock("two", "late", DURATION), seen=expired.lock)


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
def test_a_request_that_was_repeated_after_it_had_been_carried_out_has_won(
    embedded_aws: EmbeddedAws, location: TableLocation, operation: str
) -> None:
    """The AWS client repeats by itself what was not answered; the repeated request fails its condition."""
    client, clock, sent = embedded_aws.config().dynamodb(), VirtualClock(), count()

    def ask_again(**_: object) -> Any:
        return 0.0 if next(sent) == 0 else None

    leader = candidate(LockTable(client, location), clock, "leader")
    if operation == "UpdateItem":
        leader.run_once()
    client.meta.events.register_first(f"needs-retry.dynamodb.{operation}", ask_again)
    assert leader.run_once().leads(clock.monotonic())
    assert next(sent) == 2
    assert leader.run_once().leads(clock.monotonic())


@pytest.mark.parametrize("runs_before", [0, 1, 3])
def test_a_leader_goes_on_with_a_lock_whose_writing_was_not_answered(runs_before: int) -> None:
    clock, table = VirtualClock(), _MemoryTable()
    leader = candidate(table, clock, "leader")
    for _ in range(runs_before):
        leader.run_once()
    table.loses_answers = True
    with pytest.raises(EndpointUnavailableError):
        leader.run_once()
    table.loses_answers = False
    assert leader.run_once().leads(clock.monotonic())


def test_a_lock_whose_writing_was_not_answered_is_released_too() -> None:
    clock, table = VirtualClock(), _MemoryTable()
    leader = candidate(table, clock, "leader")
    leader.run_once()
    table.loses_answers = True
    with pytest.raises(EndpointUnavailableError):
        leader.run_once()
    table.loses_answers = False
    assert leader.release()
    assert table.read() is None


def test_a_heartbeat_keeps_the_lock_for_ever(lock_table: LockTable) -> None:
    clock = VirtualClock()
    leader, other = candidate(lock_table, clock, "leader"), candidate(lock_table, clock, "other")
    for _ in range(12):
        assert leader.run_once().leads(clock.monotonic())
        assert not other.run_once().leads(clock.monotonic())
        clock.advance(leader.heartbeat_interval.total_seconds())


def test_a_silent_leader_is_followed_after_its_own_duration_and_not_before(lock_table: LockTable) -> None:
    clock = VirtualClock()
    silent, heir = candidate(lock_table, clock, "silent", DURATION), candidate(lock_table, clock, "heir", 5.0)
    silent.run_once()
    heir.run_once()
    clock.advance(DURATION)
    assert heir.run_once().leader == "silent"
    clock.advance(0.1)
    assert heir.run_once().leads(clock.monotonic())


def test_a_leader_that_could_not_heartbeat_no_longer_trusts_itself(lock_table: LockTable) -> None:
    clock = VirtualClock()
    leader, heir = candidate(lock_table, clock, "leader", 10.0), candidate(lock_table, clock, "heir", 10.0)
    standing = leader.run_once()
    heir.run_once()
    clock.advance(10.1)
    assert not standing.leads(clock.monotonic())
    assert heir.run_once().leads(clock.monotonic())
    assert leader.run_once().leader == "heir"
    assert not leader.release()


def test_a_released_lock_is_free_at_once(lock_table: LockTable) -> None:
    clock = VirtualClock()
    first, second = candidate(lock_table, clock, "first"), candidate(lock_table, clock, "second")
    first.run_once()
    second.run_once()
    assert first.release()
    assert not first.release()
    assert second.run_once().leads(clock.monotonic())


def test_a_restarted_process_does_not_own_its_old_lock(lock_table: LockTable) -> None:
    clock = VirtualClock()
    candidate(lock_table, clock, "same").run_once()
    restarted = LeaderElection(lock_table, clock, lambda: "new", worker_id="same", lease_duration=DURATION)
    assert not restarted.run_once().leads(clock.monotonic())
    clock.advance(DURATION + 0.1)
    assert restarted.run_once().leads(clock.monotonic())


def test_evidence_carries_the_wait_over_to_the_next_process(lock_table: LockTable) -> None:
    clock = VirtualClock()
    candidate(lock_table, clock, "silent").run_once()
    first_look = candidate(lock_table, clock, "watcher")
    evidence = first_look.watch()
    assert evidence is not None
    clock.advance(DURATION + 0.1)
    carried = load(dump(evidence))
    assert candidate(lock_table, clock, "heir", seen=carried).run_once().leads(clock.monotonic())


def test_the_item_has_the_format_of_the_lock_client(
    lock_table: LockTable, dynamodb: "DynamoDBClient", location: TableLocation
) -> None:
    candidate(lock_table, VirtualClock(), "worker", 120.0).run_once()
    item = dynamodb.get_item(TableName=location.table_name, Key={"key": {"S": "Leader"}})["Item"]
    version = item.pop("recordVersionNumber")
    assert set(version) == {"S"}
    assert item == {
        "key": {"S": "Leader"},
        "ownerName": {"S": "worker"},
        "leaseDuration": {"S": "120000"},
        "entityType": {"S": "LEADER"},
    }


def test_a_lock_released_by_java_without_deleting_it_is_taken(
    lock_table: LockTable, dynamodb: "DynamoDBClient", location: TableLocation
) -> None:
    item = {"ownerName": "java", "leaseDuration": "120000", "recordVersionNumber": "x", "isReleased": "1"}
    stored = {"key": {"S": "Leader"}, **{name: {"S": value} for name, value in item.items()}}
    dynamodb.put_item(TableName=location.table_name, Item=stored)
    clock = VirtualClock()
    assert candidate(lock_table, clock, "ours").run_once().leads(clock.monotonic())


def test_a_foreign_row_in_the_locks_place_is_an_error_that_names_it(
    lock_table: LockTable, dynamodb: "DynamoDBClient", location: TableLocation
) -> None:
    dynamodb.put_item(TableName=location.table_name, Item={"key": {"S": "Leader"}, "what": {"S": "ever"}})
    with pytest.raises(TableSchemaError, match="Leader"):
        candidate(lock_table, VirtualClock(), "ours").run_once()


@given(LOCKS, TIMES, TIMES)
def test_a_lock_held_by_others_is_touched_only_when_expired_or_released(lock: Lock, since: float, wait: float) -> None:
    step = next_step(LockSighting(lock, since), (), since + wait)
    assert (step == "take released") == lock.is_released
    if not lock.is_released:
        assert step == ("take expired" if (since + wait) - since > lock.lease_duration else "wait")


@given(st.none() | LOCKS, st.none() | st.builds(LockSighting, LOCKS, TIMES), TIMES)
def test_the_time_of_a_lock_counts_from_its_first_sight(
    lock: Lock | None, earlier: LockSighting | None, now: float
) -> None:
    seen = see(lock, earlier, now)
    if lock is None:
        assert seen is None
    else:
        assert seen is not None
        assert seen.lock == lock
        assert seen.since == (earlier.since if earlier is not None and earlier.lock == lock else now)


@given(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), TIMES)
def test_an_own_lock_is_heartbeated_however_long_it_was_silent(owner: str, version: str, wait: float) -> None:
    assert next_step(LockSighting(Lock(owner, version, 30), 0.0), {"1", "2"}, wait) == "heartbeat"


STEPS = st.tuples(st.integers(0, 2), st.sampled_from(["run", "run", "answer lost", "release"]), st.floats(0, 40))


@given(st.lists(STEPS, max_size=60))
def test_there_are_never_two_leaders_whatever_the_schedule(schedule: list[tuple[int, str, float]]) -> None:
    """Each step one candidate acts and time passes; a table in memory, with the conditions of the real one."""
    clock, table = VirtualClock(), _MemoryTable()
    candidates = [candidate(table, clock, f"w{n}", 30.0) for n in range(3)]
    for chosen, act, wait in schedule:
        table.loses_answers = act == "answer lost"
        if act == "release":
            candidates[chosen].release()
        else:
            with contextlib.suppress(EndpointUnavailableError):
                candidates[chosen].run_once()
        leaders = [each for each in candidates if each.standing.leads(clock.monotonic())]
        assert len(leaders) <= 1
        clock.advance(wait)


class _MemoryTable(LockTable):
    def __init__(self) -> None:
        self._lock: Lock | None = None
        self.loses_answers = False

    def read(self) -> Lock | None:
        return self._lock

    def create(self, lock: Lock) -> bool:
        return self._replace(lock, allowed=self._lock is None)

    def take_released(self, lock: Lock) -> bool:
        return self._replace(lock, allowed=self._lock is not None and self._lock.is_released)

    def take_expired(self, lock: Lock, *, seen: Lock) -> bool:
        return self._replace(lock, allowed=self._lock == seen)

    def heartbeat(self, lock: Lock, *, held: Lock) -> bool:
        return self._replace(lock, allowed=self._lock == held)

    def delete(self, held: Lock) -> bool:
        return self._replace(None, allowed=self._lock == held)

    def _replace(self, lock: Lock | None, *, allowed: bool) -> bool:
        if allowed:
            self._lock = lock
        if self.loses_answers:
            raise EndpointUnavailableError(service="DynamoDB", operation="PutItem", cause="the answer was lost")
        return allowed


@given(st.none() | st.builds(LockSighting, LOCKS, TIMES))
def test_evidence_survives_a_process_but_not_a_boot(seen: LockSighting | None) -> None:
    text = dump(seen)
    assert load(text) == seen
    assert load(text.replace(boot_id(), "another boot")) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boot": "x"}'])
def test_a_foreign_text_is_no_evidence(text: str) -> None:
    assert load(text) is None
