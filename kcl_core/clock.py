"""The only source of time. Nothing else in `kcl_core` may ask the operating system what time it is."""

import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What every component is given instead of the operating system's clocks."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin, for durations. Means nothing in another process."""
        ...

    def wall(self) -> datetime:
        """Return aware UTC time, for people and for stored timestamps. Never for deciding that something expired."""
        ...


class SystemClock:
    """Real time. The monotonic origin is random, so that mixing it with another clock fails at once."""

    def __init__(self) -> None:
        self._origin = random.uniform(1e5, 1e6) - time.monotonic()  # noqa: S311 - not a secret

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin."""
        return self._origin + time.monotonic()

    def wall(self) -> datetime:
        """Return aware UTC time."""
        return datetime.now(UTC)


class HostClock(SystemClock):
    """Real time whose monotonic origin is the host's, so that processes of one host may share observations.

    A reading means something only together with the `boot_id` under which it was taken
    (`kcl_core.leases.sightings` stores both).
    """

    def __init__(self) -> None:
        self._origin = 0.0
