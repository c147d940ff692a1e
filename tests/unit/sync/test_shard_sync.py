"""Shard sync and lease cleanup against a real stream and a real lease table."""

import pytest

from kcl_core.config import AwsConfig, InitialPosition
from kcl_core.coordinator.cleanup import CleanUpLeases
from kcl_core.errors import StreamGoneError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.sync.shard_sync import SyncShards
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws

TRIM_HORIZON = InitialPosition(position="TRIM_HORIZON")


@pytest.fixture
def aws(embedded_aws: EmbeddedAws) -> AwsConfig:
    return embedded_aws.config()


def sync(aws: AwsConfig, leases: LeaseTable, stream: KinesisStream, position: InitialPosition) -> SyncShards:
    return SyncShards(KinesisHttp(aws), leases, StreamAddress(stream.name), position)


def split(stream: KinesisStream, shard_id: str, at: int = 2**127) -> None:
    stream.client.split_shard(StreamName=stream.name, ShardToSplit=shard_id, NewStartingHashKey=str(at))
    stream.client.get_waiter("stream_exists").wait(StreamName=stream.name)


def checkpoint(leases: LeaseTable, lease_key: str, position: ExtendedSequenceNumber) -> None:
    lease = leases.get(lease_key)
    assert lease is not None
    owned = leases.assign(lease, "worker")
    assert not isinstance(owned, Refused)
    assert not isinstance(leases.checkpoint(owned, position), Refused)


def test_looking_writes_nothing(aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream) -> None:
    look = sync(aws, leases, kinesis_stream, TRIM_HORIZON).look()
    assert [entry.lease.lease_key for entry in look.entries] == ["shardId-000000000000"]
    assert leases.scan().leases == ()


def test_a_new_stream_gets_its_leases_once(aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream) -> None:
    duty = sync(aws, leases, kinesis_stream, TRIM_HORIZON)
    assert duty.run_once().created == ("shardId-000000000000",)
    assert duty.run_once().created == ()
    (lease,) = leases.scan().leases
    assert lease.checkpoint == ExtendedSequenceNumber.TRIM_HORIZON
    assert lease.hash_key_range is not None


def test_from_latest_only_open_shards_are_leased(
    aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream
) -> None:
    split(kinesis_stream, "shardId-000000000000")
    sync(aws, leases, kinesis_stream, InitialPosition(position="LATEST")).run_once()
    found = {lease.lease_key: lease.checkpoint for lease in leases.scan().leases}
    assert found == dict.fromkeys(["shardId-000000000001", "shardId-000000000002"], ExtendedSequenceNumber.LATEST)


def test_children_of_a_split_are_leased_while_the_parent_is_being_read(
    aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream
) -> None:
    duty = sync(aws, leases, kinesis_stream, TRIM_HORIZON)
    duty.run_once()
    split(kinesis_stream, "shardId-000000000000")
    report = duty.run_once()
    assert report.created == ("shardId-000000000001", "shardId-000000000002")
    child = leases.get("shardId-000000000001")
    assert child is not None
    assert child.parent_shard_ids == {"shardId-000000000000"}
    assert child.checkpoint == ExtendedSequenceNumber.TRIM_HORIZON


def test_a_stream_that_is_gone_is_an_error_and_nothing_is_written(aws: AwsConfig, leases: LeaseTable) -> None:
    with pytest.raises(StreamGoneError):
        SyncShards(KinesisHttp(aws), leases, StreamAddress("no-such-stream"), TRIM_HORIZON).run_once()
    assert leases.scan().leases == ()


def test_a_finished_lease_goes_once_its_children_are_being_read_and_is_never_created_again(
    aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream
) -> None:
    duty = sync(aws, leases, kinesis_stream, TRIM_HORIZON)
    duty.run_once()
    split(kinesis_stream, "shardId-000000000000")
    duty.run_once()
    cleanup = CleanUpLeases(KinesisHttp(aws), leases, StreamAddress(kinesis_stream.name))
    checkpoint(leases, "shardId-000000000000", ExtendedSequenceNumber.SHARD_END)
    assert cleanup.run_once().deleted == ()
    for child in ("shardId-000000000001", "shardId-000000000002"):
        checkpoint(leases, child, ExtendedSequenceNumber("5"))
    assert cleanup.run_once().deleted == ("shardId-000000000000",)
    assert duty.run_once().created == ()
    assert {lease.lease_key for lease in leases.scan().leases} == {"shardId-000000000001", "shardId-000000000002"}


def merge(stream: KinesisStream, first: str, second: str) -> None:
    stream.client.merge_shards(StreamName=stream.name, ShardToMerge=first, AdjacentShardToMerge=second)
    stream.client.get_waiter("stream_exists").wait(StreamName=stream.name)


def test_a_family_of_shards_is_leased_from_its_roots_down_and_each_shard_once(
    aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream
) -> None:
    """One shard split, its halves merged, the whole split again, read and cleaned up generation by generation."""
    numbers = {number: f"shardId-{number:012d}" for number in range(6)}
    split(kinesis_stream, numbers[0])
    merge(kinesis_stream, numbers[1], numbers[2])
    split(kinesis_stream, numbers[3])
    duty = sync(aws, leases, kinesis_stream, TRIM_HORIZON)
    cleanup = CleanUpLeases(KinesisHttp(aws), leases, StreamAddress(kinesis_stream.name))
    created = list(duty.run_once().created)
    for generation in ([0], [1, 2], [3]):
        for number in generation:
            checkpoint(leases, numbers[number], ExtendedSequenceNumber.SHARD_END)
        created += duty.run_once().created
        created += duty.run_once().created
        row = leases.get(numbers[max(generation) + 1])
        assert row is not None
        assert row.parent_shard_ids == {numbers[number] for number in generation}
        assert row.checkpoint == ExtendedSequenceNumber.TRIM_HORIZON
        cleanup.run_once()
    assert created == sorted(numbers.values())
    checkpoint(leases, numbers[4], ExtendedSequenceNumber("5"))
    checkpoint(leases, numbers[5], ExtendedSequenceNumber("5"))
    while cleanup.run_once().deleted:
        assert duty.run_once().created == ()
    assert {lease.lease_key for lease in leases.scan().leases} == {numbers[4], numbers[5]}


def test_from_latest_the_past_of_a_split_stream_is_never_leased(
    aws: AwsConfig, leases: LeaseTable, kinesis_stream: KinesisStream
) -> None:
    split(kinesis_stream, "shardId-000000000000")
    duty = sync(aws, leases, kinesis_stream, InitialPosition(position="LATEST"))
    duty.run_once()
    split(kinesis_stream, "shardId-000000000001", 2**126)
    report = duty.run_once()
    assert report.created == ("shardId-000000000003", "shardId-000000000004")
    assert {leases.get(key).checkpoint for key in report.created} == {ExtendedSequenceNumber.TRIM_HORIZON}  # type: ignore[union-attr]
    assert leases.get("shardId-000000000000") is None
