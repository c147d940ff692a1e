"""Time that moves only when told to."""

from datetime import UTC, datetime, timedelta


class VirtualClock:
    """A `kcl_core.clock.Clock` for tests and simulations."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """Return the seconds that were advanced so far."""
        return self._elapsed

    def wall(self) -> datetime:
        """Return the start plus the seconds that were advanced."""
        return self._start + timedelta(seconds=self._elapsed)

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        if seconds < 0:
            message = f"time goes forward only, not by {seconds} s"
            raise ValueError(message)
        self._elapsed += seconds
