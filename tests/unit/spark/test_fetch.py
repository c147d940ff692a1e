"""What a Spark task does, without Spark: read ranges, write files and report, also when Kinesis refuses."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kcl_core.leases.model import HashKeyRange
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.kpl import AggregateEntry, aggregate
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.fetch import FetchSettings, fetch_ranges
from kcl_dagster.spark.manifest import ShardManifest
from kcl_dagster.spark.ranges import LeaseRange

SHARD = "shardId-000000000000"
TRIM_HORIZON = ExtendedSequenceNumber.TRIM_HORIZON


class Reader:
    """Fetches one shard of the test's stream into a folder."""

    def __init__(self, aws: EmbeddedAws, stream: KinesisStream, root: Path, **path: Any) -> None:
        self.kinesis = KinesisHttp(aws.config())
        self.root = root
        self.settings = FetchSettings(
            aws=aws.config(),
            stream=StreamAddress(stream.name),
            location=str(root),
            path=SparkPathConfig(window_minutes=1, max_batch_seconds=5.0, **path),
            timestamp=None,
            records_per_call=path.get("max_records_per_shard", 10_000),
            request_timeout=timedelta(seconds=5),
        )

    def read(self, start: ExtendedSequenceNumber = TRIM_HORIZON, shard: str = SHARD, **options: Any) -> ShardManifest:
        planned = LeaseRange(lease_key=shard, shard_id=shard, start=start, **options)
        (manifest,) = fetch_ranges(self.kinesis, (planned,), self.settings)
        return manifest

    def data(self, manifest: ShardManifest) -> list[bytes | None]:
        tables = [parquet.ParquetFile(self.root / file.path).read() for file in manifest.files]
        return [data for table in tables for data in table.column("data").to_pylist()]


@pytest.fixture
def reader(embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, tmp_path: Path) -> Reader:
    return Reader(embedded_aws, kinesis_stream, tmp_path)


def put(stream: KinesisStream, count: int, first: int = 0) -> None:
    entries: list[Any] = [{"Data": b"%d" % n, "PartitionKey": "k"} for n in range(first, first + count)]
    assert stream.client.put_records(StreamName=stream.name, Records=entries)["FailedRecordCount"] == 0


def test_a_read_to_the_tip_says_what_it_reached(reader: Reader, kinesis_stream: KinesisStream) -> None:
    put(kinesis_stream, 5)
    manifest = reader.read()
    assert reader.data(manifest) == [b"%d" % n for n in range(5)]
    assert (manifest.advanced, manifest.at_tip, manifest.shard_end) == (True, True, False)
    assert (manifest.rows, manifest.records, manifest.millis_behind_latest) == (5, 5, 0)
    assert manifest.reached == manifest.server_time
    assert manifest.problem is None


def test_the_next_read_goes_on_exactly_where_this_one_ended(reader: Reader, kinesis_stream: KinesisStream) -> None:
    put(kinesis_stream, 3)
    first = reader.read()
    put(kinesis_stream, 2, first=3)
    by_position = reader.read(first.end)
    by_iterator = reader.read(first.end, shard_iterator=first.next_iterator)
    assert reader.data(by_position) == reader.data(by_iterator) == [b"3", b"4"]
    nothing_new = reader.read(by_position.end)
    assert (nothing_new.advanced, nothing_new.files, nothing_new.at_tip) == (False, (), True)


def test_a_foreign_or_old_iterator_is_replaced(reader: Reader, kinesis_stream: KinesisStream) -> None:
    put(kinesis_stream, 3)
    assert reader.data(reader.read(shard_iterator="stale")) == [b"0", b"1", b"2"]


def test_a_position_within_an_aggregate_is_kept(reader: Reader, kinesis_stream: KinesisStream) -> None:
    """As a Java worker may leave it."""
    packed = aggregate(AggregateEntry("k", b"%d" % n) for n in range(5))
    number = kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="k", Data=packed)
    whole = reader.read()
    assert reader.data(whole) == [b"0", b"1", b"2", b"3", b"4"]
    assert whole.end == ExtendedSequenceNumber(number["SequenceNumber"], 4)
    rest = reader.read(ExtendedSequenceNumber(number["SequenceNumber"], 2))
    assert reader.data(rest) == [b"3", b"4"]


def test_an_aggregate_of_another_shard_is_passed_over(reader: Reader, kinesis_stream: KinesisStream) -> None:
    """Its producer sends those records again, to where they belong."""
    packed = aggregate([AggregateEntry("k", b"stray", str(2**127))])
    kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="k", Data=packed)
    put(kinesis_stream, 1)
    manifest = reader.read(hash_key_range=HashKeyRange(0, 2**127 - 1))
    assert reader.data(manifest) == [b"0"]
    assert manifest.at_tip


def test_the_end_of_a_shard_names_its_children(reader: Reader, kinesis_stream: KinesisStream) -> None:
    put(kinesis_stream, 1)
    kinesis_stream.client.split_shard(
        StreamName=kinesis_stream.name, ShardToSplit=SHARD, NewStartingHashKey=str(2**127)
    )
    kinesis_stream.client.get_waiter("stream_exists").wait(StreamName=kinesis_stream.name)
    manifest = reader.read()
    assert (manifest.shard_end, manifest.at_tip, manifest.next_iterator) == (True, False, None)
    assert [child.shard_id for child in manifest.children] == ["shardId-000000000001", "shardId-000000000002"]
    assert manifest.reached == manifest.last_arrival
    again = reader.read(manifest.end)
    assert (again.advanced, again.shard_end) == (False, True)


def test_a_batch_stops_at_its_limit_and_knows_that_there_is_more(
    embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, tmp_path: Path
) -> None:
    put(kinesis_stream, 10)
    reader = Reader(embedded_aws, kinesis_stream, tmp_path, max_records_per_shard=4)
    manifest = reader.read()
    assert reader.data(manifest) == [b"%d" % n for n in range(4)]
    assert not manifest.at_tip
    assert manifest.reached == manifest.last_arrival
    # The last answer may overshoot the limit.
    assert reader.data(reader.read(manifest.end))[:4] == [b"%d" % n for n in range(4, 8)]


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ("ProvisionedThroughputExceededException", "StreamThrottledError", True),
        ("InternalFailure", "EndpointUnavailableError", True),
        ("AccessDeniedException", "AccessDeniedError", False),
        ("ResourceNotFoundException", "StreamGoneError", False),
    ],
)
def test_a_refusal_before_the_first_answer_is_a_problem_of_this_lease(
    reader: Reader, embedded_aws: EmbeddedAws, error: str, kind: str, retryable: bool
) -> None:
    embedded_aws.kinesis_control.inject("GetRecords", error=error)
    manifest = reader.read()
    assert manifest.problem is not None
    assert (manifest.problem.kind, manifest.problem.retryable) == (kind, retryable)
    assert not manifest.advanced
    assert reader.read().problem is None


def test_what_was_read_before_a_refusal_counts(
    embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, tmp_path: Path
) -> None:
    """Throttling in the middle of a backlog is the shard's ordinary pace; anything else is told."""
    put(kinesis_stream, 10)
    reader = Reader(embedded_aws, kinesis_stream, tmp_path, max_records_per_shard=8)
    object.__setattr__(reader.settings, "records_per_call", 3)
    for error, problem in (
        ("ProvisionedThroughputExceededException", None),
        ("InternalFailure", "EndpointUnavailableError"),
    ):
        embedded_aws.kinesis_control.inject("GetRecords", delay_seconds=0.001)
        embedded_aws.kinesis_control.inject("GetRecords", error=error)
        manifest = reader.read()
        assert reader.data(manifest) == [b"0", b"1", b"2"]
        assert (manifest.problem.kind if manifest.problem else None) == problem


def test_a_disk_that_refuses_is_a_problem_of_what_would_be_written_to_it(
    reader: Reader, kinesis_stream: KinesisStream
) -> None:
    """Here a file lies where the folder of a window belongs. Nothing of the read counts, for good."""
    put(kinesis_stream, 2)
    window = reader.read().files[0].window
    reader.root /= "other"
    reader.settings = replace(reader.settings, location=str(reader.root))
    obstacle = reader.root / window.folder.partition("/")[0]
    reader.root.mkdir()
    obstacle.touch()
    refused = reader.read()
    assert refused.problem is not None
    assert not refused.problem.retryable
    assert str(reader.root) in refused.problem.message
    assert (refused.advanced, refused.files, refused.reached) == (False, (), None)
    obstacle.unlink()
    assert reader.data(reader.read()) == [b"0", b"1"]


def test_ranges_of_one_task_share_the_time_and_one_failure_stays_one(
    reader: Reader, kinesis_stream: KinesisStream
) -> None:
    put(kinesis_stream, 2)
    ranges = tuple(
        LeaseRange(lease_key=key, shard_id=key, start=TRIM_HORIZON) for key in ("shardId-000000000099", SHARD)
    )
    gone, sound = fetch_ranges(reader.kinesis, ranges, reader.settings)
    assert gone.problem is not None
    assert gone.problem.kind == "StreamGoneError"
    assert reader.data(sound) == [b"0", b"1"]
