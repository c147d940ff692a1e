"""LeaderElection: becoming, staying and ceasing to be leader. No thread, no sleep: somebody calls `run_once()`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from kcl_core.clock import Clock
from kcl_core.election.lock import Lock, LockSighting, Step, next_step, see
from kcl_core.election.lock_table import LockTable
from kcl_core.runtime import new_mutex


@dataclass(frozen=True, slots=True)
class Standing:
    """What a run found out.

    Attributes:
        leader: worker id of the lock's owner; None only while nobody leads.
        mine_until: monotonic second up to which this worker may act as leader, else None.
    """

    leader: str | None
    mine_until: float | None = None

    def leads(self, now: float) -> bool:
        """Whether this worker may still act as leader. To be asked before every act, not once."""
        return self.mine_until is not None and now < self.mine_until


class LeaderElection:
    """Takes the lock, heartbeats it, and takes it over from a leader that has fallen silent.

    Thread-safe: a heartbeat in the background and the work in the foreground may share one.
    """

    def __init__(
        self,
        table: LockTable,
        clock: Clock,
        new_version: Callable[[], str],
        *,
        worker_id: str,
        lease_duration: float,
        seen: LockSighting | None = None,
    ) -> None:
        """Be a candidate.

        Args:
            table: where the lock is.
            clock: for expiry; ``seen`` must be of the same clock.
            new_version: gives a text that was never given before.
            worker_id: the name to lead under.
            lease_duration: seconds of silence after which others may take the lock from this worker.
            seen: what an earlier process saw (`evidence`), so that waiting does not begin anew.
        """
        self._table = table
        self._clock = clock
        self._new_version = new_version
        self._worker_id = worker_id
        self._lease_duration = lease_duration
        self._seen = seen
        # Usually one. A write whose answer was lost adds its version: the next read tells which one is there.
        self._own_versions: set[str] = set()
        self._standing = Standing(None)
        self._mutex = new_mutex()

    @property
    def heartbeat_interval(self) -> timedelta:
        """How often to call `run_once`: at a third of the lease duration one lost heartbeat costs nothing."""
        return timedelta(seconds=self._lease_duration / 3)

    @property
    def standing(self) -> Standing:
        """What the last run found out."""
        return self._standing

    @property
    def evidence(self) -> LockSighting | None:
        """Whose lock was seen, unchanged since when; None if there was none. For the next process's ``seen``."""
        return self._seen

    def watch(self) -> LockSighting | None:
        """Look at the lock without taking it; return the evidence."""
        with self._mutex:
            lock = self._table.read()
            self._seen = see(lock, self._seen, self._clock.monotonic())
            return self._seen

    def run_once(self) -> Standing:
        """Heartbeat, take or watch the lock. Slow requests only ever lengthen the wait of others.

        Raises:
            TableMissingError: there is no table yet.
            EndpointUnavailableError: retry; what `standing` says stays true until its time is over. Should the lock
                have been written all the same, the next run finds it and goes on with it.
        """
        with self._mutex:
            asked = self._clock.monotonic()
            seen = self.watch()
            won = self._try(seen, asked)
            if won is not None:
                self._own_versions = {won.record_version_number}
                self._seen = LockSighting(won, self._clock.monotonic())
                self._standing = Standing(self._worker_id, mine_until=asked + self._lease_duration)
            else:
                self._standing = Standing(None if seen is None else seen.lock.owner_name)
            return self._standing

    def release(self) -> bool:
        """Give the lock up at once; False if it was not held (any more)."""
        with self._mutex:
            versions, self._own_versions, self._standing = self._own_versions, set(), Standing(None)
            released = any(self._table.delete(self._lock(version)) for version in versions)
            if released:
                self._seen = None
            return released

    def _lock(self, version: str) -> Lock:
        return Lock(self._worker_id, version, self._lease_duration)

    def _try(self, seen: LockSighting | None, asked: float) -> Lock | None:
        """Return the lock as this worker holds it now, or None if it does not."""
        step = next_step(seen, self._own_versions, asked)
        if step == "wait":
            return None
        wanted = self._lock(self._new_version())
        self._own_versions.add(wanted.record_version_number)
        if self._write(step, wanted, seen):
            return wanted
        self._own_versions.discard(wanted.record_version_number)
        return None

    def _write(self, step: Step, wanted: Lock, seen: LockSighting | None) -> bool:
        if seen is None or step == "create":
            return self._table.create(wanted)
        if step == "take released":
            return self._table.take_released(wanted)
        if step == "heartbeat":
            return self._table.heartbeat(wanted, held=self._lock(seen.lock.record_version_number))
        return self._table.take_expired(wanted, seen=seen.lock)
