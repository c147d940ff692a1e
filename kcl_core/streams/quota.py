"""How often and how much one shard may be read: token buckets, as values. Pure.

The quotas are Kinesis's (developer guide, "Quotas and limits"): a shard gives five GetRecords answers and 2 MiB a
second to all its polling readers together. An answer may hold up to 10 MiB; calls are then refused until the shard
has made up for it. Enhanced fan-out has its own.
"""

from dataclasses import dataclass, replace
from typing import Self

CALLS_PER_SECOND = 5.0
BYTES_PER_SECOND = 2.0 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Tokens that come back at a rate, up to one second's worth; may be overdrawn.

    Attributes:
        rate: tokens per second, and the most that it holds.
        tokens: at the time ``since``; negative after an overdraft.
        since: monotonic seconds.
    """

    rate: float
    tokens: float
    since: float

    @classmethod
    def full(cls, rate: float, now: float) -> Self:
        """Return a bucket that nothing was taken from lately."""
        return cls(rate, rate, now)

    def at(self, now: float) -> Self:
        """Return the bucket as time has filled it; time that goes back fills nothing."""
        passed = max(0.0, now - self.since)
        return replace(self, tokens=min(self.rate, self.tokens + passed * self.rate), since=max(now, self.since))

    def take(self, tokens: float, now: float) -> Self:
        """Return the bucket after ``tokens`` were used, whether it had them or not."""
        filled = self.at(now)
        return replace(filled, tokens=filled.tokens - tokens)

    def wait(self, tokens: float, now: float) -> float:
        """Return the seconds until it has ``tokens``, of which it must be able to hold so many; 0.0 if it has."""
        return max(0.0, tokens - self.at(now).tokens) / self.rate


@dataclass(frozen=True, slots=True)
class ReadQuota:
    """What one reader knows of one shard's quota. Others who read the shard use it up, too: see `refused`.

    Attributes:
        calls: one token is one GetRecords call.
        volume: one token is one byte of data and partition keys.
    """

    calls: TokenBucket
    volume: TokenBucket

    @classmethod
    def full(cls, now: float) -> Self:
        """Return the quota of a shard that was not read within the last second; ``now`` in monotonic seconds."""
        return cls(TokenBucket.full(CALLS_PER_SECOND, now), TokenBucket.full(BYTES_PER_SECOND, now))

    def wait(self, now: float) -> float:
        """Return the seconds until a call is not refused; 0.0 if it may be made now.

        The size of the answer is not known before, so that one byte left is enough to call.
        """
        return max(self.calls.wait(1.0, now), self.volume.wait(1.0, now))

    def read(self, size: int, now: float) -> Self:
        """Return the quota after an answer with ``size`` bytes."""
        return replace(self, calls=self.calls.take(1.0, now), volume=self.volume.take(float(size), now))

    def refused(self, now: float) -> Self:
        """Return the quota after a throttled call: others have used it up, so that a whole second is to be waited."""
        return replace(
            self,
            calls=replace(self.calls.at(now), tokens=1.0 - self.calls.rate),
            volume=replace(self.volume.at(now), tokens=min(0.0, self.volume.at(now).tokens)),
        )
