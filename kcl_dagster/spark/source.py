"""``format("kinesis")``: a stream's records for users' own Spark queries. Not the way into the table.

    spark.dataSource.register(KinesisDataSource)
    spark.read.format("kinesis").option("stream", "orders").load()

Options, names without regard to case:

- ``stream``: name; required.
- ``streamArn``: for streams of another account.
- ``region``, ``endpoint``: default is AWS's own chain; credentials always come from it, on the executors.
- ``startingPosition``: ``TRIM_HORIZON`` (default) or ``AT_TIMESTAMP``.
- ``startingTimestamp``: for ``AT_TIMESTAMP``, ISO 8601 with a time zone.

One Spark partition per shard. A query ends where the stream ended when it was planned; each action plans anew, and
reads the stream, and uses up its quota, anew.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig
from kcl_core.errors import ConfigurationError, KclError, StreamNotReadyError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import IteratorPosition, KinesisApi, Shard, ShardFilter, StreamAddress
from kcl_core.streams.kpl import deaggregate
from kcl_core.streams.polling import ReadLimits, behind, read_pages
from kcl_core.streams.signed_http import KinesisHttp
from kcl_dagster.spark.rows import FILE_SCHEMA, record_batch, spark_ddl

Result = TypeVar("Result")

_OPTIONS = ("stream", "streamArn", "region", "endpoint", "startingPosition", "startingTimestamp")

# A shard's quota is per second; a whole table of readers may share it.
_PAUSE = timedelta(seconds=1)
_FAILURES_IN_A_ROW = 60

# The HTTP Date header, from which Kinesis's time comes, has whole seconds.
_DATE_RESOLUTION = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class KinesisQuery:
    """What a query reads.

    Attributes:
        start: TRIM_HORIZON or AT_TIMESTAMP.
        timestamp: for AT_TIMESTAMP, aware.
    """

    stream: StreamAddress
    aws: AwsConfig
    start: ExtendedSequenceNumber = ExtendedSequenceNumber.TRIM_HORIZON
    timestamp: datetime | None = None

    @property
    def shard_filter(self) -> ShardFilter:
        """The shards that may hold what is read."""
        if self.timestamp is None:
            return ShardFilter("FROM_TRIM_HORIZON")
        return ShardFilter("FROM_TIMESTAMP", timestamp=self.timestamp)


@dataclass
class ShardPartition(InputPartition):
    """One shard of a query.

    Attributes:
        until: aware UTC, by Kinesis's clock; records that arrived then or later are not part of the query.
    """

    shard: Shard
    until: datetime


class KinesisDataSource(DataSource):
    """The data source, for `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kinesis"

    def schema(self) -> str:
        """Return the columns of `FILE_SCHEMA`."""
        return spark_ddl(FILE_SCHEMA)

    def reader(self, schema: StructType) -> "KinesisReader":  # noqa: ARG002 - Spark checks the batches against it
        """Return the reader of a batch query.

        Raises:
            ConfigurationError: an option is missing, unknown or wrong.
        """
        return KinesisReader(parse_options(self.options))


class KinesisReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, query: KinesisQuery) -> None:
        self._query = query

    def partitions(self) -> list[InputPartition]:
        """Return the shards, all with the present end of the stream."""
        return [*plan_shards(KinesisHttp(self._query.aws), self._query, StopSignal())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one shard."""
        if not isinstance(partition, ShardPartition):
            message = f"{partition!r} is not a partition of this source"
            raise TypeError(message)
        return read_shard(KinesisHttp(self._query.aws), self._query, partition, StopSignal())


def parse_options(options: Mapping[str, str]) -> KinesisQuery:
    """Return the query that Spark's options describe.

    Raises:
        ConfigurationError: an option is missing, unknown or wrong.
    """
    known = {name.lower(): name for name in _OPTIONS}
    given = {known.get(name.lower(), name): value for name, value in options.items()}
    unknown = sorted(given.keys() - set(_OPTIONS))
    if unknown:
        raise ConfigurationError("is not an option", setting=unknown[0], next_step=f"use {', '.join(_OPTIONS)}")
    if not given.get("stream"):
        raise ConfigurationError("is missing", setting="stream", next_step="name the stream to read")
    position = given.get("startingPosition", "TRIM_HORIZON").upper()
    if position not in {"TRIM_HORIZON", "AT_TIMESTAMP"}:
        raise ConfigurationError(
            f"{position!r} is no place where a batch can start",
            setting="startingPosition",
            next_step="use TRIM_HORIZON or AT_TIMESTAMP",
        )
    return KinesisQuery(
        StreamAddress(given["stream"], given.get("streamArn")),
        AwsConfig(region_name=given.get("region"), kinesis_endpoint_url=given.get("endpoint")),
        ExtendedSequenceNumber(position),
        _timestamp(position, given.get("startingTimestamp")),
    )


def plan_shards(kinesis: KinesisApi, query: KinesisQuery, stop: StopSignal) -> list[ShardPartition]:
    """Return the shards to read, and the time at which the stream ends for this query.

    The time is Kinesis's own, from an answer that reads nothing: comparing arrival times with another clock could
    cut off records that were in the stream before.

    Raises:
        StreamNotReadyError: no shard is open; the stream is being created or deleted.
    """
    shards = _patiently(lambda: kinesis.list_shards(query.stream, query.shard_filter), stop)
    opened = next((shard for shard in shards if shard.is_open), None)
    if opened is None:
        raise StreamNotReadyError(stream=query.stream.name, status="without an open shard")

    def ask_time() -> datetime:
        iterator = kinesis.get_shard_iterator(query.stream, opened.shard_id, IteratorPosition("LATEST"))
        return kinesis.get_records(query.stream, iterator, 1).server_time

    until = _patiently(ask_time, stop) + _DATE_RESOLUTION
    return [ShardPartition(shard, until) for shard in sorted(shards, key=lambda shard: shard.shard_id)]


def read_shard(
    kinesis: KinesisApi, query: KinesisQuery, partition: ShardPartition, stop: StopSignal
) -> Iterator[pa.RecordBatch]:
    """Yield the shard's user records in order, one batch per answer that has any.

    Raises:
        KclError: what waiting does not mend, or did not within a minute.
    """
    clock, shard, until = SystemClock(), partition.shard, partition.until.timestamp()
    limits = ReadLimits(max_records=sys.maxsize, max_bytes=sys.maxsize, deadline=float("inf"))
    start, iterator, failures = query.start, None, 0
    while True:
        pages = read_pages(
            kinesis,
            query.stream,
            shard.shard_id,
            start,
            limits=limits,
            clock=clock,
            timestamp=query.timestamp,
            shard_iterator=iterator,
        )
        try:
            for answer in pages:
                records = list(takewhile(lambda record: record.approximate_arrival_timestamp < until, answer.records))
                users = deaggregate(
                    records, starting_hash_key=shard.starting_hash_key, ending_hash_key=shard.ending_hash_key
                )
                fresh = behind(users, start)
                if fresh:
                    yield record_batch(query.stream.name, shard.shard_id, fresh)
                if len(records) < len(answer.records):
                    return
                if records:
                    # All of the record's user records, however many it packs.
                    start = ExtendedSequenceNumber(records[-1].sequence_number, sys.maxsize)
                iterator, failures = answer.next_shard_iterator, 0
        except KclError as error:
            failures = _wait_or_raise(error, failures, stop)
        else:
            return


def _patiently(call: Callable[[], Result], stop: StopSignal) -> Result:
    """Repeat ``call`` while it fails with what may pass."""
    failures = 0
    while True:
        try:
            return call()
        except KclError as error:
            failures = _wait_or_raise(error, failures, stop)


def _wait_or_raise(error: KclError, failures: int, stop: StopSignal) -> int:
    """Wait before a repetition; return how many failures in a row there were."""
    if not error.retryable or failures >= _FAILURES_IN_A_ROW or stop.wait(_PAUSE):
        raise error
    return failures + 1


def _timestamp(position: str, text: str | None) -> datetime | None:
    if (position == "AT_TIMESTAMP") != (text is not None):
        raise ConfigurationError(
            f"{text!r} does not go with startingPosition {position}",
            setting="startingTimestamp",
            next_step="give it with AT_TIMESTAMP, and only then",
        )
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            str(error), setting="startingTimestamp", next_step="write it like 2026-11-21T10:00:00Z"
        ) from error
    if moment.tzinfo is None:
        raise ConfigurationError(
            f"{text!r} has no time zone", setting="startingTimestamp", next_step="write it like 2026-11-21T10:00:00Z"
        )
    return moment
