"""Throughput of each lease: bytes delivered, as a moving average."""

from collections import deque

from kcl_core.clock import Clock
from kcl_core.runtime import new_mutex

ALPHA = 0.5
"""Weight of the newest rate (KCL: LeaseStatsRecorder)."""

_BYTES_PER_KIB = 1024


class ThroughputMeter:
    """Sums what was delivered within one renewal period and averages over periods (KCL: LeaseStatsRecorder).

    Thread-safe: delivery adds in one thread, renewal asks in another.
    """

    def __init__(self, clock: Clock, period_seconds: float) -> None:
        """Start without a sample.

        Args:
            clock: for the age of samples.
            period_seconds: pause between two calls of `rate` of one lease.
        """
        self._clock = clock
        self._period = period_seconds
        self._samples: dict[str, deque[tuple[float, int]]] = {}
        self._averages: dict[str, float] = {}
        self._mutex = new_mutex()

    def add(self, lease_key: str, size: int) -> None:
        """Note that ``size`` bytes of the lease's user records were delivered now."""
        with self._mutex:
            self._samples.setdefault(lease_key, deque()).append((self._clock.monotonic(), size))

    def rate(self, lease_key: str) -> float | None:
        """Return KiB/s after one more period; None if nothing was ever delivered. Decays once nothing comes."""
        with self._mutex:
            samples = self._samples.get(lease_key)
            if samples is None:
                return None
            oldest = self._clock.monotonic() - self._period
            while samples and samples[0][0] <= oldest:
                samples.popleft()
            latest = sum(size for _, size in samples) / _BYTES_PER_KIB / self._period
            average = self._averages.get(lease_key)
            average = latest if average is None else ALPHA * latest + (1 - ALPHA) * average
            self._averages[lease_key] = average
            return average

    def forget(self, lease_key: str) -> None:
        """Drop the lease's samples, after it was given up."""
        with self._mutex:
            self._samples.pop(lease_key, None)
            self._averages.pop(lease_key, None)
