"""What the data source does without Spark: its options, its plan and the reading of one shard."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kcl_core.errors import ConfigurationError, EndpointUnavailableError, StreamGoneError, StreamThrottledError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import ShardFilter
from kcl_core.streams.kpl import AggregateEntry, aggregate
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import REGION, EmbeddedAws
from kcl_dagster.spark.source import (
    KinesisDataSource,
    KinesisReader,
    ShardPartition,
    parse_options,
    plan_shards,
    read_shard,
)

MOMENT = datetime(2026, 11, 21, 10, tzinfo=UTC)
THROTTLED = "ProvisionedThroughputExceededException"


def payloads(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [row["data"] for batch in batches for row in batch.to_pylist()]


class CountedPauses(StopSignal):
    """Waits for nothing, and knows how often it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def wait(self, pause: timedelta) -> bool:
        assert pause > timedelta(0)
        self.count += 1
        return self.is_set()


class Source:
    """A query of one stream, run here."""

    def __init__(self, aws: EmbeddedAws, stream: KinesisStream) -> None:
        self.aws = aws
        self.stream = stream
        self.query = parse_options({"stream": stream.name, "region": REGION, "endpoint": aws.kinesis_endpoint})
        self.kinesis = KinesisHttp(self.query.aws)
        self.pauses = CountedPauses()

    def put(self, *payloads: bytes) -> None:
        for data in payloads:
            self.stream.client.put_record(StreamName=self.stream.name, PartitionKey="k", Data=data)

    def plan(self) -> list[ShardPartition]:
        return plan_shards(self.kinesis, self.query, self.pauses)

    def batches(self, partition: ShardPartition) -> list[pa.RecordBatch]:
        return list(read_shard(self.kinesis, self.query, partition, self.pauses))

    def read(self, partition: ShardPartition) -> list[bytes]:
        return payloads(self.batches(partition))


@pytest.fixture
def source(embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream) -> Source:
    return Source(embedded_aws, kinesis_stream)


def test_option_names_are_taken_in_any_case() -> None:
    """Spark hands them over in lower case."""
    query = parse_options(
        {
            "STREAM": "orders",
            "streamarn": "arn:orders",
            "region": "eu-west-1",
            "Endpoint": "http://localhost:1",
            "startingposition": "at_timestamp",
            "startingTimestamp": "2026-11-21T11:00:00+01:00",
        }
    )
    assert (query.stream.name, query.stream.arn) == ("orders", "arn:orders")
    assert (query.aws.region_name, query.aws.kinesis_endpoint_url) == ("eu-west-1", "http://localhost:1")
    assert (query.start, query.timestamp) == (ExtendedSequenceNumber.AT_TIMESTAMP, MOMENT)
    assert query.shard_filter == ShardFilter("FROM_TIMESTAMP", timestamp=MOMENT)


def test_a_query_starts_at_the_oldest_record_unless_told_otherwise() -> None:
    query = parse_options({"stream": "orders"})
    assert (query.start, query.timestamp) == (ExtendedSequenceNumber.TRIM_HORIZON, None)
    assert query.shard_filter == ShardFilter("FROM_TRIM_HORIZON")


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({}, "stream"),
        ({"stream": ""}, "stream"),
        ({"streamName": "orders"}, "streamName"),
        ({"startingPosition": "LATEST"}, "startingPosition"),
        ({"startingPosition": "AT_TIMESTAMP"}, "startingTimestamp"),
        ({"startingTimestamp": "2026-11-21T10:00:00Z"}, "startingTimestamp"),
        ({"startingPosition": "AT_TIMESTAMP", "startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"startingPosition": "AT_TIMESTAMP", "startingTimestamp": "2026-11-21T10:00:00"}, "startingTimestamp"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_options({"stream": "orders", **options} if options else {})
    assert caught.value.setting == setting


def test_the_reader_takes_the_options(source: Source) -> None:
    options = {"stream": source.stream.name, "region": REGION, "endpoint": source.aws.kinesis_endpoint}
    reader = KinesisDataSource(options).reader(None)  # type: ignore[arg-type] # not looked at
    source.put(b"1", b"2")
    assert isinstance(reader, KinesisReader)
    (partition,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(partition)] == [2]


def test_a_query_ends_where_the_stream_ended_when_it_was_planned(source: Source) -> None:
    source.put(b"before")
    (partition,) = source.plan()
    source.aws.kinesis_control.advance(5)
    source.put(b"after")
    assert source.read(partition) == [b"before"]
    (later,) = source.plan()
    assert source.read(later) == [b"before", b"after"]


def test_a_record_put_just_before_the_plan_is_part_of_it(source: Source) -> None:
    """The plan's time is Kinesis's, and not rounded down."""
    for number in range(5):
        source.put(b"%d" % number)
        (partition,) = source.plan()
        assert len(source.read(partition)) == number + 1


def test_throttling_and_outages_are_waited_for_without_a_record_twice_or_left_out(source: Source) -> None:
    source.put(*(b"%d" % n for n in range(20)), aggregate(AggregateEntry("k", b"u%d" % n) for n in range(3)))
    (partition,) = source.plan()
    control = source.aws.kinesis_control
    control.inject("GetShardIterator", error=THROTTLED)
    control.inject("GetRecords", count=3, error=THROTTLED)
    control.inject("GetRecords", error="InternalFailure")
    control.inject("GetRecords", error="ExpiredIteratorException")
    assert source.read(partition) == [*(b"%d" % n for n in range(20)), b"u0", b"u1", b"u2"]
    assert source.pauses.count == 6


def test_the_plan_waits_too(source: Source) -> None:
    source.aws.kinesis_control.inject("ListShards", error="LimitExceededException")
    source.aws.kinesis_control.inject("GetRecords", error=THROTTLED)
    assert len(source.plan()) == 1
    assert source.pauses.count == 2


def test_a_read_that_is_throttled_in_the_middle_goes_on_behind_what_it_yielded(source: Source) -> None:
    """Answers hold at most 10 MiB, so this backlog takes several."""
    blob = bytes(900_000)
    source.put(*(blob + b"%02d" % n for n in range(25)))
    (partition,) = source.plan()
    reading = read_shard(source.kinesis, source.query, partition, source.pauses)
    first = next(reading)
    assert first.num_rows < 25
    source.aws.kinesis_control.inject("GetRecords", count=2, error=THROTTLED)
    rest = list(reading)
    assert [data[-2:] for data in payloads([first, *rest])] == [b"%02d" % n for n in range(25)]
    assert source.pauses.count == 2


def test_what_does_not_pass_is_raised_in_the_end(source: Source) -> None:
    (partition,) = source.plan()
    source.aws.kinesis_control.inject("GetShardIterator", count=61, error=THROTTLED)
    with pytest.raises(StreamThrottledError):
        source.read(partition)
    assert source.pauses.count == 60


def test_what_waiting_does_not_mend_is_raised_at_once(source: Source) -> None:
    (partition,) = source.plan()
    gone = replace(partition, shard=replace(partition.shard, shard_id="shardId-000000000099"))
    with pytest.raises(StreamGoneError):
        source.read(gone)
    assert source.pauses.count == 0


def test_a_stop_ends_the_waiting(source: Source) -> None:
    source.pauses.set()
    source.aws.kinesis_control.inject("ListShards", error="InternalFailure")
    with pytest.raises(EndpointUnavailableError):
        source.plan()


def test_a_partition_of_another_source_is_refused() -> None:
    reader = KinesisReader(parse_options({"stream": "orders"}))
    with pytest.raises(TypeError):
        reader.read(None)  # type: ignore[arg-type]
