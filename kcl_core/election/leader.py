"""LeaderElection: becoming, staying and ceasing to be leader. No thread, no sleep: somebody calls `run_once()`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from kcl_core.clock import Clock
from kcl_core.election.lock import Lock, LockSighting, next_step, see
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
        self._held: Lock | None = None
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
            EndpointUnavailableError: retry; what `standing` says stays true until its time is over.
        """
        with self._mutex:
            asked = self._clock.monotonic()
            seen = self.watch()
            won = self._try(seen, asked)
            if won is not None:
                self._held, self._seen = won, LockSighting(won, self._clock.monotonic())
                self._standing = Standing(self._worker_id, mine_until=asked + self._lease_duration)
            else:
                self._held = None
                self._standing = Standing(None if seen is None else seen.lock.owner_name)
            return self._standing

    def release(self) -> bool:
        """Give the lock up at once; False if it was not held (any more)."""
        with self._mutex:
            held, self._held, self._standing = self._held, None, Standing(None)
            if held is None or not self._table.delete(held):
                return False
            self._seen = None
            return True

    def _try(self, seen: LockSighting | None, asked: float) -> Lock | None:
        """Return the lock as this worker holds it now, or None if it does not."""
        wanted = Lock(self._worker_id, self._new_version(), self._lease_duration)
        held = self._held
        step = next_step(seen, held.record_version_number if held else None, asked)
        if step == "create":
            won = self._table.create(wanted)
        elif step == "take released":
            won = self._table.take_released(wanted)
        elif step == "heartbeat" and held is not None:
            won = self._table.heartbeat(wanted, held=held)
        elif step == "take expired" and seen is not None:
            won = self._table.take_expired(wanted, seen=seen.lock)
        else:
            won = False
        return wanted if won else None
