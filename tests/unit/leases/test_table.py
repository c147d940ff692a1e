"""Each write of the lease table against a server: KCL's conditions, KCL's changes, KCL's vectors."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kcl_core.clock import SystemClock
from kcl_core.dynamodb.location import LEASE, TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.dynamodb.writes import get_item, put_item
from kcl_core.errors import InvariantViolatedError, TableMissingError
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.runtime import StopSignal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def at(number: int | str, sub: int = 0) -> ExtendedSequenceNumber:
    return ExtendedSequenceNumber(str(number), sub)


def written(leases: LeaseTable, owner: str | None = "A", **more: Any) -> Lease:
    lease = Lease(lease_key="s", lease_owner=owner, **{"checkpoint": at("TRIM_HORIZON"), **more})
    assert leases.create(lease)
    return lease


def done(outcome: Lease | Refused) -> Lease:
    assert isinstance(outcome, Lease)
    return outcome


def current(leases: LeaseTable) -> Lease:
    lease = leases.get("s")
    assert lease is not None
    return lease


def test_a_lease_is_created_once(leases: LeaseTable) -> None:
    lease = written(leases, "A", parent_shard_ids=frozenset({"p"}), hash_key_range=HashKeyRange(0, 9))
    assert not leases.create(replace(lease, lease_owner="B"))
    assert leases.get("s") == lease
    assert leases.get("other") is None


def test_renewal_moves_the_counter_and_writes_the_throughput(leases: LeaseTable) -> None:
    lease = written(leases)
    renewed = done(leases.renew(lease, throughput_kbps=1024.102412324))
    assert renewed == replace(lease, lease_counter=1, throughput_kbps=1024.102412)
    assert done(leases.renew(renewed)) == replace(renewed, lease_counter=2) == current(leases)


def test_e08_a_row_that_is_gone_is_not_renewed(leases: LeaseTable) -> None:
    lease = Lease(lease_key="s", checkpoint=at(1))
    assert leases.renew(lease) == Refused(None)
    assert leases.get("s") is None


def test_an_owner_learns_of_a_handoff_by_being_refused(leases: LeaseTable) -> None:
    lease = written(leases)
    handed = done(leases.initiate_graceful_handoff(lease, "B"))
    assert leases.renew(lease) == Refused(handed)
    assert done(leases.renew(handed)) == replace(handed, lease_counter=1)


def test_e01_e02_assign(leases: LeaseTable) -> None:
    written(leases, "o1")
    assert done(leases.assign(current(leases), "o2")).lease_owner == "o2"


def test_e02_e20_assigning_an_unowned_lease_is_no_switch(leases: LeaseTable) -> None:
    lease = written(leases, None)
    assert done(leases.assign(lease, "A")) == replace(lease, lease_owner="A", lease_counter=1)


@pytest.mark.parametrize("owner", ["A", None])
def test_e03_e16_a_deleted_row_is_not_created_anew(leases: LeaseTable, owner: str | None) -> None:
    lease = written(leases, owner)
    assert leases.delete(lease)
    assert leases.assign(lease, "B") == Refused(None)
    assert leases.evict(lease) == Refused(None)
    assert leases.take(lease, "B") == Refused(None)
    assert leases.checkpoint(lease, at(5)) == Refused(None)
    assert leases.get("s") is None


def test_e04_assign_ignores_the_counter_and_ends_the_holders_writes(leases: LeaseTable) -> None:
    lease = written(leases, "o1")
    lease = done(leases.renew(done(leases.renew(lease))))
    held = done(leases.checkpoint(lease, at(3)))
    read = current(leases)
    assert read.lease_counter == 3
    held = done(leases.checkpoint(done(leases.renew(held)), at(4)))
    assigned = done(leases.assign(read, "o2"))
    assert assigned.lease_counter == 6
    assert leases.checkpoint(held, at(9)) == Refused(assigned)
    assert leases.renew(held) == Refused(assigned)
    assert current(leases) == assigned


def test_e05_a_handoff_leaves_the_counter(leases: LeaseTable) -> None:
    lease = written(leases, "current", lease_counter=7)
    handed = done(leases.initiate_graceful_handoff(lease, "next"))
    assert handed == replace(lease, lease_owner="next", checkpoint_owner="current")


def test_e06_a_second_handoff_is_refused(leases: LeaseTable) -> None:
    lease = written(leases)
    handed = done(leases.initiate_graceful_handoff(lease, "B"))
    assert leases.initiate_graceful_handoff(lease, "C") == Refused(handed)
    assert leases.initiate_graceful_handoff(handed, "C") == Refused(handed)


@pytest.mark.parametrize(("owner", "to"), [(None, "B"), ("A", "A")])
def test_a_handoff_needs_two_workers(leases: LeaseTable, owner: str | None, to: str) -> None:
    lease = written(leases, owner)
    with pytest.raises(InvariantViolatedError):
        leases.initiate_graceful_handoff(lease, to)
    assert current(leases) == lease


def test_e10_the_old_owner_renews_until_it_hands_over(leases: LeaseTable) -> None:
    handed = done(leases.initiate_graceful_handoff(written(leases), "B"))
    held = done(leases.renew(done(leases.renew(handed))))
    given = done(leases.assign(held, "B"))
    assert given.lease_counter == 3
    assert leases.renew(held) == Refused(given)


def test_e11_e17_a_completed_handoff_is_no_switch(leases: LeaseTable) -> None:
    lease = written(leases)
    handed = done(leases.initiate_graceful_handoff(lease, "B"))
    assert done(leases.assign(handed, "B")) == replace(lease, lease_owner="B", lease_counter=1)


def test_e12_assign_checks_the_checkpoint_owner(leases: LeaseTable) -> None:
    handed = done(leases.initiate_graceful_handoff(written(leases), "B"))
    assert leases.assign(replace(handed, checkpoint_owner="other"), "C") == Refused(handed)
    assert leases.assign(replace(handed, checkpoint_owner=None), "C") == Refused(handed)


def test_e13_taking_ends_a_handoff(leases: LeaseTable) -> None:
    handed = done(leases.initiate_graceful_handoff(written(leases), "B"))
    taken = done(leases.take(handed, "C"))
    assert (taken.lease_owner, taken.checkpoint_owner, taken.lease_counter) == ("C", None, 1)
    assert taken.owner_switches_since_checkpoint == 1
    assert leases.take(handed, "D") == Refused(taken)


def test_e14_eviction_during_a_handoff_leaves_it_to_the_next_owner(leases: LeaseTable) -> None:
    lease = written(leases)
    handed = done(leases.initiate_graceful_handoff(lease, "B"))
    assert done(leases.evict(handed)) == replace(lease, lease_owner="B", lease_counter=1)


def test_e15_eviction_leaves_no_owner(leases: LeaseTable) -> None:
    lease = written(leases)
    assert done(leases.evict(lease)) == replace(lease, lease_owner=None, lease_counter=1)


@pytest.mark.parametrize("to", [pytest.param("A", id="E18"), pytest.param("C", id="E19")])
def test_a_handoff_that_ends_elsewhere_is_a_switch(leases: LeaseTable, to: str) -> None:
    handed = done(leases.initiate_graceful_handoff(written(leases), "B"))
    assigned = done(leases.assign(handed, to))
    assert (assigned.actual_owner, assigned.owner_switches_since_checkpoint) == (to, 1)


def test_an_unowned_lease_that_goes_back_to_who_drained_it_is_a_switch(leases: LeaseTable) -> None:
    """The second half of KCL's rule; such a row takes two writers that do not know each other."""
    assigned = done(leases.assign(written(leases, None, checkpoint_owner="A"), "A"))
    assert (assigned.lease_owner, assigned.owner_switches_since_checkpoint) == ("A", 1)


def test_a_final_checkpoint_clears_what_was_prepared(leases: LeaseTable) -> None:
    lease = written(
        leases,
        lease_counter=7,
        checkpoint=at(10),
        owner_switches_since_checkpoint=2,
        pending_checkpoint=at(12),
        pending_checkpoint_state=b"12",
    )
    after = done(leases.checkpoint(lease, at(15, 3)))
    assert after == current(leases)
    assert after == Lease(lease_key="s", lease_owner="A", lease_counter=8, checkpoint=at(15, 3))


def test_preparing_leaves_the_checkpoint_and_the_switches(
    leases: LeaseTable, dynamodb: "DynamoDBClient", lease_location: TableLocation
) -> None:
    lease = written(leases, checkpoint=at(10, 1), owner_switches_since_checkpoint=2)
    prepared = done(leases.prepare_checkpoint(lease, at(12, 4), b"\x00state"))
    assert prepared == current(leases)
    assert prepared == replace(
        lease, lease_counter=1, pending_checkpoint=at(12, 4), pending_checkpoint_state=b"\x00state"
    )
    item = get_item(dynamodb, lease_location, "s")
    assert item is not None
    assert item["pendingCheckpoint"] == {"S": "12"}
    assert item["pendingCheckpointSubSequenceNumber"] == {"N": "4"}
    assert item["pendingCheckpointState"] == {"B": b"\x00state"}
    assert done(leases.prepare_checkpoint(prepared, at(13), None)).pending_checkpoint_state is None


def test_a_checkpoint_whose_answer_was_lost_may_be_repeated(leases: LeaseTable) -> None:
    lease = written(leases)
    prepared = done(leases.prepare_checkpoint(lease, at(12), b"1"))
    assert leases.prepare_checkpoint(lease, at(12), b"1") == prepared
    assert leases.prepare_checkpoint(lease, at(12), b"2") == Refused(prepared)
    done_ = done(leases.checkpoint(prepared, at(12)))
    assert leases.checkpoint(prepared, at(12)) == done_ == current(leases)
    assert leases.checkpoint(prepared, at(13)) == Refused(done_)


def test_a_checkpoint_is_not_taken_for_that_of_another_owner(leases: LeaseTable) -> None:
    lease = written(leases)
    taken = done(leases.assign(lease, "B"))
    assert leases.checkpoint(lease, lease.checkpoint) == Refused(taken)


def test_checkpoints_during_a_handoff_are_allowed(leases: LeaseTable) -> None:
    lease = written(leases)
    leases.initiate_graceful_handoff(lease, "B")
    assert done(leases.checkpoint(lease, at(5))).checkpoint_owner == "A"


def test_children_and_ranges_leave_the_counter_and_create_nothing(leases: LeaseTable) -> None:
    assert not leases.update_children("s", ["c"])
    assert not leases.update_hash_range("s", HashKeyRange(0, 9))
    assert leases.get("s") is None
    lease = written(leases)
    assert leases.update_children("s", ["c", "d"])
    assert leases.update_hash_range("s", HashKeyRange(0, 9))
    assert current(leases) == replace(lease, child_shard_ids=frozenset({"c", "d"}), hash_key_range=HashKeyRange(0, 9))
    with pytest.raises(InvariantViolatedError):
        leases.update_children("s", [])


def test_a_lease_is_deleted_only_at_the_checkpoint_decided_on(leases: LeaseTable) -> None:
    lease = written(leases)
    moved = done(leases.checkpoint(lease, at("SHARD_END")))
    assert not leases.delete(lease)
    prepared = done(leases.prepare_checkpoint(moved, at("SHARD_END"), b""))
    assert not leases.delete(moved)
    assert leases.delete(prepared)
    assert leases.delete(prepared), "gone is gone"
    assert leases.get("s") is None


def test_unknown_attributes_survive_every_write(
    leases: LeaseTable, dynamodb: "DynamoDBClient", lease_location: TableLocation
) -> None:
    lease = written(leases)
    item = get_item(dynamodb, lease_location, "s")
    assert item is not None
    put_item(dynamodb, lease_location, {**item, "future": {"M": {"x": {"N": "1"}}}}, {})
    writes: list[Callable[[Lease], Lease | Refused]] = [
        lambda lease: leases.renew(lease, throughput_kbps=1.0),
        lambda lease: leases.prepare_checkpoint(lease, at(5), b"x"),
        lambda lease: leases.checkpoint(lease, at(6)),
        lambda lease: leases.initiate_graceful_handoff(lease, "B"),
        lambda lease: leases.assign(lease, "B"),
        lambda lease: leases.take(lease, "C"),
        leases.evict,
    ]
    for write in writes:
        lease = done(write(lease))
        after = get_item(dynamodb, lease_location, "s")
        assert after is not None
        assert after["future"] == {"M": {"x": {"N": "1"}}}
        assert after["entityType"] == {"S": "LEASE"}
    leases.update_children("s", ["c"])
    assert "future" in (get_item(dynamodb, lease_location, "s") or {})


def test_several_streams_rows_repeat_their_stream(leases: LeaseTable) -> None:
    lease = Lease(
        lease_key="123456789012:stream:1:shardId-0",
        checkpoint=at("LATEST"),
        stream_name="123456789012:stream:1",
        multi_stream_shard_id="shardId-0",
    )
    assert leases.create(lease)
    assert done(leases.checkpoint(lease, at(5))) == replace(lease, checkpoint=at(5), lease_counter=1)


def test_d17_a_scan_tells_leases_broken_and_foreign_rows_apart(
    leases: LeaseTable, dynamodb: "DynamoDBClient", lease_location: TableLocation
) -> None:
    lease = written(leases)
    put_item(dynamodb, lease_location, {"leaseKey": {"S": "badLeaseKey"}}, {})
    put_item(dynamodb, lease_location, {"leaseKey": {"S": "Leader"}, "entityType": {"S": "LEADER"}}, {})
    found = leases.scan()
    assert found.leases == (lease,)
    assert [row.key for row in found.broken] == ["badLeaseKey"]
    assert found.foreign == 1
    assert leases.get("badLeaseKey") is None
    assert leases.get("Leader") is None


def test_keys_are_found_by_owner_with_the_index_and_without(
    leases: LeaseTable, dynamodb: "DynamoDBClient", application_name: str
) -> None:
    bare = TableLocation(f"{application_name}-bare", "leaseKey", LEASE)
    create_table(dynamodb, bare, SystemClock(), StopSignal().wait)
    for table in (leases, LeaseTable(dynamodb, bare)):
        for key, owner in (("a", "A"), ("b", "B"), ("c", "A"), ("d", None)):
            table.create(Lease(lease_key=key, lease_owner=owner, checkpoint=at(1)))
        assert sorted(table.keys_owned_by("A")) == ["a", "c"]
        assert table.keys_owned_by("Z") == ()
    dynamodb.delete_table(TableName=bare.table_name)


def test_a_missing_table_is_said_so(dynamodb: "DynamoDBClient", application_name: str) -> None:
    leases = LeaseTable(dynamodb, TableLocation(application_name, "leaseKey", LEASE))
    with pytest.raises(TableMissingError):
        leases.scan()
    with pytest.raises(TableMissingError):
        leases.keys_owned_by("A")


@pytest.mark.parametrize("unit", ["renew", "take", "assign", "create"])
def test_of_many_writers_at_once_one_wins(leases: LeaseTable, unit: str) -> None:
    lease = Lease(lease_key="s", checkpoint=at(1))
    if unit != "create":
        leases.create(lease)
    writes: dict[str, Callable[[str], object]] = {
        "renew": lambda _: isinstance(leases.renew(lease), Lease),
        "take": lambda worker: isinstance(leases.take(lease, worker), Lease),
        "assign": lambda worker: isinstance(leases.assign(lease, worker), Lease),
        "create": lambda _: leases.create(lease),
    }
    with ThreadPoolExecutor(8) as pool:
        assert sum(map(bool, pool.map(writes[unit], "ABCDEFGH"))) == 1
