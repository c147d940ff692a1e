"""What became of every row: the table's own rows against the producer's own ledger. Pure, but for reading the files."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import pyarrow.dataset as ds

from kcl_core.streams.api import Shard
from kcl_dagster.demo.ledger import Ledger, RowRange, ranges_of
from kcl_dagster.spark.commit_log import TableCommit
from kcl_dagster.spark.rows import FILE_SCHEMA
from kcl_dagster.spark.windows import Window

_EXAMPLES = 5
_COLUMNS = ["data", "shard_id", "sequence_number", "sub_sequence_number"]


class LandedRow(NamedTuple):
    """One row of the table.

    Attributes:
        number: the row number that the producer gave it; None if the payload has none.
    """

    number: int | None
    shard_id: str
    sequence_number: str
    sub_sequence_number: int


class _Payload(msgspec.Struct):
    row: int


@dataclass(frozen=True, slots=True)
class Kill:
    """A worker that was killed without warning.

    Attributes:
        at: aware UTC.
    """

    worker_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class WindowCount:
    """One window of the table.

    Attributes:
        partition_key: the window's name in Dagster.
        rows: user records in it.
        computed: whether the downstream asset was computed on it, which it is once the window is closed.
    """

    partition_key: str
    rows: int
    computed: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What one snapshot of the table holds.

    Attributes:
        version: of the snapshot.
        rows: all of its rows, in any order.
        commits: its history, oldest first.
        windows: in order of time.
    """

    version: int
    rows: Sequence[LandedRow]
    commits: Sequence[TableCommit]
    windows: tuple[WindowCount, ...]


@dataclass(frozen=True, slots=True)
class ShardCount:
    """Rows of one shard.

    Attributes:
        acknowledged: by Kinesis to the producer.
        landed: rows of the table that were read from this shard, duplicates included.
        misplaced: of those, rows that Kinesis had acknowledged to be in other shards only.
    """

    shard_id: str
    acknowledged: int
    landed: int
    misplaced: int


@dataclass(frozen=True, slots=True)
class LeaseMove:
    """A change of the worker that commits a shard's records.

    Attributes:
        source: worker id of the last one that had committed records of it.
        target: worker id of the one that went on.
        at: of the target's first commit with records, aware UTC.
        version: of the table with that commit.
        seconds_after_kill: from the kill of ``source`` to that commit; None if it was not killed before.
    """

    lease_key: str
    source: str
    target: str
    at: datetime
    version: int
    seconds_after_kill: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The demo's result.

    Attributes:
        planned: rows that the producer was to send; None if its ledger has no end.
        sent: distinct rows that Kinesis acknowledged.
        aggregated: rows of them that travelled within KPL aggregates; None if the ledger has no end.
        landed: rows of the table.
        duplicates: rows of the table beyond the first of each row number.
        missing: acknowledged rows that are not in the table.
        missing_ranges: the first few of them.
        unexpected: row numbers in the table that were never acknowledged.
        unreadable: rows of the table without a row number.
        ledger_complete: whether the producer came to its end, and its totals agree with its lines.
        moves: changes of owner, oldest first.
        kill: the worker killed on purpose, if one was.
        stream_shards: as Kinesis lists them, for the family tree.
        commits: versions of the table with records.
        places: where to look next, by what is there.
    """

    stream: str
    planned: int | None
    sent: int
    aggregated: int | None
    landed: int
    duplicates: int
    missing: int
    missing_ranges: tuple[RowRange, ...]
    unexpected: int
    unreadable: int
    ledger_complete: bool
    shards: tuple[ShardCount, ...]
    moves: tuple[LeaseMove, ...]
    kill: Kill | None
    stream_shards: tuple[Shard, ...]
    table_version: int
    commits: int
    windows: tuple[WindowCount, ...]
    places: Mapping[str, str]

    @property
    def exactly_once(self) -> bool:
        """Whether all rows were sent and each is in the table once, from the shard it went to, and nothing else is."""
        wrong = self.duplicates + self.missing + self.unexpected + self.unreadable + self.misplaced
        return self.ledger_complete and self.sent > 0 and self.landed == self.sent and wrong == 0

    @property
    def misplaced(self) -> int:
        """Rows that the table has from another shard than Kinesis had acknowledged."""
        return sum(shard.misplaced for shard in self.shards)

    @property
    def recovery_seconds(self) -> float | None:
        """From the kill to the first record that a new owner of one of the dead worker's leases committed."""
        times = [move.seconds_after_kill for move in self.moves if move.seconds_after_kill is not None]
        return min(times, default=None)


def read_landed(files: Iterable[str]) -> list[LandedRow]:
    """Read the rows of a snapshot's data files.

    Args:
        files: absolute paths of Parquet files, as `TableSnapshot.files` gives them.
    """
    dataset = ds.dataset(list(files), schema=FILE_SCHEMA, format="parquet")
    rows: list[LandedRow] = []
    for batch in dataset.to_batches(columns=_COLUMNS):
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in _COLUMNS]
        rows.extend(LandedRow(_row_number(data), *place) for data, *place in zip(*columns, strict=True))
    return rows


def count_windows(rows_by_window: Mapping[Window, int], computed: Collection[str]) -> tuple[WindowCount, ...]:
    """Return the windows in order of time.

    Args:
        rows_by_window: `TableSnapshot.rows_by_window`.
        computed: partition keys that the downstream asset was computed on.
    """
    return tuple(
        WindowCount(window.partition_key, rows, window.partition_key in computed)
        for window, rows in sorted(rows_by_window.items())
    )


def summarize(
    ledger: Ledger,
    table: TableFacts,
    *,
    stream: str,
    shards: tuple[Shard, ...],
    kill: Kill | None = None,
    places: Mapping[str, str] | None = None,
) -> Summary:
    """Compare the table with the ledger, row by row.

    Args:
        ledger: the producer's count.
        table: what is there.
        stream: its name.
        shards: its listing.
        kill: the worker killed on purpose, if one was.
        places: where to look next, by what is there.
    """
    sent = frozenset(chain.from_iterable(ledger.rows.values()))
    times = Counter(row.number for row in table.rows if row.number is not None)
    missing = sent - times.keys()
    return Summary(
        stream=stream,
        planned=ledger.totals.planned if ledger.totals else None,
        sent=len(sent),
        aggregated=ledger.totals.aggregated_rows if ledger.totals else None,
        landed=len(table.rows),
        duplicates=times.total() - len(times),
        missing=len(missing),
        missing_ranges=ranges_of(missing)[:_EXAMPLES],
        unexpected=len(times.keys() - sent),
        unreadable=len(table.rows) - times.total(),
        ledger_complete=ledger.is_complete,
        shards=_count_shards(ledger, table.rows),
        moves=find_moves(table.commits, kill),
        kill=kill,
        stream_shards=shards,
        table_version=table.version,
        commits=sum(any(each.rows for each in commit.ranges) for commit in table.commits),
        windows=table.windows,
        places=dict(places or {}),
    )


def find_moves(commits: Iterable[TableCommit], kill: Kill | None = None) -> tuple[LeaseMove, ...]:
    """Return the changes of owner that the table's history shows; commits without records show none.

    Args:
        commits: oldest first.
        kill: the worker killed on purpose, if one was.
    """
    owners: dict[str, str] = {}
    moves: list[LeaseMove] = []
    for commit in commits:
        worker = commit.worker_id
        if worker is None:
            continue
        for lease_key in sorted(each.lease_key for each in commit.ranges if each.rows):
            before = owners.get(lease_key, worker)
            owners[lease_key] = worker
            if before != worker:
                killed = kill is not None and before == kill.worker_id and commit.timestamp >= kill.at
                seconds = (commit.timestamp - kill.at).total_seconds() if kill and killed else None
                moves.append(LeaseMove(lease_key, before, worker, commit.timestamp, commit.version, seconds))
    return tuple(moves)


def _count_shards(ledger: Ledger, rows: Iterable[LandedRow]) -> tuple[ShardCount, ...]:
    landed: Counter[str] = Counter()
    misplaced: Counter[str] = Counter()
    sent = frozenset(chain.from_iterable(ledger.rows.values()))
    for row in rows:
        landed[row.shard_id] += 1
        if row.number in sent and row.number not in ledger.rows.get(row.shard_id, frozenset()):
            misplaced[row.shard_id] += 1
    return tuple(
        ShardCount(shard_id, len(ledger.rows.get(shard_id, ())), landed[shard_id], misplaced[shard_id])
        for shard_id in sorted(ledger.rows.keys() | landed.keys())
    )


_DECODER = msgspec.json.Decoder(_Payload)


def _row_number(data: bytes) -> int | None:
    try:
        return _DECODER.decode(data).row
    except msgspec.DecodeError:
        return None
