"""The producer's own count: which rows Kinesis acknowledged, written before the consumers are asked anything."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

RowRange = tuple[int, int]
"""First and last row number, both included."""


class ShardEntry(msgspec.Struct, frozen=True):
    """What one put brought into one shard.

    Attributes:
        first: least sequence number.
        last: greatest sequence number.
        records: Kinesis records; an aggregate counts once.
        rows: numbers of the rows, ascending.
    """

    first: str
    last: str
    records: int
    rows: tuple[RowRange, ...]


class PutEntry(msgspec.Struct, frozen=True, tag="put"):
    """One acknowledged put: everything in it is in the stream.

    Attributes:
        number: of the put, from 0.
        at: aware UTC, by the producer's clock.
        shards: by shard id.
    """

    number: int
    at: datetime
    shards: dict[str, ShardEntry]


class TotalsEntry(msgspec.Struct, frozen=True, tag="totals"):
    """The ledger's last line; a ledger without one is of a producer that was cut off.

    Attributes:
        rows: acknowledged rows.
        planned: rows that the producer was to send; None if it had no end.
        records: Kinesis records, aggregates counted once.
        aggregates: Kinesis records that are KPL aggregates.
        aggregated_rows: rows within them.
        puts: acknowledged puts.
        repeated: Kinesis records that were refused and sent again.
        shards: acknowledged rows by shard id.
    """

    rows: int = 0
    planned: int | None = None
    records: int = 0
    aggregates: int = 0
    aggregated_rows: int = 0
    puts: int = 0
    repeated: int = 0
    shards: dict[str, int] = {}


_DECODER = msgspec.json.Decoder(PutEntry | TotalsEntry)


class Acknowledgement(msgspec.Struct, frozen=True):
    """Where Kinesis put one record, and which rows are in it."""

    shard_id: str
    sequence_number: str
    rows: tuple[int, ...]


class LedgerWriter:
    """Appends to a new ledger file, each line written through before the next put starts.

    Raises:
        FileExistsError: there is a ledger already; two producers' counts are never mixed.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._puts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def put(self, at: datetime, acknowledged: Sequence[Acknowledgement]) -> None:
        """Record one put."""
        by_shard: defaultdict[str, list[Acknowledgement]] = defaultdict(list)
        for each in acknowledged:
            by_shard[each.shard_id].append(each)
        self._append(PutEntry(self._puts, at, {shard: _shard_entry(of) for shard, of in sorted(by_shard.items())}))
        self._puts += 1

    def totals(self, totals: TotalsEntry) -> None:
        """Record the end."""
        self._append(totals)

    def _append(self, entry: PutEntry | TotalsEntry) -> None:
        self._file.write(msgspec.json.encode(entry) + b"\n")
        self._file.flush()


class Ledger(msgspec.Struct, frozen=True):
    """What a ledger file says.

    Attributes:
        rows: acknowledged row numbers by shard id.
        first_put: aware UTC; None if nothing was acknowledged.
        last_put: aware UTC; None if nothing was acknowledged.
        totals: the last line; None if the producer was cut off.
    """

    rows: dict[str, frozenset[int]]
    first_put: datetime | None
    last_put: datetime | None
    totals: TotalsEntry | None

    @property
    def is_complete(self) -> bool:
        """Whether the producer sent all that it was to send, and its totals agree with its lines."""
        totals = self.totals
        counts = {shard: len(rows) for shard, rows in self.rows.items()}
        return totals is not None and totals.planned in (None, totals.rows) and totals.shards == counts


def read_ledger(path: Path) -> Ledger:
    """Read a ledger, also while it is being written: a last line without its end is left out.

    Raises:
        OSError: there is none.
        msgspec.DecodeError: it is not a ledger.
    """
    rows: defaultdict[str, set[int]] = defaultdict(set)
    times: list[datetime] = []
    totals: TotalsEntry | None = None
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            entry = _DECODER.decode(line)
            if isinstance(entry, TotalsEntry):
                totals = entry
                continue
            times.append(entry.at)
            for shard_id, shard in entry.shards.items():
                rows[shard_id].update(numbers_of(shard.rows))
    acknowledged = {shard_id: frozenset(numbers) for shard_id, numbers in rows.items()}
    return Ledger(acknowledged, min(times, default=None), max(times, default=None), totals)


def ranges_of(numbers: Iterable[int]) -> tuple[RowRange, ...]:
    """Return the fewest ranges that hold exactly ``numbers``, ascending."""
    ranges: list[RowRange] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def numbers_of(ranges: Iterable[RowRange]) -> Iterator[int]:
    """Return the numbers that ``ranges`` hold."""
    for first, last in ranges:
        yield from range(first, last + 1)


def _shard_entry(acknowledged: Sequence[Acknowledgement]) -> ShardEntry:
    # Sequence numbers are compared as numbers: their text may differ in length.
    order = sorted(acknowledged, key=lambda each: int(each.sequence_number))
    return ShardEntry(
        order[0].sequence_number,
        order[-1].sequence_number,
        len(order),
        ranges_of(number for each in order for number in each.rows),
    )
