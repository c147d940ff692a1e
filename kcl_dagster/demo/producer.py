"""Writes rows to a stream as fast as planned, part of them as KPL aggregates, and keeps the ledger."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kcl_core.clock import Clock
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import Shard
from kcl_core.streams.kpl import AggregateEntry, aggregate, hash_key
from kcl_dagster.demo.aws_steps import Split, list_shards, split_widest
from kcl_dagster.demo.ledger import Acknowledgement, LedgerWriter, TotalsEntry

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import PutRecordsResultEntryTypeDef

# PutRecords: at most 500 records and 5 MiB with their keys (the limit of old regions, which all keep).
MAX_PUT_RECORDS = 500
MAX_PUT_BYTES = 5 * 1024 * 1024
# KPL: AggregationMaxSize.
MAX_AGGREGATE_BYTES = 51_200

TICK = timedelta(milliseconds=250)
"""How often due rows are put."""
BACK_OFF = timedelta(milliseconds=100)
LONGEST_BACK_OFF = timedelta(seconds=2)


class Row(NamedTuple):
    """One row to send.

    Attributes:
        number: its row number, unique within the replay.
        through_kpl: whether it travels within an aggregate.
    """

    number: int
    partition_key: str
    data: bytes
    through_kpl: bool


@dataclass(frozen=True, slots=True)
class Envelope:
    """One Kinesis record to put.

    Attributes:
        rows: what it carries.
        expected_shard: where an aggregate must arrive for its rows to be read; None for a plain record.
    """

    rows: tuple[Row, ...]
    partition_key: str
    data: bytes
    expected_shard: str | None = None

    @property
    def size(self) -> int:
        """Bytes that count towards the limits of a put."""
        return len(self.data) + len(self.partition_key.encode())


class ShardMap:
    """Which open shard takes a hash key."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._shards = sorted((s for s in shards if s.is_open), key=lambda shard: shard.starting_hash_key)
        self._starts = [shard.starting_hash_key for shard in self._shards]

    def shard_of(self, partition_key: str) -> str:
        """Return the id of the shard that ``partition_key`` goes to."""
        return self._shards[bisect_right(self._starts, hash_key(partition_key)) - 1].shard_id


def pack(rows: Sequence[Row], shards: ShardMap) -> list[Envelope]:
    """Return the Kinesis records that carry ``rows``: plain ones, and aggregates of rows of the same shard.

    Args:
        rows: in the order in which they are sent; each shard's rows keep it among the plain and among the
            aggregated ones.
        shards: as they are now. Consumers drop an aggregate that holds rows of another shard.
    """
    plain = [Envelope((row,), row.partition_key, row.data) for row in rows if not row.through_kpl]
    by_shard: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.through_kpl:
            by_shard[shards.shard_of(row.partition_key)].append(row)
    return plain + [
        Envelope(group, group[0].partition_key, aggregate(_entries(group)), expected_shard=shard_id)
        for shard_id, of_shard in sorted(by_shard.items())
        for group in _groups(of_shard)
    ]


def puts_of(envelopes: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """Cut ``envelopes`` into puts that keep to PutRecords' limits."""
    put: list[Envelope] = []
    size = 0
    for envelope in envelopes:
        if put and (len(put) == MAX_PUT_RECORDS or size + envelope.size > MAX_PUT_BYTES):
            yield put
            put, size = [], 0
        put.append(envelope)
        size += envelope.size
    if put:
        yield put


class Producer:
    """Puts rows and repeats exactly what Kinesis refused; a row is in the ledger once it is in the stream."""

    def __init__(
        self, client: "KinesisClient", stream: str, ledger: LedgerWriter, clock: Clock, stop: StopSignal
    ) -> None:
        self._client = client
        self._stream = stream
        self._ledger = ledger
        self._clock = clock
        self._stop = stop
        self._shards = ShardMap(list_shards(client, stream))
        self._sent: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    @property
    def sent(self) -> int:
        """Acknowledged rows."""
        return self._sent.total()

    def send(self, rows: Sequence[Row]) -> None:
        """Put ``rows`` until all are acknowledged; the caller's stop signal is heeded between puts that fail.

        Raises:
            botocore.exceptions.ClientError: Kinesis refused a put as a whole.
            botocore.exceptions.BotoCoreError: Kinesis did not answer. Whether the put arrived is not known then.
        """
        waiting = list(rows)
        while waiting and not self._stop.is_set():
            misplaced: list[Row] = []
            for put in puts_of(pack(waiting, self._shards)):
                misplaced += self._put(put)
            if misplaced:
                self.refresh_shards()
            waiting = misplaced

    def split(self) -> Split:
        """Split the widest shard, wait until that is done, and group aggregates by the new shards from now on."""
        split = split_widest(self._client, self._stream, self._clock, self._stop)
        self.refresh_shards()
        return split

    def refresh_shards(self) -> None:
        """Read the shard map again."""
        self._shards = ShardMap(list_shards(self._client, self._stream))

    def finish(self, planned: int | None) -> TotalsEntry:
        """Write the ledger's last line and return it.

        Args:
            planned: rows that were to be sent; None if there was no end.
        """
        totals = TotalsEntry(
            rows=self.sent,
            planned=planned,
            records=self._counts["records"],
            aggregates=self._counts["aggregates"],
            aggregated_rows=self._counts["aggregated_rows"],
            puts=self._counts["puts"],
            repeated=self._counts["repeated"],
            shards=dict(sorted(self._sent.items())),
        )
        self._ledger.totals(totals)
        return totals

    def _put(self, waiting: list[Envelope]) -> list[Row]:
        """Put until nothing is refused; return the rows of aggregates that consumers will drop."""
        misplaced: list[Row] = []
        pause = BACK_OFF
        while waiting:
            answer = self._client.put_records(
                StreamName=self._stream,
                Records=[{"Data": each.data, "PartitionKey": each.partition_key} for each in waiting],
            )
            pairs = list(zip(waiting, answer["Records"], strict=True))
            misplaced += self._acknowledge([(each, result) for each, result in pairs if "SequenceNumber" in result])
            waiting = [each for each, result in pairs if "SequenceNumber" not in result]
            self._counts["repeated"] += len(waiting)
            if waiting and self._stop.wait(pause):
                break
            pause = min(2 * pause, LONGEST_BACK_OFF)
        return misplaced

    def _acknowledge(self, stored: list[tuple[Envelope, "PutRecordsResultEntryTypeDef"]]) -> list[Row]:
        misplaced: list[Row] = []
        acknowledged = []
        for envelope, result in stored:
            shard_id = result["ShardId"]
            if envelope.expected_shard not in (None, shard_id) and not self._fits(envelope, shard_id):
                misplaced += envelope.rows
                continue
            numbers = tuple(row.number for row in envelope.rows)
            acknowledged.append(Acknowledgement(shard_id, result["SequenceNumber"], numbers))
            self._sent[shard_id] += len(numbers)
            self._counts["records"] += 1
            if envelope.expected_shard is not None:
                self._counts["aggregates"] += 1
                self._counts["aggregated_rows"] += len(numbers)
        if acknowledged:
            self._ledger.put(self._clock.wall(), acknowledged)
            self._counts["puts"] += 1
        return misplaced

    def _fits(self, envelope: Envelope, shard_id: str) -> bool:
        """Whether all rows of an aggregate belong where it arrived: somebody else split or merged in between."""
        self.refresh_shards()
        return all(self._shards.shard_of(row.partition_key) == shard_id for row in envelope.rows)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rows are due when.

    Attributes:
        total: rows; None if there is no end.
        per_second: rows a second, above 0.
    """

    total: int | None
    per_second: float

    def due(self, elapsed_seconds: float) -> int:
        """Return how many rows should be sent by then, of all."""
        due = int(elapsed_seconds * self.per_second)
        return due if self.total is None else min(due, self.total)


def replay(
    producer: Producer, rows: Iterator[Row], pace: Pace, clock: Clock, stop: StopSignal, *, split_at: int | None = None
) -> Iterator[Split | int]:
    """Send ``rows`` at their pace; yield the rows sent so far after each step, and the split when it is done.

    Args:
        producer: sends them.
        rows: at least as many as the pace asks for.
        pace: their number and speed. Time lost, to a split say, is made up.
        clock: for the pace.
        stop: ends the replay early.
        split_at: rows after which a shard is split; None for no split.
    """
    began = clock.monotonic()
    taken = 0
    while not stop.is_set() and taken != pace.total:
        due = pace.due(clock.monotonic() - began)
        if split_at is not None and due >= split_at:
            due = split_at
        batch = list(islice(rows, max(0, due - taken)))
        taken += len(batch)
        producer.send(batch)
        yield producer.sent
        if taken == split_at:
            yield producer.split()
            split_at = None
        elif taken != pace.total:
            stop.wait(TICK)


def _entries(rows: Iterable[Row]) -> list[AggregateEntry]:
    return [AggregateEntry(row.partition_key, row.data) for row in rows]


def _groups(rows: Iterable[Row]) -> Iterator[tuple[Row, ...]]:
    group: list[Row] = []
    size = 0
    for row in rows:
        more = len(row.data) + len(row.partition_key.encode())
        if group and size + more > MAX_AGGREGATE_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(row)
        size += more
    if group:
        yield tuple(group)
