"""Renewal against a server: KCL's vectors, and what a refusal means."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.writes import put_item
from kcl_core.errors import TableMissingError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.renewal import LostLease, RenewAgain, RenewLeases, StillHeld, judge_refusal
from kcl_core.leases.table import LeaseTable
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture
def held(virtual_clock: VirtualClock) -> HeldLeases:
    return HeldLeases(virtual_clock, timedelta(seconds=10))


@pytest.fixture
def renewal(leases: LeaseTable, held: HeldLeases, virtual_clock: VirtualClock) -> RenewLeases:
    return RenewLeases(leases, held, virtual_clock, "A")


def lease(key: str = "s", owner: str | None = "A", **more: Any) -> Lease:
    return Lease(lease_key=key, lease_owner=owner, checkpoint=ExtendedSequenceNumber.LATEST, **more)


@pytest.fixture
def one(leases: LeaseTable, held: HeldLeases) -> Lease:
    """A lease that is in the table and held."""
    one = lease(lease_counter=7)
    leases.create(one)
    held.acquire(one)
    return one


def test_a_held_lease_is_renewed_and_stays(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases, one: Lease, virtual_clock: VirtualClock
) -> None:
    for counter in (8, 9, 10):
        virtual_clock.advance(9.0)
        report = renewal.run_once()
        assert report.renewed == (replace(one, lease_counter=counter),) == held.all()
        assert leases.get("s") == held.get("s")
        assert (report.lost, report.failed, report.leaving) == ((), (), ())


def test_the_throughput_is_written_with_it(
    leases: LeaseTable, held: HeldLeases, virtual_clock: VirtualClock, one: Lease
) -> None:
    rates = {"s": 12.5}
    (renewed,) = RenewLeases(leases, held, virtual_clock, "A", throughput=rates.get).run_once().renewed
    assert renewed == replace(one, lease_counter=8, throughput_kbps=12.5) == leases.get("s")
    rates.clear()
    (renewed,) = RenewLeases(leases, held, virtual_clock, "A", throughput=rates.get).run_once().renewed
    assert renewed.throughput_kbps == 12.5


def test_a_lease_that_expired_here_is_lost_though_its_row_could_be_renewed(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases, one: Lease, virtual_clock: VirtualClock
) -> None:
    virtual_clock.advance(10.001)
    report = renewal.run_once()
    assert report.lost == (LostLease("s", "not renewed within the failover time"),)
    assert (held.all(), held.expired(), leases.get("s")) == ((), (), one)


def test_a_lease_assigned_to_another_is_lost(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases, one: Lease
) -> None:
    leases.assign(one, "B")
    assert renewal.run_once().lost == (LostLease("s", "B owns it now"),)
    assert held.all() == ()


def test_e07_e25_e26_the_owner_learns_of_a_handoff_and_keeps_the_lease(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases, one: Lease
) -> None:
    assert renewal.run_once().leaving == ()
    present = held.get("s")
    assert present is not None
    leases.initiate_graceful_handoff(present, "B")
    for counter in (9, 10, 11):
        report = renewal.run_once()
        handed = replace(one, lease_owner="B", checkpoint_owner="A", lease_counter=counter)
        assert report.leaving == report.renewed == held.all() == held.leaving("A") == (handed,)
        assert leases.get("s") == handed


def test_e08_a_row_that_is_gone_is_lost(renewal: RenewLeases, held: HeldLeases) -> None:
    held.acquire(lease())
    assert renewal.run_once().lost == (LostLease("s", "its row is gone"),)


def test_e09_a_handoff_between_others_is_a_loss(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases, one: Lease
) -> None:
    taken = leases.assign(one, "B")
    assert isinstance(taken, Lease)
    leases.initiate_graceful_handoff(taken, "C")
    assert renewal.run_once().lost == (LostLease("s", "B owns it now"),)
    assert held.all() == ()


@pytest.mark.parametrize(
    ("owner", "checkpoint_owner", "kept"),
    [pytest.param("A", "B", False, id="E24"), pytest.param("random", "A", True, id="E25"), ("A", "A", False)],
)
def test_a_lease_in_handoff_is_kept_by_the_one_that_hands_over(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases, *, owner: str, checkpoint_owner: str, kept: bool
) -> None:
    present = lease(owner=owner, checkpoint_owner=checkpoint_owner)
    leases.create(present)
    held.acquire(present)
    assert bool(renewal.run_once().renewed) is kept
    assert bool(held.all()) is kept


class Unreliable:
    """A DynamoDB client some of whose updates fail, before or after they have taken effect."""

    def __init__(self, client: "DynamoDBClient", fails: Callable[[int], str | None]) -> None:
        self._client = client
        self._fails = fails
        self._updates = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def update_item(self, **request: Any) -> Any:
        self._updates += 1
        fails = self._fails(self._updates)
        if fails != "before":
            answer = self._client.update_item(**request)
        if fails:
            raise EndpointConnectionError(endpoint_url="http://nowhere")
        return answer


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_renewal_without_an_answer_is_tried_again_and_the_lease_stays(
    dynamodb: "DynamoDBClient",
    lease_location: TableLocation,
    held: HeldLeases,
    one: Lease,
    virtual_clock: VirtualClock,
    *,
    when: str,
) -> None:
    client: Any = Unreliable(dynamodb, lambda number: when if number == 1 else None)
    renewal = RenewLeases(LeaseTable(client, lease_location), held, virtual_clock, "A")
    (failed,) = renewal.run_once().failed
    assert (failed.lease_key, failed.error.retryable) == ("s", True)
    assert held.get("s") == one
    virtual_clock.advance(3.3)
    assert renewal.run_once().renewed == (replace(one, lease_counter=8),)


def test_without_answers_the_lease_is_lost_at_the_failover_time(
    dynamodb: "DynamoDBClient", lease_location: TableLocation, held: HeldLeases, one: Lease, virtual_clock: VirtualClock
) -> None:
    client: Any = Unreliable(dynamodb, lambda _: "before")
    renewal = RenewLeases(LeaseTable(client, lease_location), held, virtual_clock, "A")
    for _ in range(3):
        assert renewal.run_once().failed
        virtual_clock.advance(3.4)
    assert [each.lease_key for each in renewal.run_once().lost] == [one.lease_key]


def test_the_time_of_a_lease_counts_from_before_its_renewal_was_sent(
    dynamodb: "DynamoDBClient", lease_location: TableLocation, held: HeldLeases, one: Lease, virtual_clock: VirtualClock
) -> None:
    """Others count from when they see it, which may be before the answer comes."""

    def slow(_: int) -> None:
        virtual_clock.advance(4.0)

    client: Any = Unreliable(dynamodb, slow)
    assert RenewLeases(LeaseTable(client, lease_location), held, virtual_clock, "A").run_once().renewed
    virtual_clock.advance(6.0)
    assert held.get("s") == replace(one, lease_counter=8)
    virtual_clock.advance(0.001)
    assert held.get("s") is None


def test_a_missing_table_ends_the_component(
    dynamodb: "DynamoDBClient", application_name: str, held: HeldLeases, virtual_clock: VirtualClock
) -> None:
    table = LeaseTable(dynamodb, TableLocation(f"{application_name}-none", "leaseKey", "LEASE"))
    held.acquire(lease())
    with pytest.raises(TableMissingError):
        RenewLeases(table, held, virtual_clock, "A").run_once()


def test_e22_e23_a_new_process_takes_back_the_leases_of_its_worker_id(
    renewal: RenewLeases,
    leases: LeaseTable,
    held: HeldLeases,
    dynamodb: "DynamoDBClient",
    lease_location: TableLocation,
) -> None:
    for key in ("k1", "k2", "k3", "k4"):
        leases.create(lease(key, lease_counter=40))
    leases.create(lease("k5", "B"))
    leases.create(lease("k6", None))
    leases.create(lease("coming", "A", checkpoint_owner="B"))
    put_item(dynamodb, lease_location, {"leaseKey": {"S": "bad"}, "leaseOwner": {"S": "A"}}, {})
    recovered = renewal.recover()
    assert sorted(each.lease_key for each in recovered) == ["k1", "k2", "k3", "k4"]
    assert {each.lease_counter for each in held.all()} == {41}
    assert len(renewal.run_once().renewed) == 4


def test_a_stale_read_of_the_start_does_not_hold_what_is_not_there(
    renewal: RenewLeases, leases: LeaseTable, held: HeldLeases
) -> None:
    leases.create(lease("s", "B"))
    assert renewal.recover() == ()
    assert held.all() == ()


workers = st.none() | st.sampled_from("ABC")
rows = st.builds(
    Lease,
    lease_key=st.just("s"),
    lease_owner=workers,
    lease_counter=st.integers(5, 8),
    checkpoint_owner=workers,
    checkpoint=st.just(ExtendedSequenceNumber.LATEST),
)


@given(rows.filter(lambda row: row.actual_owner is not None), st.none() | rows)
def test_a_refusal_never_keeps_the_lease_of_another_owner(mine: Lease, current: Lease | None) -> None:
    verdict = judge_refusal(mine, current)
    if isinstance(verdict, LostLease):
        return
    assert current is not None
    assert current.actual_owner == mine.actual_owner
    assert current.checkpoint_owner is None or current.checkpoint_owner != current.lease_owner
    if isinstance(verdict, StillHeld):
        assert verdict.lease == current
        assert current.lease_counter == mine.lease_counter + 1
    else:
        assert isinstance(verdict, RenewAgain)
        assert mine.checkpoint_owner is None, "renewed again once only"
        assert verdict.lease.lease_counter == mine.lease_counter
        assert verdict.lease.checkpoint_owner == current.checkpoint_owner
