"""What a Spark task reports of each lease it read: the end it reached and the files it wrote."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import ChildShard
from kcl_dagster.spark.windows import Window

MANIFEST_DDL = "lease_key string, manifest binary"
"""Spark's view of a manifest row. The manifest itself is JSON: nested rows would cost the JVM more than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileManifest:
    """One data file, complete and closed, not yet part of the table.

    Attributes:
        path: relative to the table's root, in hive layout.
        window: all its rows arrived in it.
        size: bytes on disk.
        rows: user records in it.
        data_bytes: bytes of the user records' data.
        lowest_sequence_number: least in text order, which is what the table's statistics compare.
        highest_sequence_number: greatest in text order.
        first_arrival: aware UTC, least.
        last_arrival: aware UTC, greatest.
        written: aware UTC.
    """

    path: str
    window: Window
    size: int
    rows: int
    data_bytes: int
    lowest_sequence_number: str
    highest_sequence_number: str
    first_arrival: datetime
    last_arrival: datetime
    written: datetime


@dataclass(frozen=True, slots=True)
class FetchProblem:
    """Why a lease was read less far than planned.

    Attributes:
        kind: name of the error's class.
        message: what the error says.
        retryable: whether the same read may succeed later.
    """

    kind: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardManifest:
    """What was read of one lease in one micro-batch.

    Attributes:
        start: where the read began; excluded.
        end: everything up to here is in ``files``; equals ``start`` if nothing was read.
        shard_end: whether the shard is closed and nothing follows ``end``.
        children: shards that continue it; only at its end.
        at_tip: whether the last answer reached the newest record of an open shard.
        millis_behind_latest: age of ``end`` against the tip; None if no answer came.
        records: Kinesis records read; a KPL aggregate counts once.
        server_time: Kinesis's clock at the last answer, aware UTC; None if no answer came.
        last_arrival: arrival time of the last Kinesis record read, aware UTC; None if none was.
        next_iterator: continues exactly after ``end``; None if there is none.
        files: data files, in no particular order.
        problem: why reading stopped early, if it did.
    """

    lease_key: str
    shard_id: str
    start: ExtendedSequenceNumber
    end: ExtendedSequenceNumber
    shard_end: bool = False
    children: tuple[ChildShard, ...] = ()
    at_tip: bool = False
    millis_behind_latest: int | None = None
    records: int = 0
    server_time: datetime | None = None
    last_arrival: datetime | None = None
    next_iterator: str | None = None
    files: tuple[FileManifest, ...] = ()
    problem: FetchProblem | None = None

    @property
    def rows(self) -> int:
        """User records written."""
        return sum(file.rows for file in self.files)

    @property
    def data_bytes(self) -> int:
        """Bytes of the user records' data."""
        return sum(file.data_bytes for file in self.files)

    @property
    def advanced(self) -> bool:
        """Whether the position moved, so that there is something to commit and to checkpoint."""
        return self.end != self.start

    @property
    def reached(self) -> datetime | None:
        """Arrival time below which this read left nothing behind, aware UTC; None if it cannot tell.

        At the tip of an open shard that is Kinesis's own time. At the end of a closed one it is not: the shard's
        children may have taken records since it was closed.
        """
        if self.at_tip and not self.shard_end:
            return self.server_time
        return self.last_arrival


def encode_manifest(manifest: ShardManifest) -> bytes:
    """Return the manifest as JSON."""
    return msgspec.json.encode(manifest)


def decode_manifest(text: bytes) -> ShardManifest:
    """Return the manifest that `encode_manifest` wrote."""
    return msgspec.json.decode(text, type=ShardManifest)
