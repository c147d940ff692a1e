"""DiscoverLeases: finds the leases that the leader has given to this worker."""

import logging
from dataclasses import dataclass

from kcl_core.errors import KclError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.table import LeaseTable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Overlooked:
    """A lease named by the owner index that was not acquired, and why."""

    lease_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class DiscoveryReport:
    """What a run did.

    Attributes:
        acquired: leases that are held now and were not before.
        overlooked: the others that the index named, to be looked at again by the next run.
    """

    acquired: tuple[Lease, ...] = ()
    overlooked: tuple[Overlooked, ...] = ()


class DiscoverLeases:
    """Adds to `HeldLeases` what rows say is this worker's. To be run every `discovery_interval`.

    The renewal that follows moves their counters (KCL: DynamoDBLeaseDiscoverer).
    """

    def __init__(self, table: LeaseTable, held: HeldLeases, worker_id: str) -> None:
        self._table = table
        self._held = held
        self._worker_id = worker_id

    def run_once(self) -> DiscoveryReport:
        """Ask the owner index, check each lease that is not held against its row, and acquire it.

        Raises:
            KclError: the index cannot be read, or one that no repetition mends.
        """
        held = {lease.lease_key for lease in (*self._held.all(), *self._held.expired())}
        acquired: list[Lease] = []
        overlooked: list[Overlooked] = []
        for lease_key in self._table.keys_owned_by(self._worker_id):
            if lease_key in held:
                continue
            try:
                outcome = self._acquire(lease_key)
            except KclError as error:
                if not error.retryable:
                    raise
                outcome = Overlooked(lease_key, str(error))
                _log.warning("lease %s was not looked at: %s", lease_key, error)
            if isinstance(outcome, Lease):
                acquired.append(outcome)
                _log.info("acquired lease %s at %s", lease_key, outcome.checkpoint)
            else:
                overlooked.append(outcome)
        return DiscoveryReport(tuple(acquired), tuple(overlooked))

    def _acquire(self, lease_key: str) -> Lease | Overlooked:
        with self._held.exclusive(lease_key):
            lease = self._table.get(lease_key)
            if lease is None:
                return Overlooked(lease_key, "its row is gone or not a lease")
            if lease.lease_owner != self._worker_id:
                return Overlooked(lease_key, f"{lease.lease_owner or 'nobody'} owns it by now")
            if lease.checkpoint_owner is not None:
                return Overlooked(lease_key, f"{lease.checkpoint_owner} has not handed it over yet")
            self._held.acquire(lease)
            return lease
