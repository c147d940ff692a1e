"""The part of a micro-batch that runs in Spark's tasks: read leased ranges, write Parquet, return manifests."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import SparkSession

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig
from kcl_core.errors import KclError, StreamThrottledError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import MAX_HASH_KEY, GetRecordsAnswer, KinesisApi, StreamAddress
from kcl_core.streams.kpl import UserRecord, deaggregate
from kcl_core.streams.polling import ReadLimits, behind, read_pages
from kcl_core.streams.signed_http import KinesisHttp
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.manifest import (
    MANIFEST_DDL,
    FetchProblem,
    FileManifest,
    ShardManifest,
    decode_manifest,
    encode_manifest,
)
from kcl_dagster.spark.ranges import BatchPlan, LeaseRange
from kcl_dagster.spark.window_files import WindowFiles, open_filesystem

_log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MANIFEST_COLUMNS: list[tuple[str, pa.DataType]] = [("lease_key", pa.string()), ("manifest", pa.binary())]
_MANIFEST_SCHEMA = pa.schema(_MANIFEST_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What a task needs to know besides its ranges. Sent to the executors with each batch.

    Attributes:
        location: absolute root of the table.
        timestamp: for a first read AT_TIMESTAMP, aware.
        records_per_call: most records of one GetRecords call.
        request_timeout: for one call.
    """

    aws: AwsConfig
    stream: StreamAddress
    location: str
    path: SparkPathConfig
    timestamp: datetime | None
    records_per_call: int
    request_timeout: timedelta


def fetch_batch(spark: SparkSession, plan: BatchPlan, settings: FetchSettings) -> list[ShardManifest]:
    """Run the plan on Spark, one task per group of ranges; return a manifest for each range.

    A task that Spark repeats writes files of its own, so only what the manifests name may be committed.

    Raises:
        pyspark.errors.PySparkException: a task failed otherwise than by Kinesis or the table's file system.
    """
    task = FetchTask(plan.tasks, settings)
    count = len(plan.tasks)
    rows = spark.range(0, count, 1, count).mapInArrow(task, MANIFEST_DDL).collect()
    return [decode_manifest(bytes(row["manifest"])) for row in rows]


class FetchTask:
    """The function that Spark maps over the numbers of the tasks."""

    def __init__(self, tasks: tuple[tuple[LeaseRange, ...], ...], settings: FetchSettings) -> None:
        self._tasks = tasks
        self._settings = settings

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one manifest row per lease."""
        kinesis = _kinesis(self._settings)
        for batch in batches:
            for number in batch.column(0):
                manifests = fetch_ranges(kinesis, self._tasks[int(number.as_py())], self._settings)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([manifest.lease_key for manifest in manifests], pa.string()),
                        pa.array([encode_manifest(manifest) for manifest in manifests], pa.binary()),
                    ],
                    schema=_MANIFEST_SCHEMA,
                )


def fetch_ranges(kinesis: KinesisApi, ranges: tuple[LeaseRange, ...], settings: FetchSettings) -> list[ShardManifest]:
    """Read ranges one after the other; the time is shared out, and what one leaves over the next ones may use."""
    clock = SystemClock()
    began = clock.monotonic()
    share = settings.path.max_batch_seconds / len(ranges)
    return [
        _fetch(kinesis, planned, settings, clock, deadline=began + share * (place + 1))
        for place, planned in enumerate(ranges)
    ]


def _fetch(
    kinesis: KinesisApi, planned: LeaseRange, settings: FetchSettings, clock: SystemClock, *, deadline: float
) -> ShardManifest:
    filesystem, root = open_filesystem(settings.location, settings.path.storage_options)
    files = WindowFiles(
        filesystem, root, settings.path.grid, clock, stream=settings.stream.name, shard_id=planned.shard_id
    )
    try:
        read = _read(kinesis, planned, settings, files, clock, deadline=deadline)
        return read.manifest(planned, files.close())
    except OSError as error:
        files.abandon()
        # A disk names its reason, and it will not pass by itself: full, read-only, forbidden. An object store has
        # none of those numbers, and may be better in a while.
        problem = FetchProblem(type(error).__name__, f"{settings.location}: {error}", error.errno is None)
        return ShardManifest(
            lease_key=planned.lease_key,
            shard_id=planned.shard_id,
            start=planned.start,
            end=planned.start,
            problem=problem,
        )


def _read(
    kinesis: KinesisApi,
    planned: LeaseRange,
    settings: FetchSettings,
    files: WindowFiles,
    clock: SystemClock,
    *,
    deadline: float,
) -> "_Read":
    """Read one range into ``files``.

    Raises:
        OSError: the table's file system refused.
    """
    limits = ReadLimits(
        settings.path.max_records_per_shard, settings.path.max_bytes_per_shard, deadline, settings.records_per_call
    )
    low, high = 0, MAX_HASH_KEY
    if planned.hash_key_range is not None:
        low, high = planned.hash_key_range.starting, planned.hash_key_range.ending
    read = _Read(planned.start)
    try:
        for answer in read_pages(
            kinesis,
            settings.stream,
            planned.shard_id,
            planned.start,
            limits=limits,
            clock=clock,
            timestamp=settings.timestamp,
            shard_iterator=planned.shard_iterator,
        ):
            users = deaggregate(answer.records, starting_hash_key=low, ending_hash_key=high)
            fresh = behind(users, planned.start)
            if fresh:
                files.write(fresh)
            read.take(answer, users)
    except StreamThrottledError as error:
        # In the middle of a backlog that is the shard's ordinary pace; the next batch goes on.
        if read.answer is None:
            read.problem = FetchProblem(type(error).__name__, str(error), error.retryable)
    except KclError as error:
        read.problem = FetchProblem(type(error).__name__, str(error), error.retryable)
    return read


class _Read:
    """How far a read has come, and what stopped it early."""

    def __init__(self, start: ExtendedSequenceNumber) -> None:
        self.answer: GetRecordsAnswer | None = None
        self.problem: FetchProblem | None = None
        self._end = start
        self._records = 0
        self._last_arrival: float | None = None

    def take(self, answer: GetRecordsAnswer, users: list[UserRecord]) -> None:
        """Note one answer and the user records in it, also those that were read before."""
        self.answer = answer
        if not answer.records:
            return
        last = answer.records[-1]
        # Behind an aggregate the position is that of its last user record; one without any counts as read, too.
        sub = users[-1].sub_sequence_number if users and users[-1].sequence_number == last.sequence_number else 0
        self._end = max(self._end, ExtendedSequenceNumber(last.sequence_number, sub))
        self._records += len(answer.records)
        self._last_arrival = last.approximate_arrival_timestamp

    def manifest(self, planned: LeaseRange, files: tuple[FileManifest, ...]) -> ShardManifest:
        """Describe the read.

        Args:
            planned: what was to be read.
            files: what it was written to.
        """
        answer = self.answer
        millis = None if self._last_arrival is None else round(self._last_arrival * 1000)
        shard_end = answer is not None and answer.at_shard_end
        return ShardManifest(
            lease_key=planned.lease_key,
            shard_id=planned.shard_id,
            start=planned.start,
            end=self._end,
            shard_end=shard_end,
            children=() if answer is None else answer.child_shards,
            at_tip=answer is not None and not shard_end and answer.millis_behind_latest == 0,
            millis_behind_latest=None if answer is None else answer.millis_behind_latest,
            records=self._records,
            server_time=None if answer is None else answer.server_time,
            last_arrival=None if millis is None else _EPOCH + timedelta(milliseconds=millis),
            next_iterator=None if answer is None else answer.next_shard_iterator,
            files=files,
            problem=self.problem,
        )


_doors: dict[tuple[str, timedelta], KinesisHttp] = {}


def _kinesis(settings: FetchSettings) -> KinesisHttp:
    """Return this Python worker's door to Kinesis: kept between batches, with its connections and credentials."""
    key = (settings.aws.model_dump_json(), settings.request_timeout)
    if key not in _doors:
        _doors[key] = KinesisHttp(settings.aws, request_timeout=settings.request_timeout)
    return _doors[key]
