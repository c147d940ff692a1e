"""What a micro-batch reads, and how it is spread over Spark's tasks."""

from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.spark.ranges import parent_keys, plan_batch

POSITIONS = [ExtendedSequenceNumber.TRIM_HORIZON, ExtendedSequenceNumber("7"), ExtendedSequenceNumber.SHARD_END]


@st.composite
def leases(draw: st.DrawFn) -> list[Lease]:
    return [
        Lease(
            lease_key=f"s{number:02}",
            checkpoint=draw(st.sampled_from(POSITIONS)),
            pending_checkpoint=draw(st.none() | st.just(ExtendedSequenceNumber("9"))),
            parent_shard_ids=frozenset(draw(st.lists(st.sampled_from(["p0", "p1"]), max_size=2))),
            throughput_kbps=draw(st.none() | st.floats(0, 5000)),
            hash_key_range=HashKeyRange(0, 10),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


def parent(name: str, *, finished: bool) -> Lease:
    return Lease(lease_key=name, checkpoint=POSITIONS[2] if finished else POSITIONS[1])


@given(leases(), st.booleans(), st.integers(1, 8), st.sets(st.sampled_from(["s00", "s01", "s02"])))
def test_every_lease_is_read_by_one_task_or_skipped_with_a_reason(
    held: list[Lease], finished: bool, cores: int, leaving: set[str]
) -> None:
    parents = {"p0": parent("p0", finished=finished)}
    plan = plan_batch(held, parents, leaving=leaving, cores=cores)
    planned = [each.lease_key for each in plan.ranges]
    skipped = [each.lease_key for each in plan.skipped]
    assert sorted(planned + skipped) == [lease.lease_key for lease in held]
    assert len(plan.tasks) <= cores
    assert all(plan.tasks)
    assert all(each.reason for each in plan.skipped)
    for lease in held:
        blocked = "p0" in lease.parent_shard_ids and not finished
        undecided = lease.pending_checkpoint is not None
        may_read = not (lease.is_finished or blocked or undecided or lease.lease_key in leaving)
        assert (lease.lease_key in planned) == may_read


@given(leases(), st.integers(1, 8))
def test_the_plan_is_the_same_for_the_same_leases(held: list[Lease], cores: int) -> None:
    assert plan_batch(held, {}, leaving=(), cores=cores) == plan_batch(reversed(held), {}, leaving=(), cores=cores)


def test_heavy_leases_do_not_share_a_task_while_light_ones_wait() -> None:
    held = [
        Lease(lease_key=key, checkpoint=POSITIONS[1], throughput_kbps=kbps)
        for key, kbps in (("a", 1000.0), ("b", 1000.0), ("c", 1.0), ("d", 1.0))
    ]
    plan = plan_batch(held, {}, leaving=(), cores=2)
    assert sorted(sorted(each.lease_key for each in task) for task in plan.tasks) == [["a", "c"], ["b", "d"]]


def test_an_iterator_is_used_only_where_it_continues_the_checkpoint() -> None:
    held = [Lease(lease_key="a", checkpoint=POSITIONS[1])]
    (fits,) = plan_batch(held, {}, leaving=(), cores=1, iterators={"a": (POSITIONS[1], "x")}).ranges
    assert fits.shard_iterator == "x"
    (stale,) = plan_batch(held, {}, leaving=(), cores=1, iterators={"a": (POSITIONS[0], "x")}).ranges
    assert stale.shard_iterator is None


def test_parents_of_several_streams_are_looked_for_in_their_own_stream() -> None:
    lease = Lease(
        lease_key="111:orders:5:shard-2",
        checkpoint=POSITIONS[0],
        parent_shard_ids=frozenset({"shard-1", "shard-0"}),
        multi_stream_shard_id="shard-2",
    )
    assert parent_keys(lease) == ("111:orders:5:shard-0", "111:orders:5:shard-1")
