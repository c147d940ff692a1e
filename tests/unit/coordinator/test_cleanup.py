"""Lease cleanup on a real stream and a real table: what is planned, and what becomes of it when rows change."""

import pytest

from kcl_core.config import InitialPosition
from kcl_core.coordinator.cleanup import CleanUpLeases
from kcl_core.errors import StreamGoneError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.sync.shard_sync import SyncShards
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws

PARENT, LEFT, RIGHT = "shardId-000000000000", "shardId-000000000001", "shardId-000000000002"
BEGUN = ExtendedSequenceNumber("5")


@pytest.fixture
def kinesis(embedded_aws: EmbeddedAws) -> KinesisHttp:
    return KinesisHttp(embedded_aws.config())


@pytest.fixture
def stream(kinesis_stream: KinesisStream, kinesis: KinesisHttp, leases: LeaseTable) -> StreamAddress:
    """A stream whose only shard was split, with a lease for each of the three."""
    kinesis_stream.client.split_shard(
        StreamName=kinesis_stream.name, ShardToSplit=PARENT, NewStartingHashKey=str(2**127)
    )
    kinesis_stream.client.get_waiter("stream_exists").wait(StreamName=kinesis_stream.name)
    made = StreamAddress(kinesis_stream.name)
    SyncShards(kinesis, leases, made, InitialPosition(position="TRIM_HORIZON")).run_once()
    assert keys(leases) == {PARENT, LEFT, RIGHT}
    return made


def keys(leases: LeaseTable) -> set[str]:
    return {lease.lease_key for lease in leases.scan().leases}


def checkpoint(leases: LeaseTable, lease_key: str, position: ExtendedSequenceNumber) -> None:
    lease = leases.get(lease_key)
    assert lease is not None
    owned = leases.assign(lease, "worker")
    assert not isinstance(owned, Refused)
    assert not isinstance(leases.checkpoint(owned, position), Refused)


def finish_parent(leases: LeaseTable) -> None:
    checkpoint(leases, PARENT, ExtendedSequenceNumber.SHARD_END)
    checkpoint(leases, LEFT, BEGUN)
    checkpoint(leases, RIGHT, BEGUN)


def test_while_every_lease_is_needed_nothing_is_planned(
    kinesis: KinesisHttp, leases: LeaseTable, stream: StreamAddress
) -> None:
    assert not CleanUpLeases(kinesis, leases, stream).look()


def test_looking_writes_nothing(kinesis: KinesisHttp, leases: LeaseTable, stream: StreamAddress) -> None:
    finish_parent(leases)
    before = leases.scan()
    plan = CleanUpLeases(kinesis, leases, stream).look()
    assert [deletion.lease.lease_key for deletion in plan.deletions] == [PARENT]
    assert leases.scan() == before


def test_children_that_the_row_does_not_name_are_written_into_it(
    kinesis: KinesisHttp, leases: LeaseTable, stream: StreamAddress
) -> None:
    """Its reader died between the end of the shard and the names of its children."""
    checkpoint(leases, PARENT, ExtendedSequenceNumber.SHARD_END)
    report = CleanUpLeases(kinesis, leases, stream).run_once()
    assert (report.completed, report.deleted) == ((PARENT,), ())
    row = leases.get(PARENT)
    assert row is not None
    assert row.child_shard_ids == {LEFT, RIGHT}
    assert "has not begun" in report.plan.waiting[0].reason
    assert not CleanUpLeases(kinesis, leases, stream).look()


def test_a_lease_that_was_read_again_since_the_look_stays(
    kinesis: KinesisHttp, leases: LeaseTable, stream: StreamAddress
) -> None:
    """Somebody set it back to its start: its records are wanted once more."""
    finish_parent(leases)
    cleanup = CleanUpLeases(kinesis, leases, stream)
    plan = cleanup.look()
    checkpoint(leases, PARENT, ExtendedSequenceNumber.TRIM_HORIZON)
    report = cleanup.apply(plan)
    assert (report.deleted, report.refused) == ((), (PARENT,))
    assert keys(leases) == {PARENT, LEFT, RIGHT}


def test_a_plan_that_another_leader_has_carried_out_harms_nobody(
    kinesis: KinesisHttp, leases: LeaseTable, stream: StreamAddress
) -> None:
    finish_parent(leases)
    cleanup = CleanUpLeases(kinesis, leases, stream)
    plan = cleanup.look()
    assert CleanUpLeases(kinesis, leases, stream).run_once().deleted == (PARENT,)
    assert cleanup.apply(plan).refused == ()
    assert keys(leases) == {LEFT, RIGHT}


def test_finished_leases_stay_if_they_are_to_be_kept(
    kinesis: KinesisHttp, leases: LeaseTable, stream: StreamAddress
) -> None:
    finish_parent(leases)
    assert CleanUpLeases(kinesis, leases, stream, cleanup_completed=False).run_once().deleted == ()


def test_the_leases_of_a_stream_that_is_gone_stay(kinesis: KinesisHttp, leases: LeaseTable) -> None:
    """Whether the stream was deleted for good is not for a duty to say."""
    with pytest.raises(StreamGoneError):
        CleanUpLeases(kinesis, leases, StreamAddress("no-such-stream")).run_once()
