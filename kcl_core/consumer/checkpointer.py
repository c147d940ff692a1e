"""Checkpointer: moves the positions of held leases, in one step or in two."""

import logging
from collections.abc import Callable

from kcl_core.errors import CheckpointRejectedError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused

_log = logging.getLogger(__name__)


class Checkpointer:
    """Writes checkpoints of leases that are held, and drops those that turn out to be lost.

    Every write also counts as a renewal. Errors of the table leave the held lease as it was.
    """

    def __init__(self, table: LeaseTable, held: HeldLeases) -> None:
        self._table = table
        self._held = held

    def prepare(
        self, lease_key: str, pending: ExtendedSequenceNumber, state: bytes, *, acquisition: int | None = None
    ) -> Lease | None:
        """Record that everything up to ``pending`` is about to become durable.

        Whoever finds the row afterwards must decide the fate of this checkpoint first: none is prepared while
        another is undecided (Java would overwrite it).

        Args:
            lease_key: lease to write.
            pending: not before the present checkpoint.
            state: what is needed to find out whether it became durable.
            acquisition: `HeldLeases.acquisition` at the time the work began; None trusts that it is the same.

        Returns:
            The lease as it is now; None if the work must be given up: the lease was lost (and is dropped), is
            another acquisition by now, or shows a prepared checkpoint that is undecided.

        Raises:
            CheckpointRejectedError: the position lies before the present checkpoint.
        """

        def write(lease: Lease) -> Lease | Refused | None:
            if lease.pending_checkpoint is not None:
                _log.warning("lease %s has a checkpoint prepared at %s", lease_key, lease.pending_checkpoint)
                return None
            _check_order(lease, pending)
            return self._table.prepare_checkpoint(lease, pending, state)

        return self._write(lease_key, acquisition, write)

    def checkpoint(self, lease_key: str, position: ExtendedSequenceNumber, *, acquisition: int | None = None) -> bool:
        """Record that everything up to ``position`` is durable, and forget a prepared checkpoint.

        Args:
            lease_key: lease to write.
            position: not before the present checkpoint.
            acquisition: `HeldLeases.acquisition` at the time the work began; None trusts that it is the same.

        Returns:
            False if the lease was lost (and is dropped), or is another acquisition by now.

        Raises:
            CheckpointRejectedError: the position lies before the present checkpoint.
        """

        def write(lease: Lease) -> Lease | Refused:
            _check_order(lease, position)
            return self._table.checkpoint(lease, position)

        return self._write(lease_key, acquisition, write) is not None

    def discard_pending(self, lease_key: str, *, acquisition: int | None = None) -> bool:
        """Forget a prepared checkpoint that did not become durable and no longer can.

        Args:
            lease_key: lease to write; nothing is written if it has no prepared checkpoint.
            acquisition: `HeldLeases.acquisition` at the time the work began; None trusts that it is the same.

        Returns:
            False if the lease was lost (and is dropped), or is another acquisition by now.
        """

        def write(lease: Lease) -> Lease | Refused:
            if lease.pending_checkpoint is None:
                return lease
            return self._table.checkpoint(lease, lease.checkpoint)

        return self._write(lease_key, acquisition, write) is not None

    def _write(
        self, lease_key: str, acquisition: int | None, write: Callable[[Lease], Lease | Refused | None]
    ) -> Lease | None:
        with self._held.exclusive(lease_key):
            lease, present = self._held.get(lease_key), self._held.acquisition(lease_key)
            if lease is None or (acquisition is not None and acquisition != present):
                return None
            since = self._held.now()
            outcome = write(lease)
            if isinstance(outcome, Refused):
                self._held.drop(lease_key)
                owner = outcome.current.actual_owner if outcome.current else None
                _log.info("lost lease %s at a checkpoint: %s owns it", lease_key, owner or "nobody")
                return None
            if outcome is not None and outcome is not lease:
                self._held.update(outcome, since=since)
            return outcome


def _check_order(lease: Lease, position: ExtendedSequenceNumber) -> None:
    if position < lease.checkpoint:
        raise CheckpointRejectedError(
            lease_key=lease.lease_key,
            position=str(position),
            reason=f"its checkpoint is {lease.checkpoint} already",
        )
