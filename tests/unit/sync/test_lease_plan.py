"""KCL's decisions about which leases to create, vector by vector, and what holds for every stream."""

import random
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.config import InitialPosition
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import MAX_HASH_KEY, Shard
from kcl_core.sync.lease_plan import LeaseSyncPlan, children_ahead, plan_first_leases, plan_leases, plan_leases_ahead
from kcl_core.sync.shards import ShardGraph

_A = """0 - - 11 102 0 99
1 - - 11 102 100 199
2 - - 11 102 200 299
3 - - 11 102 300 399
4 - - 11 - 400 499
5 - - 11 205 500 MAX
6 0 1 103 205 0 199
7 2 3 103 205 200 399
8 6 7 206 - 0 399
9 5 - 206 - 500 799
10 - 5 206 - 800 MAX"""
_B = """0 - - 1000 1049 0 499
1 - - 1000 1049 500 MAX
2 0 1 1050 1099 0 MAX
3 2 - 1100 1149 0 499
4 2 - 1100 1149 500 MAX
5 3 4 1150 1199 0 MAX
6 5 - 1200 1249 0 499
7 5 - 1200 1249 500 MAX
8 6 7 1250 1299 0 MAX
9 8 - 1300 - 0 499
10 - 8 1300 - 500 MAX"""
_C = """0 - - 11 102 0 399
1 - - 11 - 400 499
2 - - 11 102 500 599
3 - - 11 102 600 MAX
4 0 - 103 205 0 199
5 0 - 103 205 200 399
6 2 3 103 - 500 MAX
7 4 - 206 - 0 99
8 4 - 206 - 100 199
9 5 - 206 - 200 299
10 5 - 206 - 300 399"""


def key(number: int | str) -> str:
    return f"shardId-{number}"


def _parse(table: str) -> tuple[Shard, ...]:
    def shard(line: str) -> Shard:
        number, parent, adjacent, start, end, low, high = line.split()
        return Shard(
            shard_id=key(number),
            parent_shard_id=None if parent == "-" else key(parent),
            adjacent_parent_shard_id=None if adjacent == "-" else key(adjacent),
            starting_sequence_number=start,
            ending_sequence_number=None if end == "-" else end,
            starting_hash_key=int(low),
            ending_hash_key=MAX_HASH_KEY if high == "MAX" else int(high),
        )

    return tuple(shard(line) for line in table.splitlines())


GRAPHS = {"A": _parse(_A), "B": _parse(_B), "C": _parse(_C)}


def lease(shard_id: str, checkpoint: str = "TRIM_HORIZON", **fields: object) -> Lease:
    return Lease(lease_key=shard_id, checkpoint=ExtendedSequenceNumber(checkpoint), **fields)  # type: ignore[arg-type]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Shard, ...]:
    """Streams after some splits and merges, of which the oldest shards may have expired."""
    roots = draw(st.integers(1, 4))
    bounds = [MAX_HASH_KEY * n // roots for n in range(roots + 1)]
    shards: list[Shard] = []
    time = 0

    def add(low: int, high: int, parent: str | None = None, adjacent: str | None = None) -> Shard:
        shard = Shard(
            shard_id=f"shardId-{len(shards):012d}",
            parent_shard_id=parent,
            adjacent_parent_shard_id=adjacent,
            starting_hash_key=low,
            ending_hash_key=high,
            starting_sequence_number=str(time),
        )
        shards.append(shard)
        return shard

    def close(shard: Shard) -> None:
        shards[shards.index(shard)] = replace(shard, ending_sequence_number=str(time))

    for n in range(roots):
        add(bounds[n] + (n > 0), bounds[n + 1])
    for _ in range(draw(st.integers(0, 6))):
        time += 10
        live = sorted((s for s in shards if s.is_open), key=lambda s: s.starting_hash_key)
        at = draw(st.integers(0, len(live) - 1))
        chosen = live[at]
        close(chosen)
        if at + 1 < len(live) and draw(st.booleans()):
            close(live[at + 1])
            time += 1
            add(chosen.starting_hash_key, live[at + 1].ending_hash_key, chosen.shard_id, live[at + 1].shard_id)
        else:
            middle = (chosen.starting_hash_key + chosen.ending_hash_key) // 2
            time += 1
            add(chosen.starting_hash_key, middle, chosen.shard_id)
            add(middle + 1, chosen.ending_hash_key, chosen.shard_id)
    closed_count = next((n for n, s in enumerate(shards) if s.is_open), len(shards))
    return tuple(shards[draw(st.integers(0, closed_count)) :])


def position(code: str) -> InitialPosition:
    names = {"LA": "LATEST", "TH": "TRIM_HORIZON", "TS": "AT_TIMESTAMP"}
    timestamp = datetime(2026, 1, 1, tzinfo=UTC) if code == "TS" else None
    return InitialPosition.model_validate({"position": names[code], "timestamp": timestamp})


POSITIONS = st.sampled_from(["LA", "TH", "TS"]).map(position)

# Row of the table in KCL's order: graph, leases, positions, leases created.
VECTORS = """
S-1 A 3,4,5 LA 2,6
S-2 A 3,4,5 TH 0,1,2
S-3 A 3,4,5 TS 0,1,2
S-4 A 4,5,7 LA 6
S-5 A 4,5,7 TH 0,1
S-6 A 4,5,7 TS 0,1
S-7 A 2,6 LA 3,4,10,9
S-8 A 2,6 TH 3,4,5
S-9 A 2,6 TS 3,4,5
S-10 A 4,9,10 LA 8
S-11 A 4,9,10 TH 0,1,2,3
S-12 A 4,9,10 TS 0,1,2,3
S-13 A 4,5,6,7 LA/TH/TS -
S-14 A 0,1,2,3,4,5,6,7 LA/TH/TS -
S-15 A 0,1,4,7,9,10 LA/TH/TS -
S-16 A - LA 4,10,8,9
S-17 A - TH 0,1,2,3,4,5
S-18 A - TS 0,1,2,3,4,5
S-19 A 1,2,3,4,5,7,9,10 LA/TH/TS 0
S-20 A 8 LA 4,10,9
S-21 A 8 TH/TS 4,5
S-22 A 0 LA 1,4,7,10,9
S-23 A 0 TH/TS 1,2,3,4,5
S-24 B 6 LA 7
S-25 B 6 TH/TS 0,1
S-26 B 5 LA/TH/TS -
S-27 B 0,1,2,3,4,5 LA/TH/TS -
S-28 B - LA 10,9
S-29 B - TH/TS 0,1
S-30 B 9 LA 10
S-31 B 9 TH/TS 0,1
S-32 B 3 LA 4
S-33 C 9,10 LA 1,6,7,8
S-34 C 9,10 TH/TS 0,1,2,3
S-35 C - LA 1,6,10,7,8,9
S-36 C - TH/TS 0,1,2,3
S-37 C 0 LA 1,6
S-38 C 4,6 LA 1,10,9
S-39 C 4,6 TH/TS 0,1
S-40 C 7 LA 1,6,10,8,9
"""


def _cases() -> Iterable[object]:
    for line in VECTORS.split("\n"):
        if line:
            name, graph, leases, codes, created = line.split()
            for code in codes.split("/"):
                yield pytest.param(graph, _keys(leases), code, _keys(created), id=f"{name}-{code}")


def _keys(numbers: str) -> list[str]:
    return [] if numbers == "-" else [key(n) for n in numbers.split(",")]


def planned(plan: LeaseSyncPlan) -> list[str]:
    return [entry.lease.lease_key for entry in plan.entries]


def applied(leases: Collection[Lease], plan: LeaseSyncPlan) -> list[Lease]:
    ranges = {row.lease_key: row.hash_key_range for row in plan.ranges}
    completed = [replace(each, hash_key_range=ranges.get(each.lease_key, each.hash_key_range)) for each in leases]
    return completed + [entry.lease for entry in plan.entries]


def reopened(graph: str, number: int) -> list[Shard]:
    """The graph with one shard made open, as a listing in the middle of a reshard shows it."""
    return [replace(s, ending_sequence_number=None) if s.shard_id == key(number) else s for s in GRAPHS[graph]]


@pytest.mark.parametrize(("graph", "leases", "code", "created"), _cases())
def test_leases_are_created_as_kcl_creates_them(graph: str, leases: list[str], code: str, created: list[str]) -> None:
    plan = plan_leases(GRAPHS[graph], [lease(k) for k in leases], position(code))
    assert planned(plan) == created
    assert {entry.lease.checkpoint.sequence_number for entry in plan.entries} <= {position(code).position}


@pytest.mark.parametrize(
    ("code", "listed", "created"),
    [("LA", "4,8,9,10", "4,10,8,9"), ("TH", "0,1,2,3,4,5", "0,1,2,3,4,5"), ("TS", "4,5,6,7", "4,5,6,7")],
    ids=["S-41", "S-42", "S-44"],
)
def test_a_table_without_leases_gets_one_for_every_shard_of_the_filtered_listing(
    code: str, listed: str, created: str
) -> None:
    shards = [s for s in GRAPHS["A"] if s.shard_id in _keys(listed)]
    plan = plan_first_leases(shards, position(code))
    assert planned(plan) == _keys(created)
    assert {entry.lease.checkpoint.sequence_number for entry in plan.entries} == {position(code).position}


def test_new_rows_carry_parents_that_are_not_listed_and_the_range_of_hash_keys() -> None:
    plan = plan_leases([s for s in GRAPHS["A"] if s.shard_id != key(0)], [], position("LA"))
    eight = next(entry.lease for entry in plan.entries if entry.lease.lease_key == key(8))
    assert eight.parent_shard_ids == {key(6), key(7)}
    assert eight.hash_key_range == HashKeyRange(0, 399)
    assert (eight.lease_owner, eight.lease_counter, eight.owner_switches_since_checkpoint) == (None, 0, 0)


def test_a_filtered_listing_with_a_gap_or_an_overlap_is_a_problem_to_retry() -> None:
    """S-52, S-55."""
    left = replace(GRAPHS["B"][0], starting_hash_key=0, ending_hash_key=1, ending_sequence_number=None)
    for low in (1, 3):
        right = replace(GRAPHS["B"][1], starting_hash_key=low, ending_sequence_number=None)
        plan = plan_first_leases([left, right], position("LA"))
        assert plan.problem is not None
        assert plan.problem.retryable
        assert not plan
    assert plan_first_leases([], position("LA")).problem is not None


def test_no_shards_call_for_nothing() -> None:
    """S-46, S-56: the stream may be gone; its leases stay."""
    assert not plan_leases([], [lease(key(0))], position("LA"))


def test_children_of_an_open_shard_stop_the_plan_and_are_named() -> None:
    """S-47."""
    for planner in (plan_leases, plan_leases_ahead):
        plan = planner(reopened("A", 3), [], position("LA"))
        assert plan.entries == ()
        assert plan.problem is not None
        assert plan.problem.shards == (key(7),)
        assert plan.problem.retryable


def test_children_of_an_open_shard_can_be_ignored() -> None:
    """S-48."""
    plan = plan_leases(reopened("A", 5), [], position("LA"), ignore_unexpected_child_shards=True)
    assert planned(plan) == [key(4), key(5), key(8)]
    ahead = plan_leases_ahead(reopened("A", 5), [], position("LA"), ignore_unexpected_child_shards=True)
    assert planned(ahead) == [key(4), key(5), key(8)]


def test_a_closed_orphan_is_left_alone() -> None:
    """S-51."""
    shards = [
        replace(GRAPHS["C"][0], shard_id=key(n), starting_sequence_number=str(start), ending_sequence_number=end)
        for n, start, end in ((2, 202, "302"), (0, 303, "404"), (1, 405, None))
    ]
    assert planned(plan_leases(shards, [lease(key(2))], position("LA"))) == [key(1)]


def test_a_shard_whose_parents_are_not_listed_is_a_root() -> None:
    """S-59."""
    shards = [s for s in GRAPHS["A"] if s.shard_id in (key(8), key(4))]
    for code in ("LA", "TH", "TS"):
        assert planned(plan_leases(shards, [], position(code))) == [key(4), key(8)]


def test_contradictory_listings_are_a_problem_and_not_a_crash() -> None:
    shard = GRAPHS["A"][0]
    twice = [shard, shard]
    cycle = [replace(shard, parent_shard_id=key(1)), replace(shard, shard_id=key(1), parent_shard_id=key(0))]
    for shards in (twice, cycle, [replace(shard, parent_shard_id=key(0))], [replace(shard, ending_hash_key=-1)]):
        plan = plan_leases_ahead(shards, [], position("TH"))
        assert plan.problem is not None
        assert not plan


def test_children_of_a_closed_shard_are_leased_before_it_is_drained() -> None:
    plan = plan_leases_ahead(GRAPHS["A"], [lease(key(5), "123"), lease(key(4))], position("LA"))
    nine, ten = (e for e in plan.entries if e.lease.lease_key in (key(9), key(10)))
    for entry in (nine, ten):
        assert entry.lease.checkpoint == ExtendedSequenceNumber.TRIM_HORIZON
        assert entry.lease.parent_shard_ids == {key(5)}
        assert entry.follows == {key(5)}


def test_the_child_of_a_merge_waits_for_the_leases_of_both_parents() -> None:
    ahead = children_ahead(ShardGraph.of(GRAPHS["A"], stream="s"), {key(0)})
    assert [entry.lease.lease_key for entry in ahead] == []
    ahead = children_ahead(ShardGraph.of(GRAPHS["A"], stream="s"), {key(0), key(1)})
    assert [entry.lease.lease_key for entry in ahead] == [key(6)]


def test_the_child_of_a_leased_shard_that_has_expired_is_read_from_its_start() -> None:
    shards = [s for s in GRAPHS["A"] if s.shard_id != key(5)]
    leases = [lease(key(n), "55") for n in (4, 5, 8)]
    entries = {e.lease.lease_key: e.lease.checkpoint for e in plan_leases_ahead(shards, leases, position("LA")).entries}
    assert entries == {key(9): ExtendedSequenceNumber.TRIM_HORIZON, key(10): ExtendedSequenceNumber.TRIM_HORIZON}


def test_rows_without_a_range_of_hash_keys_get_the_one_of_their_shard() -> None:
    """H-25: rows of old versions. A finished row is left as it is."""
    leases = [lease(s.shard_id, hash_key_range=HashKeyRange(0, 9)) for s in GRAPHS["A"][2:]]
    plan = plan_leases(GRAPHS["A"], [lease(key(0)), lease(key(1), "SHARD_END"), *leases], position("TH"))
    assert [(row.lease_key, row.hash_key_range) for row in plan.ranges] == [(key(0), HashKeyRange(0, 99))]


def test_a_shard_of_a_single_hash_key_is_leased_without_a_range_that_java_could_not_read() -> None:
    shards = [replace(GRAPHS["C"][1], starting_hash_key=400, ending_hash_key=400)]
    plan = plan_leases(shards, [], position("LA"))
    assert plan.entries[0].lease.hash_key_range is None
    assert not plan_leases(shards, applied([], plan), position("LA"))


def leased_parts(shards: Collection[Shard], order: random.Random) -> list[Lease]:
    return [lease(s.shard_id, order.choice(["TRIM_HORIZON", "5", "SHARD_END"])) for s in shards if order.random() < 0.3]


@given(shards=histories(), start=POSITIONS, order=st.randoms(use_true_random=False))
def test_plans_of_any_history_are_safe_explained_deterministic_and_final(
    shards: tuple[Shard, ...], start: InitialPosition, order: random.Random
) -> None:
    leases = leased_parts(shards, order)
    graph = ShardGraph.of(shards, stream="s")
    for planner in (plan_leases, plan_leases_ahead):
        plan = planner(shards, leases, start)
        keys = planned(plan)
        existing = {each.lease_key for each in leases}
        assert len(set(keys)) == len(keys), "no lease is created twice"
        assert not existing & set(keys), "no existing lease is created"
        for n, shard_id in enumerate(keys):
            assert not set(graph.parents(graph.shards[shard_id])) & set(keys[n:]), "parents come first"
        assert all(entry.reason for entry in plan.entries)
        assert all(row.reason for row in plan.ranges)
        assert not planner(shards, applied(leases, plan), start), "a second run finds nothing to do"
        shuffled = planner(order.sample(shards, len(shards)), order.sample(leases, len(leases)), start)
        assert shuffled == plan, "the order of the input is irrelevant"


@given(shards=histories(), start=POSITIONS, order=st.randoms(use_true_random=False))
def test_leasing_ahead_only_adds_to_what_kcl_creates_and_leaves_no_shard_to_chance(
    shards: tuple[Shard, ...], start: InitialPosition, order: random.Random
) -> None:
    leases = leased_parts(shards, order)
    theirs = {e.lease.lease_key: e.lease for e in plan_leases(shards, leases, start).entries}
    ours = {e.lease.lease_key: e.lease for e in plan_leases_ahead(shards, leases, start).entries}
    assert theirs == {k: ours[k] for k in theirs}, "what KCL creates is created the same"
    for shard_id in ours.keys() - theirs.keys():
        assert ours[shard_id].checkpoint == ExtendedSequenceNumber.TRIM_HORIZON
    leased = {each.lease_key for each in leases} | ours.keys()
    graph = ShardGraph.of(shards, stream="s")
    for shard in graph.order:
        parents = graph.parents(shard)
        if parents and all(parent in leased for parent in parents):
            assert shard.shard_id in leased, "every child of leased shards is leased"
    assert all(shard.shard_id in leased for shard in graph.open), "every open shard is leased"
