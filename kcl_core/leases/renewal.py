"""RenewLeases: moves the counters of the leases that this worker holds, and learns which it has lost."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from kcl_core.clock import Clock
from kcl_core.errors import InvariantViolatedError, KclError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.table import LeaseTable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LostLease:
    """A lease that is no longer held, and why."""

    lease_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedRenewal:
    """A lease that could not be renewed this time; still held, until it expires locally."""

    lease_key: str
    error: KclError


@dataclass(frozen=True, slots=True)
class RenewalReport:
    """What a run did.

    Attributes:
        renewed: leases as they are now.
        lost: dropped from the held leases.
        leaving: those of ``renewed`` that are to be handed over to another worker.
        failed: to be tried again at the next run.
    """

    renewed: tuple[Lease, ...] = ()
    lost: tuple[LostLease, ...] = ()
    leaving: tuple[Lease, ...] = ()
    failed: tuple[FailedRenewal, ...] = ()


@dataclass(frozen=True, slots=True)
class StillHeld:
    """The refused renewal had happened after all; the lease as its row is."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class RenewAgain:
    """A handoff has begun; the lease with its owners, to be renewed by its counter alone."""

    lease: Lease


def judge_refusal(lease: Lease, current: Lease | None) -> StillHeld | RenewAgain | LostLease:
    """Say what a refused renewal means (KCL: DynamoDBLeaseRefresher.renewLease). Pure.

    Args:
        lease: as the renewal took it to be.
        current: its row.
    """
    if current is None:
        return LostLease(lease.lease_key, "its row is gone")
    if current.actual_owner != lease.actual_owner:
        return LostLease(lease.lease_key, f"{current.actual_owner or 'nobody'} owns it now")
    if current.checkpoint_owner is not None and current.checkpoint_owner == current.lease_owner:
        return LostLease(lease.lease_key, f"its row hands it over from {current.lease_owner} to itself")
    if current.lease_counter == lease.lease_counter + 1:
        # The answer to the write was lost, and botocore's repetition of it was refused; or the leader, having
        # missed a renewal, gave the lease to its owner again.
        return StillHeld(current)
    if lease.checkpoint_owner is None and current.checkpoint_owner is not None:
        owners = replace(lease, lease_owner=current.lease_owner, checkpoint_owner=current.checkpoint_owner)
        return RenewAgain(owners)
    return LostLease(
        lease.lease_key, f"its counter is {current.lease_counter}, this worker left it at {lease.lease_counter}"
    )


class RenewLeases:
    """Keeps what `HeldLeases` holds alive. To be run every `LeaseManagementConfig.renewal_interval`."""

    def __init__(
        self,
        table: LeaseTable,
        held: HeldLeases,
        clock: Clock,
        worker_id: str,
        *,
        throughput: Callable[[str], float | None] | None = None,
    ) -> None:
        self._table = table
        self._held = held
        self._clock = clock
        self._worker_id = worker_id
        self._throughput = throughput

    def run_once(self) -> RenewalReport:
        """Renew every held lease, one after the other.

        A lease that has expired locally is lost even if its row could still be renewed: whoever saw it expire
        may be about to write.

        Raises:
            KclError: one that no repetition mends: the table is missing, or access denied.
        """
        renewed: list[Lease] = []
        lost = [each for lease in self._held.expired() if (each := self._drop_if_expired(lease.lease_key))]
        failed: list[FailedRenewal] = []
        for lease_key in [lease.lease_key for lease in self._held.all()]:
            try:
                outcome = self._renew_held(lease_key)
            except KclError as error:
                if not error.retryable:
                    raise
                failed.append(FailedRenewal(lease_key, error))
                _log.warning("lease %s was not renewed: %s", lease_key, error)
                continue
            if isinstance(outcome, Lease):
                renewed.append(outcome)
            elif outcome is not None:
                lost.append(outcome)
        for each in lost:
            _log.info("lost lease %s: %s", each.lease_key, each.reason)
        leaving = tuple(lease for lease in renewed if lease.checkpoint_owner == self._worker_id)
        return RenewalReport(tuple(renewed), tuple(lost), leaving, tuple(failed))

    def recover(self) -> tuple[Lease, ...]:
        """Take back the leases of this worker id, of which a process before this one may have died.

        Renews them however old they are (KCL: DynamoDBLeaseRenewer.initialize); a lease being handed over is left
        to its next owner. What cannot be renewed now is found by `DiscoverLeases`.

        Raises:
            KclError: the table cannot be read, or one that no repetition mends.
        """
        recovered: list[Lease] = []
        for lease in self._table.scan().leases:
            if lease.lease_owner != self._worker_id or lease.checkpoint_owner is not None:
                continue
            with self._held.exclusive(lease.lease_key):
                since = self._clock.monotonic()
                try:
                    outcome = self._table.renew(lease)
                except KclError as error:
                    if not error.retryable:
                        raise
                    _log.warning("lease %s was not taken back: %s", lease.lease_key, error)
                    continue
                if isinstance(outcome, Lease):
                    self._held.acquire(outcome, since=since)
                    recovered.append(outcome)
        return tuple(recovered)

    def _drop_if_expired(self, lease_key: str) -> LostLease | None:
        with self._held.exclusive(lease_key):
            if self._held.get(lease_key) is not None:
                return None  # a checkpoint has moved its counter meanwhile
            self._held.drop(lease_key)
        return LostLease(lease_key, "not renewed within the failover time")

    def _renew_held(self, lease_key: str) -> Lease | LostLease | None:
        """Renew one lease, and drop it if it is lost; None if it was dropped by somebody else meanwhile."""
        with self._held.exclusive(lease_key):
            lease = self._held.get(lease_key)
            if lease is None:
                return None
            since = self._clock.monotonic()
            outcome = self._renew(lease)
            if isinstance(outcome, Lease):
                self._held.update(outcome, since=since)
            else:
                self._held.drop(lease_key)
            return outcome

    def _renew(self, lease: Lease) -> Lease | LostLease:
        if lease.actual_owner != self._worker_id:
            return LostLease(lease.lease_key, f"{lease.actual_owner or 'nobody'} owns it")
        if lease.checkpoint_owner == lease.lease_owner:
            return LostLease(lease.lease_key, f"its row hands it over from {lease.lease_owner} to itself")
        kbps = self._throughput(lease.lease_key) if self._throughput else None
        outcome = self._table.renew(lease, throughput_kbps=kbps)
        if isinstance(outcome, Lease):
            return outcome
        verdict = judge_refusal(lease, outcome.current)
        if isinstance(verdict, RenewAgain):
            again = self._table.renew(verdict.lease, throughput_kbps=kbps)
            if isinstance(again, Lease):
                return again
            verdict = judge_refusal(verdict.lease, again.current)
        match verdict:
            case StillHeld(row):
                return row
            case LostLease():
                return verdict
            case RenewAgain():
                raise InvariantViolatedError("a renewal that knows of the handoff is not repeated", lease=lease)
