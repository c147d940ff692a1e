"""Checkpoints of held leases: in order, by the owner alone, one prepared at a time."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kcl_core.consumer.checkpointer import Checkpointer
from kcl_core.dynamodb.location import TableLocation
from kcl_core.errors import CheckpointRejectedError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def at(number: int | str, sub: int = 0) -> ExtendedSequenceNumber:
    return ExtendedSequenceNumber(str(number), sub)


@pytest.fixture
def held(virtual_clock: VirtualClock) -> HeldLeases:
    return HeldLeases(virtual_clock, timedelta(seconds=10))


@pytest.fixture
def one(leases: LeaseTable, held: HeldLeases) -> Lease:
    """A lease that is in the table and held."""
    one = Lease(lease_key="s", lease_owner="A", lease_counter=7, checkpoint=at(13), owner_switches_since_checkpoint=2)
    leases.create(one)
    held.acquire(one)
    return one


@pytest.fixture
def checkpointer(leases: LeaseTable, held: HeldLeases, one: Lease) -> Checkpointer:
    assert held.get("s") == one
    return Checkpointer(leases, held)


def test_a_checkpoint_in_one_step(checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases) -> None:
    assert checkpointer.checkpoint("s", at(15, 3))
    assert (
        leases.get("s") == held.get("s") == Lease(lease_key="s", lease_owner="A", lease_counter=8, checkpoint=at(15, 3))
    )


def test_k17_a_checkpoint_in_two_steps(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases, one: Lease
) -> None:
    prepared = checkpointer.prepare("s", at(5001), b"1")
    assert prepared == replace(one, lease_counter=8, pending_checkpoint=at(5001), pending_checkpoint_state=b"1")
    assert prepared == held.get("s") == leases.get("s")
    assert checkpointer.checkpoint("s", at(5001))
    assert leases.get("s") == Lease(lease_key="s", lease_owner="A", lease_counter=9, checkpoint=at(5001))


def test_a_prepared_checkpoint_may_be_discarded(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases
) -> None:
    checkpointer.prepare("s", at(5001), b"1")
    assert checkpointer.discard_pending("s")
    after = leases.get("s")
    assert after == held.get("s")
    assert after is not None
    assert (after.checkpoint, after.pending_checkpoint, after.pending_checkpoint_state) == (at(13), None, None)
    assert checkpointer.discard_pending("s")
    assert leases.get("s") == after, "nothing was prepared, nothing is written"


def test_none_is_prepared_while_another_is_undecided(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases
) -> None:
    prepared = checkpointer.prepare("s", at(5001), b"1")
    assert checkpointer.prepare("s", at(6000), b"2") is None
    assert leases.get("s") == held.get("s") == prepared


@pytest.mark.parametrize("position", [at(2), at("TRIM_HORIZON"), at("LATEST"), at("AT_TIMESTAMP")])
def test_k2_k5_a_position_does_not_go_back(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases, one: Lease, position: ExtendedSequenceNumber
) -> None:
    with pytest.raises(CheckpointRejectedError, match="13 already"):
        checkpointer.checkpoint("s", position)
    with pytest.raises(CheckpointRejectedError):
        checkpointer.prepare("s", position, b"")
    assert leases.get("s") == held.get("s") == one


@pytest.mark.parametrize("step", ["prepare", "checkpoint", "discard"])
def test_a_lease_that_was_lost_is_dropped_and_its_row_left_alone(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases, step: str
) -> None:
    if step == "discard":
        checkpointer.prepare("s", at(14), b"")
    present = leases.get("s")
    assert present is not None
    taken = leases.assign(present, "B")
    assert not act(checkpointer, step)
    assert held.all() == ()
    assert leases.get("s") == taken
    assert not act(checkpointer, step), "not held"


def act(checkpointer: Checkpointer, step: str, **more: Any) -> object:
    match step:
        case "prepare":
            return checkpointer.prepare("s", at(20), b"", **more)
        case "checkpoint":
            return checkpointer.checkpoint("s", at(20), **more)
        case _:
            return checkpointer.discard_pending("s", **more)


@pytest.mark.parametrize("step", ["prepare", "checkpoint", "discard"])
def test_work_of_an_earlier_acquisition_is_refused_and_the_new_one_kept(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases, step: str
) -> None:
    began = held.acquisition("s")
    present = leases.get("s")
    assert present is not None
    held.drop("s")
    held.acquire(present)
    assert not act(checkpointer, step, acquisition=began)
    assert leases.get("s") == held.get("s") == present
    assert act(checkpointer, step, acquisition=held.acquisition("s"))


def test_a_lease_that_expired_here_is_not_written(
    checkpointer: Checkpointer, leases: LeaseTable, one: Lease, virtual_clock: VirtualClock
) -> None:
    virtual_clock.advance(10.001)
    assert not checkpointer.checkpoint("s", at(20))
    assert leases.get("s") == one


def test_a_checkpoint_counts_as_a_renewal(
    checkpointer: Checkpointer, held: HeldLeases, virtual_clock: VirtualClock
) -> None:
    for number in (20, 21, 22):
        virtual_clock.advance(9.0)
        assert checkpointer.checkpoint("s", at(number))
    assert held.get("s") is not None


class SlowClient:
    """A DynamoDB client whose updates take four seconds."""

    def __init__(self, client: "DynamoDBClient", clock: VirtualClock) -> None:
        self._client = client
        self._clock = clock

    def update_item(self, **request: Any) -> Any:
        answer = self._client.update_item(**request)
        self._clock.advance(4.0)
        return answer


@pytest.mark.usefixtures("one")
def test_the_time_of_a_lease_counts_from_before_its_checkpoint_was_sent(
    dynamodb: "DynamoDBClient", lease_location: TableLocation, held: HeldLeases, virtual_clock: VirtualClock
) -> None:
    slow: Any = SlowClient(dynamodb, virtual_clock)
    assert Checkpointer(LeaseTable(slow, lease_location), held).checkpoint("s", at(20))
    virtual_clock.advance(6.0)
    assert held.get("s") is not None
    virtual_clock.advance(0.001)
    assert held.get("s") is None


def test_checkpoints_go_on_during_a_handoff_and_show_it(
    checkpointer: Checkpointer, leases: LeaseTable, held: HeldLeases, one: Lease
) -> None:
    leases.initiate_graceful_handoff(one, "B")
    assert checkpointer.checkpoint("s", at(20))
    (leaving,) = held.leaving("A")
    assert (leaving.lease_owner, leaving.checkpoint) == ("B", at(20))
