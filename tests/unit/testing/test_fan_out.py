"""How a subscription ends, and who may have one."""

from contextlib import closing
from typing import Any

import pytest
import urllib3
from botocore.exceptions import EventStreamError

from kcl_core.testing.control import KinesisControl
from kcl_core.testing.fixtures import KinesisStream

SHARD = "shardId-000000000000"


@pytest.fixture
def consumer_arn(stream: KinesisStream) -> str:
    made = stream.client.register_stream_consumer(StreamARN=stream.arn, ConsumerName="reader")
    return made["Consumer"]["ConsumerARN"]


def subscribe(stream: KinesisStream, consumer_arn: str, kind: str = "TRIM_HORIZON", **where: Any) -> Any:
    start: Any = {"Type": kind, **where}
    return closing(
        stream.client.subscribe_to_shard(ConsumerARN=consumer_arn, ShardId=SHARD, StartingPosition=start)["EventStream"]
    )


def put(stream: KinesisStream, data: bytes) -> None:
    stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=data)


def test_a_subscription_ends_after_five_minutes_and_is_continued(
    stream: KinesisStream, consumer_arn: str, control: KinesisControl
) -> None:
    put(stream, b"1")
    with subscribe(stream, consumer_arn) as events:
        pushed = iter(events)
        first = next(pushed)["SubscribeToShardEvent"]
        assert [record["Data"] for record in first["Records"]] == [b"1"]
        control.advance(301)
        rest = [event["SubscribeToShardEvent"] for event in pushed]
    assert all(not event["Records"] for event in rest)
    put(stream, b"2")
    continued = first["ContinuationSequenceNumber"]
    with subscribe(stream, consumer_arn, "AFTER_SEQUENCE_NUMBER", SequenceNumber=continued) as events:
        again = next(iter(events))["SubscribeToShardEvent"]
    assert [record["Data"] for record in again["Records"]] == [b"2"]


def test_a_second_subscription_is_refused_for_five_seconds_and_then_takes_over(
    stream: KinesisStream, consumer_arn: str, control: KinesisControl
) -> None:
    with subscribe(stream, consumer_arn) as events:
        first = iter(events)
        next(first)
        with pytest.raises(stream.client.exceptions.ResourceInUseException):
            subscribe(stream, consumer_arn)
        control.advance(6)
        with subscribe(stream, consumer_arn) as later:
            assert "SubscribeToShardEvent" in next(iter(later))
            with pytest.raises(EventStreamError, match="ResourceInUseException"):
                list(first)


def test_an_empty_shard_is_continued_from_where_it_began(
    stream: KinesisStream, consumer_arn: str, control: KinesisControl
) -> None:
    with subscribe(stream, consumer_arn, "LATEST") as events:
        place = next(iter(events))["SubscribeToShardEvent"]["ContinuationSequenceNumber"]
    put(stream, b"1")
    control.advance(6)
    with subscribe(stream, consumer_arn, "AFTER_SEQUENCE_NUMBER", SequenceNumber=place) as events:
        records = next(iter(events))["SubscribeToShardEvent"]["Records"]
    assert [record["Data"] for record in records] == [b"1"]


def test_a_live_split_loses_nothing_that_was_put_before_it(stream: KinesisStream, consumer_arn: str) -> None:
    with subscribe(stream, consumer_arn) as events:
        pushed = iter(events)
        next(pushed)
        for number in range(5):
            put(stream, b"%d" % number)
        stream.client.split_shard(StreamName=stream.name, ShardToSplit=SHARD, NewStartingHashKey="1000")
        rest = [event["SubscribeToShardEvent"] for event in pushed]
    assert [record["Data"] for event in rest for record in event["Records"]] == [b"0", b"1", b"2", b"3", b"4"]
    assert len(rest[-1]["ChildShards"]) == 2


def test_a_subscription_ends_with_its_stream_or_its_consumer(
    stream: KinesisStream, consumer_arn: str, control: KinesisControl
) -> None:
    with subscribe(stream, consumer_arn) as events:
        pushed = iter(events)
        next(pushed)
        stream.client.deregister_stream_consumer(ConsumerARN=consumer_arn)
        with pytest.raises(EventStreamError):
            list(pushed)
    control.advance(1)
    again = stream.client.register_stream_consumer(StreamARN=stream.arn, ConsumerName="reader")["Consumer"]
    with subscribe(stream, again["ConsumerARN"]) as events:
        pushed = iter(events)
        next(pushed)
        with pytest.raises(stream.client.exceptions.ResourceInUseException):
            stream.client.delete_stream(StreamName=stream.name)
        stream.client.delete_stream(StreamName=stream.name, EnforceConsumerDeletion=True)
        with pytest.raises(EventStreamError, match="ResourceNotFoundException"):
            list(pushed)


def test_a_cut_subscription_breaks_off_after_its_first_event(
    stream: KinesisStream, consumer_arn: str, control: KinesisControl
) -> None:
    put(stream, b"1")
    control.inject("SubscribeToShard", drop="within")
    with subscribe(stream, consumer_arn) as events:
        pushed = iter(events)
        assert next(pushed)["SubscribeToShardEvent"]["Records"][0]["Data"] == b"1"
        with pytest.raises(urllib3.exceptions.ProtocolError):
            list(pushed)


def test_a_stream_has_at_most_twenty_consumers(stream: KinesisStream) -> None:
    for number in range(20):
        stream.client.register_stream_consumer(StreamARN=stream.arn, ConsumerName=f"c{number:02d}")
    with pytest.raises(stream.client.exceptions.LimitExceededException):
        stream.client.register_stream_consumer(StreamARN=stream.arn, ConsumerName="one-more")
    page = stream.client.list_stream_consumers(StreamARN=stream.arn, MaxResults=15)
    rest = stream.client.list_stream_consumers(StreamARN=stream.arn, NextToken=page["NextToken"])
    assert [c["ConsumerName"] for c in page["Consumers"] + rest["Consumers"]] == [f"c{n:02d}" for n in range(20)]
