"""Kinesis's quotas per shard, as token buckets. Off unless a test or user switches them on."""

from dataclasses import dataclass, field

READ_CALLS_PER_SECOND = 5
READ_BYTES_PER_SECOND = 2 * 1024 * 1024
WRITE_RECORDS_PER_SECOND = 1000
WRITE_BYTES_PER_SECOND = 1024 * 1024


@dataclass(slots=True)
class Bucket:
    """Tokens that refill at ``rate`` per second up to one second's worth; may be overdrawn once."""

    rate: float
    tokens: float
    filled: int

    def refill(self, now: int) -> float:
        """Return the tokens at ``now``, epoch milliseconds."""
        self.tokens = min(self.rate, self.tokens + (now - self.filled) / 1000 * self.rate)
        self.filled = now
        return self.tokens


@dataclass(slots=True)
class Quotas:
    """The buckets of every shard that was used while the quotas were on."""

    on: bool = False
    _buckets: dict[tuple[str, int, str], Bucket] = field(default_factory=dict)

    def switch(self, *, on: bool) -> None:
        """Switch all quotas on or off; every bucket starts full."""
        self.on = on
        self._buckets.clear()

    def may_read(self, stream: str, shard: int, now: int) -> str | None:
        """Count a GetRecords call; return why it is refused, if it is.

        A read that exceeds 2 MiB is given, and the calls of the next seconds are refused, as AWS does.
        """
        if not self.on:
            return None
        calls = self._bucket(stream, shard, "calls", READ_CALLS_PER_SECOND, now)
        read = self._bucket(stream, shard, "read", READ_BYTES_PER_SECOND, now)
        if calls.refill(now) < 1:
            return "Rate exceeded: 5 GetRecords calls per second and shard"
        if read.refill(now) <= 0:
            return "Rate exceeded: 2 MiB read per second and shard"
        calls.tokens -= 1
        return None

    def was_read(self, stream: str, shard: int, size: int, now: int) -> None:
        """Count the bytes of an answer."""
        if self.on:
            self._bucket(stream, shard, "read", READ_BYTES_PER_SECOND, now).tokens -= size

    def may_write(self, stream: str, shard: int, size: int, now: int) -> str | None:
        """Count a record of ``size`` bytes; return why it is refused, if it is."""
        if not self.on:
            return None
        records = self._bucket(stream, shard, "records", WRITE_RECORDS_PER_SECOND, now)
        written = self._bucket(stream, shard, "written", WRITE_BYTES_PER_SECOND, now)
        # A record of over 1 MiB must pass some time: it needs a full bucket, and overdraws it.
        if records.refill(now) < 1 or written.refill(now) < min(size, WRITE_BYTES_PER_SECOND):
            return "Rate exceeded: 1 MiB or 1000 records written per second and shard"
        records.tokens -= 1
        written.tokens -= size
        return None

    def _bucket(self, stream: str, shard: int, kind: str, rate: float, now: int) -> Bucket:
        return self._buckets.setdefault((stream, shard, kind), Bucket(rate, rate, now))
