"""Discovery and transfer against a server: KCL's vectors, and a handoff from end to end."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError

from kcl_core.dynamodb.location import TableLocation
from kcl_core.leases.discovery import DiscoverLeases, DiscoveryReport
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.renewal import RenewLeases
from kcl_core.leases.table import LeaseTable
from kcl_core.leases.transfer import transfer
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture
def held(virtual_clock: VirtualClock) -> HeldLeases:
    return HeldLeases(virtual_clock, timedelta(seconds=10))


def lease(key: str, owner: str | None = "A", **more: Any) -> Lease:
    return Lease(lease_key=key, lease_owner=owner, checkpoint=ExtendedSequenceNumber.LATEST, **more)


def keys(report: DiscoveryReport) -> list[str]:
    return sorted(each.lease_key for each in report.acquired)


def test_e27_only_leases_that_are_not_held_are_acquired(leases: LeaseTable, held: HeldLeases) -> None:
    for key in ("1", "2", "3", "4"):
        leases.create(lease(key))
    held.acquire(lease("1"))
    held.acquire(lease("2"))
    discovery = DiscoverLeases(leases, held, "A")
    assert keys(discovery.run_once()) == ["3", "4"]
    assert len(held.all()) == 4
    assert discovery.run_once() == DiscoveryReport()


def test_e30_a_lease_that_is_not_handed_over_yet_waits(leases: LeaseTable, held: HeldLeases) -> None:
    leases.create(lease("1"))
    leases.create(lease("2"))
    leases.create(lease("3", checkpoint_owner="B"))
    report = DiscoverLeases(leases, held, "A").run_once()
    assert keys(report) == ["1", "2"]
    assert [each.reason for each in report.overlooked] == ["B has not handed it over yet"]


class StaleIndex:
    """A client whose owner index still names leases that went elsewhere."""

    def __init__(self, client: "DynamoDBClient", named: list[str], *, gets_fail: bool = False) -> None:
        self._client = client
        self._named = named
        self._gets_fail = gets_fail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_paginator(self, name: str) -> Any:
        return self if name == "query" else self._client.get_paginator(name)  # type: ignore[call-overload]

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Items": [{"leaseKey": {"S": key}} for key in self._named]}]

    def get_item(self, **request: Any) -> Any:
        if self._gets_fail:
            raise EndpointConnectionError(endpoint_url="http://nowhere")
        return self._client.get_item(**request)


def test_e29_what_the_index_says_is_checked_against_the_row(
    leases: LeaseTable, held: HeldLeases, dynamodb: "DynamoDBClient", lease_location: TableLocation
) -> None:
    leases.create(lease("mine"))
    leases.create(lease("other", "B"))
    stale: Any = StaleIndex(dynamodb, ["mine", "other", "gone"])
    report = DiscoverLeases(LeaseTable(stale, lease_location), held, "A").run_once()
    assert keys(report) == ["mine"]
    assert {each.lease_key for each in report.overlooked} == {"other", "gone"}


def test_e28_a_lease_that_cannot_be_read_is_left_to_the_next_run(
    leases: LeaseTable, held: HeldLeases, dynamodb: "DynamoDBClient", lease_location: TableLocation
) -> None:
    leases.create(lease("mine"))
    failing: Any = StaleIndex(dynamodb, ["mine"], gets_fail=True)
    report = DiscoverLeases(LeaseTable(failing, lease_location), held, "A").run_once()
    assert (report.acquired, held.all()) == ((), ())
    assert [each.lease_key for each in report.overlooked] == ["mine"]
    assert keys(DiscoverLeases(leases, held, "A").run_once()) == ["mine"]


def test_a_lease_that_expired_here_is_not_found_again_before_it_was_given_up(
    leases: LeaseTable, held: HeldLeases, virtual_clock: VirtualClock
) -> None:
    leases.create(lease("1"))
    held.acquire(lease("1"))
    virtual_clock.advance(11.0)
    discovery = DiscoverLeases(leases, held, "A")
    assert discovery.run_once().acquired == ()
    RenewLeases(leases, held, virtual_clock, "A").run_once()
    assert keys(discovery.run_once()) == ["1"]


def test_a_handoff_from_end_to_end(leases: LeaseTable, virtual_clock: VirtualClock) -> None:
    mine, theirs = (HeldLeases(virtual_clock, timedelta(seconds=10)) for _ in "AB")
    leases.create(lease("s"))
    assert keys(DiscoverLeases(leases, mine, "A").run_once()) == ["s"]
    renewal, discovery_of_b = RenewLeases(leases, mine, virtual_clock, "A"), DiscoverLeases(leases, theirs, "B")
    (present,) = renewal.run_once().renewed
    leases.initiate_graceful_handoff(present, "B")

    assert mine.leaving("A") == (), "not known yet"
    renewal.run_once()
    (leaving,) = mine.leaving("A")
    assert discovery_of_b.run_once().acquired == ()

    assert transfer(leases, mine, leaving)
    assert mine.all() == ()
    assert not transfer(leases, mine, leaving), "nothing left to give"
    (acquired,) = discovery_of_b.run_once().acquired
    assert acquired == leases.get("s")
    assert (acquired.lease_owner, acquired.checkpoint_owner) == ("B", None)
    assert acquired.owner_switches_since_checkpoint == 0


def test_l02_l05_l06_what_is_not_to_be_given_is_not(leases: LeaseTable, held: HeldLeases) -> None:
    kept = lease("kept")
    leases.create(kept)
    held.acquire(kept)
    assert not transfer(leases, held, kept)
    assert held.get("kept") == kept, "nobody asked for it"

    leaving = lease("leaving", "B", checkpoint_owner="A")
    leases.create(leaving)
    assert not transfer(leases, held, leaving), "not held"
    assert leases.get("leaving") == leaving


def test_a_lease_that_was_given_elsewhere_meanwhile_is_forgotten(leases: LeaseTable, held: HeldLeases) -> None:
    leaving = lease("s", "B", checkpoint_owner="A")
    leases.create(leaving)
    held.acquire(leaving)
    elsewhere = leases.assign(leaving, "C")
    assert not transfer(leases, held, leaving)
    assert (held.all(), leases.get("s")) == ((), elsewhere)


def test_a_transfer_that_had_happened_already_is_one(leases: LeaseTable, held: HeldLeases) -> None:
    leaving = lease("s", "B", checkpoint_owner="A")
    leases.create(leaving)
    held.acquire(leaving)
    leases.assign(leaving, "B")
    assert transfer(leases, held, leaving)
    assert held.all() == ()


def test_a_transfer_without_an_answer_leaves_the_lease_held(
    leases: LeaseTable, held: HeldLeases, dynamodb: "DynamoDBClient"
) -> None:
    leaving = lease("s", "B", checkpoint_owner="A")
    leases.create(leaving)
    held.acquire(leaving)
    nowhere = LeaseTable(dynamodb, TableLocation("no-such-table", "leaseKey", "LEASE"))
    with pytest.raises(Exception, match="no-such-table"):
        transfer(nowhere, held, leaving)
    assert held.leaving("A") == (leaving,)
    assert transfer(leases, held, leaving)
