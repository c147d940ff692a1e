"""What this library asks of Kinesis, and the typed answers. Implemented over HTTP by `signed_http`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import msgspec

MAX_HASH_KEY = 2**128 - 1


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """How requests name a stream.

    Attributes:
        name: stream name.
        arn: full ARN, needed for streams of another account; sent together with the name when known.
    """

    name: str
    arn: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """DescribeStreamSummary, as far as it is used.

    Attributes:
        created: StreamCreationTimestamp; tells a stream from an earlier one of the same name.
        retention_hours: how long records are kept.
    """

    name: str
    arn: str
    status: Literal["CREATING", "DELETING", "ACTIVE", "UPDATING"]
    created: datetime
    retention_hours: int
    open_shard_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One shard of a listing.

    Attributes:
        starting_hash_key: first partition key hash, 0 .. 2**128 - 1.
        ending_hash_key: last partition key hash, included.
        starting_sequence_number: decimal digits.
        ending_sequence_number: decimal digits; None while the shard is open.
    """

    shard_id: str
    parent_shard_id: str | None = None
    adjacent_parent_shard_id: str | None = None
    starting_hash_key: int
    ending_hash_key: int
    starting_sequence_number: str
    ending_sequence_number: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether records may still be written to it."""
        return self.ending_sequence_number is None

    @property
    def parents(self) -> tuple[str, ...]:
        """Ids of the shards it continues: none, one (split) or two (merge)."""
        return tuple(p for p in (self.parent_shard_id, self.adjacent_parent_shard_id) if p is not None)


@dataclass(frozen=True, slots=True)
class ShardFilter:
    """ListShards' ShardFilter.

    Attributes:
        timestamp: for the two ``..._TIMESTAMP`` types only.
        shard_id: for AFTER_SHARD_ID only.
    """

    type: Literal[
        "AFTER_SHARD_ID", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST", "AT_TIMESTAMP", "FROM_TIMESTAMP"
    ]
    timestamp: datetime | None = None
    shard_id: str | None = None


@dataclass(frozen=True, slots=True)
class IteratorPosition:
    """Where a shard iterator starts.

    Attributes:
        sequence_number: for the two ``..._SEQUENCE_NUMBER`` types only.
        timestamp: for AT_TIMESTAMP only.
    """

    type: Literal["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"]
    sequence_number: str | None = None
    timestamp: datetime | None = None


class KinesisRecord(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """One record of a GetRecords answer, named as on the wire (SequenceNumber, Data, ...).

    Attributes:
        approximate_arrival_timestamp: epoch seconds, millisecond precision.
        data: decoded bytes; a KPL aggregate when several user records were packed into it.
    """

    sequence_number: str
    approximate_arrival_timestamp: float
    data: bytes
    partition_key: str
    encryption_type: str | None = None


@dataclass(frozen=True, slots=True)
class ChildShard:
    """A shard that continues the one just read to its end."""

    shard_id: str
    parent_shards: tuple[str, ...]
    starting_hash_key: int
    ending_hash_key: int


@dataclass(frozen=True, slots=True)
class GetRecordsAnswer:
    """One GetRecords answer.

    Attributes:
        next_shard_iterator: None at the end of a closed shard, and only there.
        millis_behind_latest: age of the read position against the tip, milliseconds; 0 at the tip.
        child_shards: at the end of a closed shard; empty before.
        server_time: Kinesis's own clock when it answered (HTTP Date, whole seconds, aware).
    """

    records: tuple[KinesisRecord, ...]
    next_shard_iterator: str | None
    millis_behind_latest: int
    child_shards: tuple[ChildShard, ...]
    server_time: datetime

    @property
    def at_shard_end(self) -> bool:
        """Whether the shard is closed and everything in it has been read."""
        return self.next_shard_iterator is None


class KinesisApi(Protocol):
    """Kinesis as the library sees it. All calls raise the typed errors of `kcl_core.errors`.

    StreamThrottledError, EndpointUnavailableError and StreamNotReadyError may be retried;
    StreamGoneError, AccessDeniedError and KinesisRequestError may not.
    """

    def describe_stream_summary(self, stream: StreamAddress) -> StreamSummary:
        """Describe the stream."""
        ...

    def list_shards(self, stream: StreamAddress, shard_filter: ShardFilter | None = None) -> tuple[Shard, ...]:
        """List all shards, over all pages."""
        ...

    def get_shard_iterator(self, stream: StreamAddress, shard_id: str, position: IteratorPosition) -> str:
        """Return an iterator, good for five minutes."""
        ...

    def get_records(self, stream: StreamAddress, shard_iterator: str, limit: int = 10_000) -> GetRecordsAnswer:
        """Read once.

        Raises:
            ExpiredIteratorError: get a new iterator and repeat.
        """
        ...
