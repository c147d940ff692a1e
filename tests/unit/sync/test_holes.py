"""The audit of hash ranges, vector by vector."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import MAX_HASH_KEY
from kcl_core.sync.holes import Hole, audit, find_hole
from kcl_core.sync.shards import uncovered

H1 = "0-1 2-3 4-23 6-23 25-MAX"
H2 = "0-1 2-3 4-23 6-23 24-MAX"
H5 = "0-1 2-3 6-23 24-MAX"
H14 = "0-1 2-3 5-23 6-23 24-MAX"


def _range(text: str) -> HashKeyRange:
    low, _, high = text.partition("-")
    return HashKeyRange(int(low), {"MAX": MAX_HASH_KEY, "MAX1": MAX_HASH_KEY - 1}.get(high) or int(high))


def ranges(text: str) -> list[HashKeyRange]:
    return [_range(each) for each in text.split()]


def leases(text: str, checkpoint: str = "5") -> list[Lease]:
    return [
        Lease(lease_key=f"shardId-{n}", checkpoint=ExtendedSequenceNumber(checkpoint), hash_key_range=each)
        for n, each in enumerate(ranges(text))
    ]


@pytest.mark.parametrize(
    ("given_ranges", "hole"),
    [
        pytest.param(H1, "4-23 25-MAX", id="H-1"),
        pytest.param(H2, None, id="H-2"),
        pytest.param("24-MAX 6-23 0-1 4-23 2-3", None, id="H-3"),
        pytest.param(H2 + " 24-45", None, id="H-4"),
        pytest.param(H5, "2-3 6-23", id="H-5"),
        pytest.param("0-MAX", None, id="H-7"),
        pytest.param("1-MAX", "1-MAX 1-MAX", id="H-8"),
        pytest.param("0-MAX1", "0-MAX1 0-MAX1", id="H-9"),
        pytest.param("0-MAX 5-10", "0-MAX 5-10", id="H-10"),
        pytest.param("0-10 0-MAX 11-MAX", None, id="H-11"),
        pytest.param("0-5 3-10 11-MAX", None, id="H-12"),
        pytest.param("0-5 3-8 10-MAX", "0-5 10-MAX", id="H-13"),
        pytest.param(H14, "2-3 5-23", id="H-14"),
        pytest.param("0-9 0-4 5-9 10-MAX", None, id="H-15"),
    ],
)
def test_holes_are_found_as_kcl_finds_them(given_ranges: str, hole: str | None) -> None:
    assert find_hole(ranges(given_ranges)) == (Hole(*ranges(hole)) if hole else None)


def test_no_active_lease_at_all_is_a_hole_that_equals_itself() -> None:
    """H-6."""
    assert audit(leases(H2, "SHARD_END")).hole == Hole(None, None)
    without_ranges = [replace(each, hash_key_range=None) for each in leases(H2)]
    assert audit(without_ranges).hole == Hole(None, None)


@pytest.mark.parametrize("looks", ["", "4-MAX"])
def test_no_leases_call_for_a_sync_at_once(looks: str) -> None:
    """H-16, H-17, and a contrast."""
    assert audit(leases(looks)).confirmed is (looks == "")


@pytest.mark.parametrize(
    ("looks", "decisions"),
    [
        pytest.param([H1] * 3, "nny", id="H-18"),
        pytest.param([H5] * 3, "nny", id="H-19"),
        pytest.param([H1, H1, H14, H14, H14], "nnnny", id="H-21"),
        pytest.param([H1, H1, H2, H1, H1, H1], "nnnnny", id="H-22"),
        pytest.param([H1] * 4, "nnyy", id="H-23"),
        pytest.param([H1, H1, H14, H14, H1, H1, H1], "nnnnnny", id="H-24"),
    ],
)
def test_a_hole_is_confirmed_when_it_is_seen_three_times_in_a_row(looks: list[str], decisions: str) -> None:
    found, answer = None, ""
    for look in looks:
        found = audit(leases(look), found, threshold=3)
        answer += "y" if found.confirmed else "n"
        assert found.reason
    assert answer == decisions


@given(
    bounds=st.sets(st.integers(1, MAX_HASH_KEY), max_size=6),
    missing=st.sets(st.integers(0, 6)),
    order=st.randoms(use_true_random=False),
)
def test_a_hole_is_reported_exactly_when_a_key_is_in_no_range(
    bounds: set[int], missing: set[int], order: random.Random
) -> None:
    edges = [0, *sorted(bounds), MAX_HASH_KEY + 1]
    parts = [HashKeyRange(low, high - 1) for low, high in pairwise(edges)]
    kept = [part for n, part in enumerate(parts) if n not in missing]
    assert (find_hole(order.sample(kept, len(kept))) is None) == (not uncovered(kept))
    total = sum(r.ending - r.starting + 1 for r in [*kept, *uncovered(kept)])
    assert total == MAX_HASH_KEY + 1
