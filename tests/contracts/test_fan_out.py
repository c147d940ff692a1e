"""SubscribeToShard as plain boto3 reads it. Ours only: kinesis-mock sends no initial response, and boto3 gives up."""

from typing import Any

import pytest

from kcl_core.testing.fixtures import KinesisStream

pytestmark = pytest.mark.contract


def subscribe(stream: KinesisStream, consumer_arn: str, shard_id: str) -> Any:
    return stream.client.subscribe_to_shard(
        ConsumerARN=consumer_arn, ShardId=shard_id, StartingPosition={"Type": "TRIM_HORIZON"}
    )["EventStream"]


@pytest.fixture
def consumer_arn(kinesis_stream: KinesisStream) -> str:
    made = kinesis_stream.client.register_stream_consumer(StreamARN=kinesis_stream.arn, ConsumerName="reader")
    return made["Consumer"]["ConsumerARN"]


def test_records_are_pushed_as_they_come(kinesis_stream: KinesisStream, consumer_arn: str) -> None:
    kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="k", Data=b"before")
    seen: list[bytes] = []
    for event in subscribe(kinesis_stream, consumer_arn, "shardId-000000000000"):
        pushed = event["SubscribeToShardEvent"]
        seen += [record["Data"] for record in pushed["Records"]]
        assert pushed["ContinuationSequenceNumber"]
        assert pushed["MillisBehindLatest"] == 0
        if seen == [b"before"]:
            kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="k", Data=b"after")
        if seen == [b"before", b"after"]:
            break
    assert seen == [b"before", b"after"]


def test_a_subscription_ends_with_the_shard_and_names_its_children(
    kinesis_stream: KinesisStream, consumer_arn: str
) -> None:
    kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="k", Data=b"last")
    kinesis_stream.client.split_shard(
        StreamName=kinesis_stream.name, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
    )
    kinesis_stream.client.get_waiter("stream_exists").wait(StreamName=kinesis_stream.name)
    pushed = [
        event["SubscribeToShardEvent"] for event in subscribe(kinesis_stream, consumer_arn, "shardId-000000000000")
    ]
    assert [record["Data"] for event in pushed for record in event["Records"]] == [b"last"]
    children = {child["ShardId"] for child in pushed[-1]["ChildShards"]}
    assert children == {"shardId-000000000001", "shardId-000000000002"}
    assert "ContinuationSequenceNumber" not in pushed[-1]
