"""The leases held by this worker: hidden when others may take them, never written by two at once."""

from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta

import pytest

from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.simulation.clock import VirtualClock


@pytest.fixture
def held(virtual_clock: VirtualClock) -> HeldLeases:
    return HeldLeases(virtual_clock, timedelta(seconds=10))


def lease(key: str, counter: int = 0, checkpoint_owner: str | None = None) -> Lease:
    return Lease(
        lease_key=key,
        lease_owner="B" if checkpoint_owner else "A",
        lease_counter=counter,
        checkpoint_owner=checkpoint_owner,
        checkpoint=ExtendedSequenceNumber.LATEST,
    )


def test_what_is_acquired_is_held_until_dropped(held: HeldLeases) -> None:
    held.acquire(lease("b"))
    held.acquire(lease("a"))
    assert held.all() == (lease("a"), lease("b"))
    held.drop("a")
    held.drop("a")
    assert (held.get("a"), held.get("b")) == (None, lease("b"))


def test_a_lease_hides_after_the_failover_time_and_not_before(held: HeldLeases, virtual_clock: VirtualClock) -> None:
    held.acquire(lease("a"))
    virtual_clock.advance(10.0)
    assert held.all() == (lease("a"),)
    virtual_clock.advance(0.001)
    assert (held.all(), held.get("a"), held.acquisition("a")) == ((), None, None)
    assert held.expired() == (lease("a"),)


def test_the_time_counts_from_before_the_write(held: HeldLeases, virtual_clock: VirtualClock) -> None:
    before = held.now()
    virtual_clock.advance(4.0)
    held.acquire(lease("a"), since=before)
    virtual_clock.advance(6.001)
    assert held.get("a") is None


def test_an_update_starts_the_time_anew(held: HeldLeases, virtual_clock: VirtualClock) -> None:
    held.acquire(lease("a"))
    virtual_clock.advance(9.0)
    assert held.update(lease("a", 1))
    virtual_clock.advance(9.0)
    assert held.get("a") == lease("a", 1)


def test_a_dropped_lease_is_not_brought_back_by_an_update(held: HeldLeases) -> None:
    held.acquire(lease("a"))
    held.drop("a")
    assert not held.update(lease("a", 1))
    assert held.get("a") is None


def test_each_acquisition_is_another(held: HeldLeases) -> None:
    held.acquire(lease("a"))
    first = held.acquisition("a")
    held.update(lease("a", 1))
    assert held.acquisition("a") == first
    held.drop("a")
    assert held.acquisition("a") is None
    held.acquire(lease("a", 1))
    assert held.acquisition("a") not in (None, first)


def test_leaving_are_those_whose_checkpoint_owner_is_this_worker(held: HeldLeases) -> None:
    for each in (lease("stays"), lease("leaves", checkpoint_owner="A"), lease("other", checkpoint_owner="C")):
        held.acquire(each)
    assert held.leaving("A") == (lease("leaves", checkpoint_owner="A"),)


def test_one_at_a_time_works_on_a_lease(held: HeldLeases) -> None:
    order: list[str] = []

    def second() -> None:
        with held.exclusive("a"):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with held.exclusive("a"), held.exclusive("a"):
            waiting = pool.submit(second)
            assert wait([waiting], timeout=0.1).not_done
            order.append("first")
        assert not wait([waiting], timeout=10).not_done
    assert order == ["first", "second"]


def test_different_leases_do_not_wait_for_each_other(held: HeldLeases) -> None:
    with ThreadPoolExecutor(1) as pool, held.exclusive("a"):

        def other() -> None:
            with held.exclusive("b"):
                held.acquire(lease("b"))

        assert not wait([pool.submit(other)], timeout=10).not_done
