"""Expiry is observed: a counter seen unchanged for the whole failover time, on one clock."""

from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.expiry import Sighting, expired, observe
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber


def lease(key: str, counter: int) -> Lease:
    return Lease(lease_key=key, lease_counter=counter, checkpoint=ExtendedSequenceNumber.LATEST)


def test_the_time_of_a_lease_starts_when_its_counter_is_first_seen() -> None:
    first = observe([lease("a", 7), lease("b", 1)], {}, now=100.0)
    assert first == {"a": Sighting(7, 100.0), "b": Sighting(1, 100.0)}
    second = observe([lease("a", 7), lease("b", 2)], first, now=104.0)
    assert second == {"a": Sighting(7, 100.0), "b": Sighting(2, 104.0)}


def test_a_lease_that_went_away_is_forgotten() -> None:
    seen = observe([lease("a", 7)], {}, now=100.0)
    gone = observe([], seen, now=101.0)
    assert observe([lease("a", 7)], gone, now=102.0) == {"a": Sighting(7, 102.0)}


def test_a_counter_that_went_back_is_a_new_lease() -> None:
    seen = observe([lease("a", 7)], {}, now=100.0)
    assert observe([lease("a", 0)], seen, now=101.0) == {"a": Sighting(0, 101.0)}


def test_d01_d02_d04_expired_is_strictly_longer_than_the_failover_time() -> None:
    seen = {"D01": Sighting(1, 9.0 - 1e-9), "D02": Sighting(1, 9.0 + 1e-9), "D04": Sighting(1, 9.0)}
    assert expired(seen, now=10.0, failover_seconds=1.0) == {"D01"}


looks = st.lists(
    st.tuples(st.floats(0.01, 5.0), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))), min_size=1, max_size=20
)


@given(looks)
def test_nothing_is_expired_that_moved_or_came_within_the_failover_time(
    history: list[tuple[float, dict[str, int]]],
) -> None:
    """Checked against all looks in full, not against the remembered sightings."""
    now, seen, times = 0.0, dict[str, Sighting](), list[tuple[float, dict[str, int]]]()
    for pause, counters in history:
        now += pause
        times.append((now, counters))
        seen = observe([lease(key, counter) for key, counter in counters.items()], seen, now)
    for key in "abc":
        still = [times[-1][0]] if key in times[-1][1] else []
        for when, counters in reversed(times):
            if not still or counters.get(key) != times[-1][1][key]:
                break
            still.append(when)
        is_expired = bool(still) and now - min(still) > 6.0
        assert (key in expired(seen, now, 6.0)) is is_expired
