"""Limits that always hold, quotas per shard once they are on, and capacity modes."""

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from kcl_core.testing.control import KinesisControl
from kcl_core.testing.fixtures import KinesisStream

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

SHARD = "shardId-000000000000"
MIB = 1024 * 1024


def iterator(client: "KinesisClient", kind: Any = "TRIM_HORIZON") -> str:
    return client.get_shard_iterator(StreamName="stream", ShardId=SHARD, ShardIteratorType=kind)["ShardIterator"]


def put(client: "KinesisClient", count: int, size: int = 1) -> int:
    """Put in requests of up to 500 records; return how many failed."""
    failed = 0
    for first in range(0, count, 500):
        entries: list[Any] = [{"Data": b"x" * size, "PartitionKey": "k"}] * min(500, count - first)
        failed += client.put_records(StreamName="stream", Records=entries)["FailedRecordCount"]
    return failed


def test_an_answer_holds_at_most_10_000_records(stream: KinesisStream) -> None:
    assert put(stream.client, 10_500) == 0
    first = stream.client.get_records(ShardIterator=iterator(stream.client))
    assert len(first["Records"]) == 10_000
    assert len(stream.client.get_records(ShardIterator=first["NextShardIterator"])["Records"]) == 500


def test_an_answer_holds_at_most_10_mib(stream: KinesisStream) -> None:
    for _ in range(12):
        assert put(stream.client, 1, size=MIB - 1) == 0
    first = stream.client.get_records(ShardIterator=iterator(stream.client))
    assert len(first["Records"]) == 10
    assert len(stream.client.get_records(ShardIterator=first["NextShardIterator"])["Records"]) == 2


def test_a_record_is_as_large_as_its_stream_takes(stream: KinesisStream) -> None:
    """Data and partition key count together."""
    with pytest.raises(ClientError, match="ValidationException"):
        put(stream.client, 1, size=MIB)
    stream.client.update_max_record_size(StreamARN=stream.arn, MaxRecordSizeInKiB=2048)
    assert put(stream.client, 1, size=MIB) == 0


def test_five_reads_a_second_are_given_once_quotas_are_on(stream: KinesisStream, control: KinesisControl) -> None:
    given = iterator(stream.client)
    for _ in range(10):
        stream.client.get_records(ShardIterator=given)
    control.quotas(on=True)
    for _ in range(5):
        stream.client.get_records(ShardIterator=given)

    def read_on() -> None:
        # A slow machine may earn a read or two while it asks.
        for _ in range(20):
            stream.client.get_records(ShardIterator=given)

    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException):
        read_on()
    control.advance(1)
    stream.client.get_records(ShardIterator=given)


def test_a_large_answer_uses_up_the_reads_of_the_next_seconds(stream: KinesisStream, control: KinesisControl) -> None:
    """2 MiB a second and shard: 10 MiB at once cost five seconds."""
    for _ in range(11):
        assert put(stream.client, 1, size=MIB - 1) == 0
    control.quotas(on=True)
    first = stream.client.get_records(ShardIterator=iterator(stream.client))
    assert len(first["Records"]) == 10
    control.advance(3)
    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException):
        stream.client.get_records(ShardIterator=first["NextShardIterator"])
    control.advance(2)
    assert len(stream.client.get_records(ShardIterator=first["NextShardIterator"])["Records"]) == 1


def test_writes_beyond_1000_records_or_1_mib_a_second_fail_singly(
    stream: KinesisStream, control: KinesisControl
) -> None:
    control.quotas(on=True)
    assert 0 < put(stream.client, 4000) <= 3000
    control.advance(2)
    assert 0 < put(stream.client, 40, size=50_000) <= 20
    control.advance(2)

    def write_on() -> None:
        for _ in range(5):
            stream.client.put_record(StreamName="stream", PartitionKey="k", Data=b"x" * (MIB - 1))

    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException):
        write_on()


def test_on_demand_streams_start_with_four_shards_and_modes_change(client: "KinesisClient") -> None:
    client.create_stream(StreamName="on-demand", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    summary = client.describe_stream_summary(StreamName="on-demand")["StreamDescriptionSummary"]
    assert (summary["OpenShardCount"], summary["StreamModeDetails"]["StreamMode"]) == (4, "ON_DEMAND")
    with pytest.raises(client.exceptions.InvalidArgumentException):
        client.update_shard_count(StreamName="on-demand", TargetShardCount=8, ScalingType="UNIFORM_SCALING")
    client.update_stream_mode(StreamARN=summary["StreamARN"], StreamModeDetails={"StreamMode": "PROVISIONED"})
    changed = client.describe_stream_summary(StreamName="on-demand")["StreamDescriptionSummary"]
    assert changed["StreamModeDetails"]["StreamMode"] == "PROVISIONED"
    client.update_shard_count(StreamName="on-demand", TargetShardCount=8, ScalingType="UNIFORM_SCALING")


@pytest.mark.parametrize(("shards", "target"), [(4, 9), (4, 1)])
def test_a_shard_count_at_most_doubles_or_halves(client: "KinesisClient", shards: int, target: int) -> None:
    client.create_stream(StreamName="stream", ShardCount=shards)
    with pytest.raises(client.exceptions.InvalidArgumentException):
        client.update_shard_count(StreamName="stream", TargetShardCount=target, ScalingType="UNIFORM_SCALING")


@pytest.mark.parametrize(("shards", "target"), [(1, 2), (2, 3), (3, 4), (4, 3), (5, 3), (6, 10), (4, 4)])
def test_a_shard_count_is_reached_with_ranges_of_equal_width(client: "KinesisClient", shards: int, target: int) -> None:
    client.create_stream(StreamName="stream", ShardCount=shards)
    client.update_shard_count(StreamName="stream", TargetShardCount=target, ScalingType="UNIFORM_SCALING")
    opened = client.list_shards(StreamName="stream", ShardFilter={"Type": "AT_LATEST"})["Shards"]
    ranges = sorted(
        (int(s["HashKeyRange"]["StartingHashKey"]), int(s["HashKeyRange"]["EndingHashKey"])) for s in opened
    )
    assert len(ranges) == target
    assert [low for low, _ in ranges] == [0, *(high + 1 for _, high in ranges[:-1])]
    assert ranges[-1][1] == 2**128 - 1
    widths = {high - low for low, high in ranges}
    assert max(widths) - min(widths) <= 1


def test_a_name_and_an_arn_that_contradict_each_other_are_refused(stream: KinesisStream) -> None:
    with pytest.raises(stream.client.exceptions.InvalidArgumentException):
        stream.client.describe_stream_summary(StreamName="other", StreamARN=stream.arn)
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException):
        stream.client.describe_stream_summary(StreamARN=f"{stream.arn}-not")


def test_a_sequence_number_of_another_shard_is_refused(client: "KinesisClient") -> None:
    client.create_stream(StreamName="stream", ShardCount=2)
    put_to = client.put_record(StreamName="stream", PartitionKey="k", ExplicitHashKey=str(2**128 - 1), Data=b"x")
    assert put_to["ShardId"] == "shardId-000000000001"
    with pytest.raises(client.exceptions.InvalidArgumentException):
        client.get_shard_iterator(
            StreamName="stream",
            ShardId=SHARD,
            ShardIteratorType="AFTER_SEQUENCE_NUMBER",
            StartingSequenceNumber=put_to["SequenceNumber"],
        )
