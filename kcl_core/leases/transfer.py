"""The end of a graceful handoff, at the worker that gives the lease away."""

import logging

from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.table import LeaseTable, Refused

_log = logging.getLogger(__name__)


def transfer(table: LeaseTable, held: HeldLeases, lease: Lease) -> bool:
    """Give a lease that `HeldLeases.leaving` named to its next owner, and forget it here.

    To be called when nothing of it is in hand any more (KCL: LeaseGracefulShutdownHandler). Repeating it is safe.

    Returns:
        Whether the next owner has it by this worker's doing. If not, it was not this worker's to give any more,
        or was never asked for; an error leaves it held, to be transferred later.
    """
    with held.exclusive(lease.lease_key):
        present = held.get(lease.lease_key)
        if present is None or present.checkpoint_owner is None or present.lease_owner is None:
            return False
        next_owner = present.lease_owner
        outcome = table.assign(present, next_owner)
        held.drop(lease.lease_key)
    if isinstance(outcome, Refused):
        current = outcome.current
        # A request whose answer was lost is repeated by botocore, and then refused because of itself.
        given = current is not None and current.lease_owner == next_owner and current.checkpoint_owner is None
        if not given:
            _log.info("lease %s was not transferred: its owners have changed", lease.lease_key)
            return False
    _log.info("handed lease %s over to %s", lease.lease_key, next_owner)
    return True
