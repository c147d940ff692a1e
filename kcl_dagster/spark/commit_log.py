"""What a commit of the table says of itself in the table's log: who brought which ranges."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kcl_core.leases.position import ExtendedSequenceNumber

LOG_KEY = "kcl"
"""Key of our JSON text in a Delta commit's ``commitInfo``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRange:
    """What one commit brought of one lease.

    Attributes:
        number: the lease's transaction; None if only ``reached`` moved.
        start: excluded.
        end: included.
        rows: user records.
        data_bytes: bytes of their data.
        files: data files.
        first_arrival: aware UTC, least; None without a row.
        last_arrival: aware UTC, greatest; None without a row.
        reached: arrival time below which nothing was left behind, aware UTC; None if the read could not tell.
        shard_end: whether the shard is closed and nothing follows ``end``.
        children: ids of the shards that continue it; only at its end.
        lease_counter: of the lease when the batch was prepared.
    """

    lease_key: str
    shard_id: str
    number: int | None
    start: ExtendedSequenceNumber
    end: ExtendedSequenceNumber
    rows: int = 0
    data_bytes: int = 0
    files: int = 0
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None
    reached: datetime | None = None
    shard_end: bool = False
    children: tuple[str, ...] = ()
    lease_counter: int = 0


@dataclass(frozen=True, slots=True)
class Fence:
    """An empty transaction: no batch of the lease up to ``number`` can be committed any more."""

    lease_key: str
    number: int


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What is stored with a commit.

    Attributes:
        fingerprint: tells this commit from every other one of the table.
    """

    worker_id: str
    fingerprint: str
    ranges: tuple[CommittedRange, ...] = ()
    fences: tuple[Fence, ...] = ()


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One version of the table.

    Attributes:
        timestamp: when it was written, by the writer's clock, aware UTC.
        operation: Delta's name of it: WRITE, OPTIMIZE, CREATE TABLE.
        note: what we stored with it; None if the commit is not of a worker, such as a compaction.
    """

    version: int
    timestamp: datetime
    operation: str
    note: CommitNote | None

    @property
    def worker_id(self) -> str | None:
        """Who committed it; None if no worker did."""
        return None if self.note is None else self.note.worker_id

    @property
    def ranges(self) -> tuple[CommittedRange, ...]:
        """What it brought, by lease."""
        return () if self.note is None else self.note.ranges


def encode_note(note: CommitNote) -> str:
    """Return the note as JSON."""
    return msgspec.json.encode(note).decode()


def decode_commit(info: dict[str, Any]) -> TableCommit:
    """Return one entry of `deltalake.DeltaTable.history`."""
    text = info.get(LOG_KEY)
    return TableCommit(
        info["version"],
        _EPOCH + timedelta(milliseconds=info["timestamp"]),
        info["operation"],
        None if text is None else msgspec.json.decode(text, type=CommitNote),
    )
