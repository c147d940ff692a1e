"""The embedded Kinesis's clock, which tests move: ages, expiry, retention, listings of the past."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kcl_core.testing.control import KinesisControl
from kcl_core.testing.fixtures import KinesisStream

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

SHARD, FIRST_CHILD, SECOND_CHILD = (f"shardId-{n:012d}" for n in range(3))
HOUR = 3600
DAY = 24 * HOUR


def iterator(client: "KinesisClient", kind: Any = "TRIM_HORIZON", **where: Any) -> str:
    return client.get_shard_iterator(StreamName="stream", ShardId=SHARD, ShardIteratorType=kind, **where)[
        "ShardIterator"
    ]


def put(client: "KinesisClient", *data: bytes) -> list[str]:
    return [client.put_record(StreamName="stream", PartitionKey="k", Data=each)["SequenceNumber"] for each in data]


def read(client: "KinesisClient", given: str) -> list[bytes]:
    return [record["Data"] for record in client.get_records(ShardIterator=given)["Records"]]


def moment(control: KinesisControl) -> datetime:
    return datetime.fromtimestamp(control.status().now, UTC)


def split(client: "KinesisClient") -> None:
    client.split_shard(StreamName="stream", ShardToSplit=SHARD, NewStartingHashKey=str(2**127))


def listed(client: "KinesisClient", kind: Any, **where: Any) -> list[str]:
    wanted: Any = {"Type": kind, **where}
    answer = client.list_shards(StreamName="stream", ShardFilter=wanted)
    return [shard["ShardId"] for shard in answer["Shards"]]


def test_iterators_expire_after_five_minutes(stream: KinesisStream, control: KinesisControl) -> None:
    given = iterator(stream.client)
    control.advance(299)
    stream.client.get_records(ShardIterator=given)
    control.advance(2)
    with pytest.raises(stream.client.exceptions.ExpiredIteratorException):
        stream.client.get_records(ShardIterator=given)


def test_page_tokens_expire_after_five_minutes(stream: KinesisStream, control: KinesisControl) -> None:
    split(stream.client)
    token = stream.client.list_shards(StreamName="stream", MaxResults=1)["NextToken"]
    control.advance(299)
    assert len(stream.client.list_shards(NextToken=token)["Shards"]) == 2
    control.advance(2)
    with pytest.raises(stream.client.exceptions.ExpiredNextTokenException):
        stream.client.list_shards(NextToken=token)


def test_an_iterator_at_a_time_starts_with_the_first_record_of_that_time_or_later(
    stream: KinesisStream, control: KinesisControl
) -> None:
    put(stream.client, b"early")
    control.advance(60)
    between = moment(control)
    control.advance(60)
    put(stream.client, b"late")
    assert read(stream.client, iterator(stream.client, "AT_TIMESTAMP", Timestamp=between)) == [b"late"]
    control.advance(60)
    assert read(stream.client, iterator(stream.client, "AT_TIMESTAMP", Timestamp=moment(control))) == []


def test_records_leave_with_the_retention(stream: KinesisStream, control: KinesisControl) -> None:
    (gone, _), given = put(stream.client, b"1", b"2"), iterator(stream.client)
    control.advance(4 * 60)
    renewed = stream.client.get_records(ShardIterator=given, Limit=1)["NextShardIterator"]
    control.advance(23 * HOUR)
    put(stream.client, b"3")
    assert read(stream.client, iterator(stream.client)) == [b"1", b"2", b"3"]
    control.advance(2 * HOUR)
    assert read(stream.client, iterator(stream.client)) == [b"3"]
    after_what_is_gone = iterator(stream.client, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=gone)
    assert read(stream.client, after_what_is_gone) == [b"3"]
    with pytest.raises(stream.client.exceptions.ExpiredIteratorException):
        stream.client.get_records(ShardIterator=renewed)


def test_a_longer_retention_keeps_records_longer(stream: KinesisStream, control: KinesisControl) -> None:
    stream.client.increase_stream_retention_period(StreamName="stream", RetentionPeriodHours=48)
    put(stream.client, b"1")
    control.advance(47 * HOUR)
    assert read(stream.client, iterator(stream.client)) == [b"1"]
    stream.client.decrease_stream_retention_period(StreamName="stream", RetentionPeriodHours=24)
    assert read(stream.client, iterator(stream.client)) == []


def test_the_age_of_the_position_is_told(stream: KinesisStream, control: KinesisControl) -> None:
    put(stream.client, b"1", b"2")
    control.advance(60)
    put(stream.client, b"3")
    behind = stream.client.get_records(ShardIterator=iterator(stream.client), Limit=1)
    assert 60_000 <= behind["MillisBehindLatest"] < 90_000
    tip = stream.client.get_records(ShardIterator=behind["NextShardIterator"])
    assert tip["MillisBehindLatest"] == 0


def test_listings_show_the_shards_of_a_time(stream: KinesisStream, control: KinesisControl) -> None:
    control.advance(60)
    before = moment(control)
    control.advance(60)
    split(stream.client)
    control.advance(60)
    after = moment(control)
    assert listed(stream.client, "AT_TIMESTAMP", Timestamp=before) == [SHARD]
    assert listed(stream.client, "AT_TIMESTAMP", Timestamp=after) == [FIRST_CHILD, SECOND_CHILD]
    assert listed(stream.client, "FROM_TIMESTAMP", Timestamp=before) == [SHARD, FIRST_CHILD, SECOND_CHILD]
    assert listed(stream.client, "FROM_TIMESTAMP", Timestamp=after) == [FIRST_CHILD, SECOND_CHILD]


def test_a_closed_shard_is_forgotten_once_the_retention_has_passed_its_end(
    stream: KinesisStream, control: KinesisControl
) -> None:
    put(stream.client, b"1")
    split(stream.client)
    control.advance(DAY - 60)
    assert listed(stream.client, "AT_TRIM_HORIZON") == [SHARD]
    control.advance(120)
    assert listed(stream.client, "FROM_TRIM_HORIZON") == [FIRST_CHILD, SECOND_CHILD]
    assert listed(stream.client, "AT_TRIM_HORIZON") == [FIRST_CHILD, SECOND_CHILD]
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException):
        iterator(stream.client)


def test_an_iterator_does_not_read_a_later_stream_of_the_same_name(
    stream: KinesisStream, control: KinesisControl
) -> None:
    given = iterator(stream.client)
    stream.client.delete_stream(StreamName="stream")
    control.advance(1)
    stream.client.create_stream(StreamName="stream", ShardCount=1)
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException):
        stream.client.get_records(ShardIterator=given)
