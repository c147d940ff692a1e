"""The server's time: the host's, plus what tests added."""

from kcl_core.clock import Clock, SystemClock


class MovableClock:
    """Seconds since the epoch, which tests may push forward but not back."""

    def __init__(self, base: Clock | None = None) -> None:
        self._base = base or SystemClock()
        self._start = self._base.wall().timestamp() - self._base.monotonic()
        self._offset = 0.0

    def now(self) -> float:
        """Return epoch seconds. Never goes back, whatever the host's wall clock does."""
        return self._start + self._base.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once."""
        if seconds < 0:
            message = f"time goes forward only, not by {seconds} s"
            raise ValueError(message)
        self._offset += seconds

    def reset(self) -> None:
        """Return to the host's time."""
        self._offset = 0.0
