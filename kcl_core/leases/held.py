"""The leases that this worker holds, shared by the components of one worker."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from kcl_core.clock import Clock
from kcl_core.leases.model import Lease
from kcl_core.runtime import new_mutex


@dataclass(frozen=True, slots=True)
class _Holding:
    """A lease, the second its time counts from, and which acquisition of this worker it is."""

    lease: Lease
    since: float
    acquisition: int


class HeldLeases:
    """A thread-safe set of leases. Forgets nothing by itself, but hides those that may have expired for others.

    A holder counts from before it sent the write that moved the counter, observers from after they saw it:
    so a lease is hidden here before anybody may take it (KCL: LeaseRenewer, which counts from the answer).
    """

    def __init__(self, clock: Clock, failover: timedelta) -> None:
        self._clock = clock
        self._failover_seconds = failover.total_seconds()
        self._holdings: dict[str, _Holding] = {}
        self._acquisitions = 0
        self._mutex = new_mutex()
        self._mutexes: dict[str, AbstractContextManager[object]] = {}

    def all(self) -> tuple[Lease, ...]:
        """Return the leases held and not expired locally, sorted by key."""
        return tuple(each.lease for each in self._snapshot() if not self._is_expired(each))

    def expired(self) -> tuple[Lease, ...]:
        """Return the leases whose counter this worker has not moved for longer than the failover time, by key."""
        return tuple(each.lease for each in self._snapshot() if self._is_expired(each))

    def get(self, lease_key: str) -> Lease | None:
        """Return the lease if it is held and has not expired locally."""
        with self._mutex:
            holding = self._holdings.get(lease_key)
        return None if holding is None or self._is_expired(holding) else holding.lease

    def acquisition(self, lease_key: str) -> int | None:
        """Return which acquisition of this worker the lease is, or None if `get` has none.

        Work begun under one acquisition must not be finished under another: between them the lease was
        somebody else's, or might have been (KCL: the lease's concurrency token).
        """
        with self._mutex:
            holding = self._holdings.get(lease_key)
        return None if holding is None or self._is_expired(holding) else holding.acquisition

    def now(self) -> float:
        """Return the monotonic second to pass as ``since`` after a write that is sent now."""
        return self._clock.monotonic()

    def acquire(self, lease: Lease, *, since: float | None = None) -> None:
        """Add a lease, as a new acquisition.

        Args:
            lease: as its row is.
            since: monotonic second at which the write that moved its counter was sent; now by default.
        """
        with self._mutex:
            self._acquisitions += 1
            self._holdings[lease.lease_key] = _Holding(lease, self._since(since), self._acquisitions)

    def update(self, lease: Lease, *, since: float | None = None) -> bool:
        """Replace a held lease after its counter was moved; return False if it is no longer held.

        Args:
            lease: as its row is.
            since: monotonic second at which the write that moved its counter was sent; now by default.
        """
        with self._mutex:
            holding = self._holdings.get(lease.lease_key)
            if holding is None:
                return False
            self._holdings[lease.lease_key] = _Holding(lease, self._since(since), holding.acquisition)
            return True

    def drop(self, lease_key: str) -> None:
        """Forget the lease, held or not. Its row is not touched."""
        with self._mutex:
            self._holdings.pop(lease_key, None)

    def leaving(self, worker_id: str) -> tuple[Lease, ...]:
        """Return the leases that ``worker_id`` is asked to hand over once it has finished what it has in hand."""
        return tuple(lease for lease in self.all() if lease.checkpoint_owner == worker_id)

    @contextmanager
    def exclusive(self, lease_key: str) -> Iterator[None]:
        """Keep all others that ask for this from writing the lease's row meanwhile.

        Two writes of one worker at once would both build on the same counter, and one would be refused.
        """
        with self._mutex:
            mutex = self._mutexes.setdefault(lease_key, new_mutex())
        with mutex:
            yield

    def _snapshot(self) -> list[_Holding]:
        with self._mutex:
            return [self._holdings[key] for key in sorted(self._holdings)]

    def _since(self, since: float | None) -> float:
        return self._clock.monotonic() if since is None else since

    def _is_expired(self, holding: _Holding) -> bool:
        return self._clock.monotonic() - holding.since > self._failover_seconds
