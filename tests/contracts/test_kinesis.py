"""What a consumer relies on, asked of our embedded Kinesis and of kinesis-mock, an independent one.

Where kinesis-mock is known to be wrong the case says so and runs against ours only.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError
from contracts.conftest import OURS, Stream

from kcl_core.clock import SystemClock
from kcl_core.errors import ExpiredIteratorError, StreamGoneError
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import MAX_HASH_KEY, IteratorPosition, Shard, ShardFilter, StreamAddress

pytestmark = pytest.mark.contract


def put(stream: Stream, name: str, count: int) -> None:
    """Put records, half of them into each half of the hash keys."""
    keys = ("0", str(MAX_HASH_KEY))
    entries: list[Any] = [
        {"Data": f"{name}-{n}".encode(), "PartitionKey": "k", "ExplicitHashKey": keys[n % 2]} for n in range(count)
    ]
    assert stream.client.put_records(StreamName=stream.name, Records=entries)["FailedRecordCount"] == 0


def shards(stream: Stream, shard_filter: ShardFilter | None = None) -> dict[str, Shard]:
    listed = stream.server.http.list_shards(StreamAddress(stream.name), shard_filter)
    return {shard.shard_id: shard for shard in listed}


def read(stream: Stream, shard_id: str, position: IteratorPosition) -> Iterator[Any]:
    """Yield answers up to the tip or the end of the shard."""
    http, address = stream.server.http, StreamAddress(stream.name)
    iterator: str | None = http.get_shard_iterator(address, shard_id, position)
    while iterator is not None:
        answer = http.get_records(address, iterator)
        yield answer
        iterator = answer.next_shard_iterator
        if answer.millis_behind_latest == 0 and not answer.records:
            return


def data(stream: Stream, shard_id: str, position: IteratorPosition) -> list[bytes]:
    return [record.data for answer in read(stream, shard_id, position) for record in answer.records]


def halves(stream: Stream) -> tuple[str, str]:
    low, high = sorted(shards(stream).values(), key=lambda shard: shard.starting_hash_key)
    return low.shard_id, high.shard_id


def test_a_new_stream_covers_all_hash_keys_with_open_shards(stream: Stream) -> None:
    found = sorted(shards(stream).values(), key=lambda shard: shard.starting_hash_key)
    assert [shard.shard_id for shard in found] == ["shardId-000000000000", "shardId-000000000001"]
    assert (found[0].starting_hash_key, found[1].ending_hash_key) == (0, MAX_HASH_KEY)
    assert found[0].ending_hash_key + 1 == found[1].starting_hash_key
    assert all(shard.is_open and not shard.parents for shard in found)
    summary = stream.server.http.describe_stream_summary(StreamAddress(stream.name))
    assert (summary.status, summary.open_shard_count, summary.retention_hours) == ("ACTIVE", 2, 24)
    assert summary.arn.endswith(f":stream/{stream.name}")


def test_records_come_back_whole_in_order_and_with_places_that_grow(stream: Stream) -> None:
    put(stream, "r", 20)
    low, high = halves(stream)
    trim = IteratorPosition("TRIM_HORIZON")
    assert data(stream, low, trim) == [f"r-{n}".encode() for n in range(0, 20, 2)]
    assert data(stream, high, trim) == [f"r-{n}".encode() for n in range(1, 20, 2)]
    records = [record for answer in read(stream, low, trim) for record in answer.records]
    numbers = [record.sequence_number for record in records]
    assert all(re.fullmatch(r"\d{56}", number) for number in numbers)
    assert [int(number) for number in numbers] == sorted({int(number) for number in numbers})
    times = [record.approximate_arrival_timestamp for record in records]
    assert times == sorted(times)
    assert {record.partition_key for record in records} == {"k"}


def test_every_type_of_iterator_starts_where_it_says(stream: Stream) -> None:
    low, _ = halves(stream)
    latest = stream.server.http.get_shard_iterator(StreamAddress(stream.name), low, IteratorPosition("LATEST"))
    put(stream, "r", 6)
    records = [r for answer in read(stream, low, IteratorPosition("TRIM_HORIZON")) for r in answer.records]
    second = records[1].sequence_number
    assert data(stream, low, IteratorPosition("AT_SEQUENCE_NUMBER", second)) == [b"r-2", b"r-4"]
    assert data(stream, low, IteratorPosition("AFTER_SEQUENCE_NUMBER", second)) == [b"r-4"]
    after_latest = stream.server.http.get_records(StreamAddress(stream.name), latest)
    assert [record.data for record in after_latest.records] == [b"r-0", b"r-2", b"r-4"]
    summary = stream.server.http.describe_stream_summary(StreamAddress(stream.name))
    assert data(stream, low, IteratorPosition("AT_TIMESTAMP", timestamp=summary.created)) == [b"r-0", b"r-2", b"r-4"]


def test_the_tip_is_zero_milliseconds_behind_and_goes_on(stream: Stream) -> None:
    low, _ = halves(stream)
    put(stream, "r", 2)
    answers = list(read(stream, low, IteratorPosition("TRIM_HORIZON")))
    assert answers[-1].millis_behind_latest == 0
    assert answers[-1].next_shard_iterator is not None
    put(stream, "s", 2)
    more = stream.server.http.get_records(StreamAddress(stream.name), answers[-1].next_shard_iterator)
    assert [record.data for record in more.records] == [b"s-0"]


def test_a_split_shard_ends_with_its_children_and_keeps_its_records(stream: Stream) -> None:
    put(stream, "before", 4)
    low, _ = halves(stream)
    parent = shards(stream)[low]
    middle = (parent.ending_hash_key + 1) // 2
    stream.client.split_shard(StreamName=stream.name, ShardToSplit=low, NewStartingHashKey=str(middle))
    stream.settle()
    put(stream, "after", 4)
    listed = shards(stream)
    children = [shard for shard in listed.values() if low in shard.parents]
    assert not listed[low].is_open
    assert sorted((c.starting_hash_key, c.ending_hash_key) for c in children) == [
        (0, middle - 1),
        (middle, parent.ending_hash_key),
    ]
    answers = list(read(stream, low, IteratorPosition("TRIM_HORIZON")))
    assert [record.data for answer in answers for record in answer.records] == [b"before-0", b"before-2"]
    assert answers[-1].at_shard_end
    ended = {child.shard_id: child for child in answers[-1].child_shards}
    assert ended.keys() == {child.shard_id for child in children}
    assert all(child.parent_shards == (low,) for child in ended.values())
    assert data(stream, min(ended), IteratorPosition("TRIM_HORIZON")) == [b"after-0", b"after-2"]


def test_merged_shards_end_with_one_child_of_two_parents(stream: Stream) -> None:
    low, high = halves(stream)
    put(stream, "before", 2)
    stream.client.merge_shards(StreamName=stream.name, ShardToMerge=low, AdjacentShardToMerge=high)
    stream.settle()
    (child,) = (shard for shard in shards(stream).values() if shard.is_open)
    assert set(child.parents) == {low, high}
    assert (child.starting_hash_key, child.ending_hash_key) == (0, MAX_HASH_KEY)
    for parent in (low, high):
        last = list(read(stream, parent, IteratorPosition("TRIM_HORIZON")))[-1]
        assert last.at_shard_end
        assert [(each.shard_id, set(each.parent_shards)) for each in last.child_shards] == [
            (child.shard_id, {low, high})
        ]


def test_update_shard_count_keeps_what_was_there(stream: Stream) -> None:
    put(stream, "before", 4)
    stream.client.update_shard_count(StreamName=stream.name, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    stream.settle()
    listed = shards(stream)
    opened = sorted((shard for shard in listed.values() if shard.is_open), key=lambda shard: shard.starting_hash_key)
    assert len(opened) == 4
    assert opened[0].starting_hash_key == 0
    assert opened[-1].ending_hash_key == MAX_HASH_KEY
    assert all(a.ending_hash_key + 1 == b.starting_hash_key for a, b in pairwise(opened))
    old = [shard_id for shard_id, shard in listed.items() if not shard.is_open]
    trim = IteratorPosition("TRIM_HORIZON")
    assert sorted(each for shard_id in old for each in data(stream, shard_id, trim)) == [
        f"before-{n}".encode() for n in range(4)
    ]


def test_listings_are_filtered(stream: Stream) -> None:
    low, _ = halves(stream)
    stream.client.split_shard(StreamName=stream.name, ShardToSplit=low, NewStartingHashKey="1000")
    stream.settle()
    everything = shards(stream)
    assert set(shards(stream, ShardFilter("AT_LATEST"))) == {k for k, shard in everything.items() if shard.is_open}
    assert set(shards(stream, ShardFilter("FROM_TRIM_HORIZON"))) == set(everything)
    after = shards(stream, ShardFilter("AFTER_SHARD_ID", shard_id="shardId-000000000001"))
    assert set(after) == {"shardId-000000000002", "shardId-000000000003"}
    if stream.server.name == OURS:  # kinesis-mock returns more than existed at that time
        assert set(shards(stream, ShardFilter("AT_TRIM_HORIZON"))) == {low, "shardId-000000000001"}


def test_listings_come_in_pages(stream: Stream) -> None:
    first = stream.client.list_shards(StreamName=stream.name, MaxResults=1)
    second = stream.client.list_shards(NextToken=first["NextToken"], MaxResults=1)
    assert [shard["ShardId"] for page in (first, second) for shard in page["Shards"]] == list(shards(stream))
    assert "NextToken" not in second


def test_streams_are_addressed_by_name_and_by_arn(stream: Stream) -> None:
    put(stream, "r", 2)
    low, _ = halves(stream)
    http = stream.server.http
    address = StreamAddress(stream.name, http.describe_stream_summary(StreamAddress(stream.name)).arn)
    iterator = http.get_shard_iterator(address, low, IteratorPosition("TRIM_HORIZON"))
    assert [record.data for record in http.get_records(address, iterator).records] == [b"r-0"]
    assert len(http.list_shards(address)) == 2


def test_what_is_not_there_is_said_to_be_gone(stream: Stream) -> None:
    http = stream.server.http
    with pytest.raises(StreamGoneError):
        http.describe_stream_summary(StreamAddress("no-such-stream"))
    with pytest.raises(StreamGoneError):
        http.get_shard_iterator(StreamAddress(stream.name), "shardId-000000000099", IteratorPosition("LATEST"))
    if stream.server.name == OURS:  # kinesis-mock answers 500
        with pytest.raises(ExpiredIteratorError):
            http.get_records(StreamAddress(stream.name), "garbage")


def test_limits_are_enforced(stream: Stream) -> None:
    low, _ = halves(stream)
    iterator = stream.client.get_shard_iterator(StreamName=stream.name, ShardId=low, ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    with pytest.raises(ClientError, match=r"10000|10,000|less than or equal"):
        stream.client.get_records(ShardIterator=iterator, Limit=10_001)
    if stream.server.name == OURS:  # kinesis-mock accepts it
        many: list[Any] = [{"Data": b"x", "PartitionKey": "k"}] * 501
        with pytest.raises(ClientError, match="500"):
            stream.client.put_records(StreamName=stream.name, Records=many)


def test_consumers_are_registered_once(stream: Stream) -> None:
    arn = stream.server.http.describe_stream_summary(StreamAddress(stream.name)).arn
    made = stream.client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")["Consumer"]
    with pytest.raises(stream.client.exceptions.ResourceInUseException):
        stream.client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")
    listed = wait_for_active_consumers(stream, arn)
    assert [consumer["ConsumerARN"] for consumer in listed] == [made["ConsumerARN"]]
    stream.client.deregister_stream_consumer(ConsumerARN=made["ConsumerARN"])


def wait_for_active_consumers(stream: Stream, arn: str) -> list[Any]:
    clock, pause = SystemClock(), StopSignal()
    deadline = clock.monotonic() + 30
    while True:
        listed: list[Any] = list(stream.client.list_stream_consumers(StreamARN=arn)["Consumers"])
        if all(consumer["ConsumerStatus"] == "ACTIVE" for consumer in listed):
            return listed
        assert clock.monotonic() < deadline, "a consumer never became ACTIVE"
        pause.wait(timedelta(milliseconds=100))
