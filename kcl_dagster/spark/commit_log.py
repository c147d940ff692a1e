"""What a commit of the table says of itself in the table's log: who brought which ranges."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from kcl_core.leases.position import ExtendedSequenceNumber

LOG_KEY = "kcl"
"""Key of our JSON text in a Delta commit's ``commitInfo``."""

_FOLDER = "_delta_log"
_ENTRY_NAME = re.compile(r"(\d{20})\.json")

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


class CommitLog:
    """The log's own files. `deltalake.DeltaTable.history` cannot be used: it gives no version numbers.

    It counts down from the version that was loaded, but begins at the newest one of the moment.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str]) -> None:
        self._files = fs.PyFileSystem(DeltaStorageHandler(location, dict(storage_options)))

    def first_version(self) -> int:
        """Return the oldest version whose entry is still there."""
        entries = self._files.get_file_info(fs.FileSelector(_FOLDER))
        names = (_ENTRY_NAME.fullmatch(entry.base_name) for entry in entries)
        return min(int(name[1]) for name in names if name)

    def read_from(self, version: int) -> Iterator[TableCommit]:
        """Yield the commits from ``version`` on, until the present end of the log.

        Commits that say nothing of themselves (no ``commitInfo``; Delta allows it) are left out.
        """
        while (text := self._read(version)) is not None:
            actions = (msgspec.json.decode(line) for line in text.splitlines() if line.strip())
            info = next((action["commitInfo"] for action in actions if "commitInfo" in action), None)
            if info is not None:
                yield _decode_commit(version, info)
            version += 1

    def _read(self, version: int) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{_FOLDER}/{version:020}.json") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None


def _decode_commit(version: int, info: dict[str, Any]) -> TableCommit:
    text = info.get(LOG_KEY)
    return TableCommit(
        version,
        _EPOCH + timedelta(milliseconds=info.get("timestamp", 0)),
        info.get("operation", ""),
        None if text is None else msgspec.json.decode(text, type=CommitNote),
    )
