"""Streams, shards and consumers: the state of the embedded Kinesis, and what resharding does to it."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from kcl_core.testing.kinesis.records import RecordLog
from kcl_core.testing.kinesis.sequence import ending_sequence_number, sequence_base, sequence_number, shard_id

Status = Literal["CREATING", "DELETING", "ACTIVE", "UPDATING"]
Mode = Literal["PROVISIONED", "ON_DEMAND"]
DEFAULT_RETENTION_HOURS = 24
DEFAULT_RECORD_KIB = 1024


@dataclass(slots=True, kw_only=True)
class Shard:
    """One shard and its records.

    Attributes:
        opened: epoch milliseconds, for the filters of ListShards.
        closed: epoch milliseconds of the reshard that ended it, above ``opened``; None while open.
        created: epoch milliseconds; its second is part of every sequence number.
        ending_sequence: set together with ``closed``.
    """

    number: int
    opened: int
    created: int
    low: int
    high: int
    parent: int | None = None
    adjacent_parent: int | None = None
    closed: int | None = None
    ending_sequence: int | None = None
    children: tuple[int, ...] = ()
    base: int = field(init=False)
    log: RecordLog = field(init=False)

    def __post_init__(self) -> None:
        self.base = sequence_base(self.number, self.created // 1000)
        self.log = RecordLog(self.base)

    @property
    def id(self) -> str:
        """Id as on the wire."""
        return shard_id(self.number)

    @property
    def parents(self) -> tuple[int, ...]:
        """Numbers of the shards it continues."""
        return tuple(p for p in (self.parent, self.adjacent_parent) if p is not None)

    @property
    def starting_sequence(self) -> int:
        """Below every record of this shard, above every record of its parents."""
        return sequence_number(self.base, 0, self.created // 1000)

    def sequence_before(self, position: int) -> int:
        """Return a number after which a reader continues at ``position``: the record's before it, or an equivalent."""
        if position <= self.log.first:
            return sequence_number(self.base, position, self.created // 1000)
        return self.log.sequence(position - 1)

    def close(self, now: int, children: tuple[int, ...]) -> None:
        """Take no further records; ``children`` continue it."""
        self.closed = now
        self.ending_sequence = ending_sequence_number(self.base, now // 1000)
        self.children = children

    def describe(self) -> dict[str, Any]:
        """Return it as ListShards does."""
        sequences = {"StartingSequenceNumber": str(self.starting_sequence)}
        if self.ending_sequence is not None:
            sequences["EndingSequenceNumber"] = str(self.ending_sequence)
        shard: dict[str, Any] = {"ShardId": self.id}
        if self.parent is not None:
            shard["ParentShardId"] = shard_id(self.parent)
        if self.adjacent_parent is not None:
            shard["AdjacentParentShardId"] = shard_id(self.adjacent_parent)
        return shard | {"HashKeyRange": self.hash_range(), "SequenceNumberRange": sequences}

    def hash_range(self) -> dict[str, str]:
        """Return the hash key range as on the wire."""
        return {"StartingHashKey": str(self.low), "EndingHashKey": str(self.high)}


@dataclass(slots=True, kw_only=True)
class Consumer:
    """A registered enhanced fan-out consumer.

    Attributes:
        created: epoch milliseconds; its second ends the ARN.
        active_at: epoch milliseconds; CREATING before.
    """

    name: str
    arn: str
    stream_arn: str
    created: int
    active_at: int

    def status(self, now: int) -> str:
        """Return CREATING or ACTIVE."""
        return "ACTIVE" if now >= self.active_at else "CREATING"

    def describe(self, now: int) -> dict[str, Any]:
        """Return it as ListStreamConsumers does."""
        return {
            "ConsumerName": self.name,
            "ConsumerARN": self.arn,
            "ConsumerStatus": self.status(now),
            "ConsumerCreationTimestamp": self.created / 1000,
        }


@dataclass(slots=True, kw_only=True)
class Stream:
    """One data stream.

    Attributes:
        shards: by number; those that expired are gone.
        due: epoch milliseconds at which ``then`` happens and the stream is ACTIVE; None while nothing is under way.
    """

    name: str
    arn: str
    created: int
    mode: Mode = "PROVISIONED"
    status: Status = "CREATING"
    retention_hours: int = DEFAULT_RETENTION_HOURS
    record_kib: int = DEFAULT_RECORD_KIB
    shards: dict[int, Shard] = field(default_factory=dict)
    next_number: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    due: int | None = None
    then: Callable[[int], None] | None = None
    _open: list[Shard] = field(default_factory=list)
    _lows: list[int] = field(default_factory=list)

    @property
    def horizon_millis(self) -> int:
        """How long records are kept."""
        return self.retention_hours * 3_600_000

    def open_shards(self) -> list[Shard]:
        """Return the shards that take records, by hash range."""
        return self._open

    def route(self, hash_key: int) -> Shard:
        """Return the open shard that ``hash_key`` belongs to."""
        return self._open[bisect_right(self._lows, hash_key) - 1]

    def add_shard(self, now: int, low: int, high: int, *parents: Shard) -> Shard:
        """Open a shard that continues ``parents``; the caller closes these and then calls `index`."""
        # A later second than its parents', so that its sequence numbers are above theirs.
        created = max([now, *(parent.created + 1000 for parent in parents)])
        ids = [*(parent.number for parent in parents), None, None]
        shard = Shard(
            number=self.next_number,
            opened=now,
            created=created,
            low=low,
            high=high,
            parent=ids[0],
            adjacent_parent=ids[1],
        )
        self.shards[shard.number] = shard
        self.next_number += 1
        return shard

    def index(self) -> None:
        """Bring the routing table up to date after shards were opened or closed."""
        self._open = sorted((s for s in self.shards.values() if s.closed is None), key=lambda s: s.low)
        self._lows = [shard.low for shard in self._open]

    def split(self, shard: Shard, at: int, now: int) -> None:
        """Close ``shard`` and open two, the second starting with hash key ``at``."""
        now = max(now, shard.opened + 1)
        first = self.add_shard(now, shard.low, at - 1, shard)
        second = self.add_shard(now, at, shard.high, shard)
        shard.close(now, (first.number, second.number))
        self.index()

    def merge(self, shard: Shard, other: Shard, now: int) -> None:
        """Close two adjacent shards and open one over both."""
        now = max(now, shard.opened + 1, other.opened + 1)
        child = self.add_shard(now, min(shard.low, other.low), max(shard.high, other.high), shard, other)
        shard.close(now, (child.number,))
        other.close(now, (child.number,))
        self.index()

    def begin(self, status: Status, due: int, then: Callable[[int], None]) -> None:
        """Enter ``status`` until ``due``; then ``then`` happens."""
        self.status, self.due, self.then = status, due, then

    def settle(self, now: int) -> None:
        """Do what is due at ``now``: end a change of state, drop records and shards past the retention."""
        if self.due is not None and now >= self.due and self.then is not None:
            then, self.due, self.then = self.then, None, None
            self.status = "ACTIVE"
            then(now)
        horizon = now - self.horizon_millis
        expired = [s.number for s in self.shards.values() if s.closed is not None and s.closed < horizon]
        for number in expired:
            del self.shards[number]
        for shard in self.shards.values():
            shard.log.trim(horizon)
