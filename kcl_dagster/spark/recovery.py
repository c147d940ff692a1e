"""What becomes of a prepared checkpoint: the table knows whether its batch was committed. Pure.

A lease's row may show a pending checkpoint whose worker died, or lost the lease, between preparing and
checkpointing. The row holds the number of the table transaction that the batch was to be committed as, and the
table holds the last number committed for the lease. Numbers are given one at a time: the next batch is prepared
only after this one is decided, and a stale owner can commit only the number that it prepared. Hence three cases:

- equal: exactly this batch was committed. Its end becomes the checkpoint.
- the table is ahead: somebody fenced this batch off; it can no longer be committed. Discard it.
- the table is behind: not committed *yet*; a stale owner may still do it. First commit a fence, an empty
  transaction with the next number, against the snapshot that showed this; if that conflicts, look again.
"""

from dataclasses import dataclass
from enum import Enum

import msgspec

from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber


class Verdict(Enum):
    """What to do with a pending checkpoint."""

    ADOPT = "adopt"
    DISCARD = "discard"
    FENCE = "fence"
    DISCARD_FOREIGN = "discard foreign"


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """The next step for one lease.

    Attributes:
        pending: the prepared checkpoint in question.
        number: its table transaction; None if the pending checkpoint is not of this library.
        reason: for people.
    """

    lease_key: str
    verdict: Verdict
    pending: ExtendedSequenceNumber
    number: int | None
    reason: str


class PendingState(msgspec.Struct, frozen=True):
    """What is stored beside a pending checkpoint.

    Attributes:
        transaction: number of the table transaction that the batch is to be committed as, from 1.
    """

    transaction: int


def encode_state(number: int) -> bytes:
    """Return the bytes to store beside a pending checkpoint."""
    return msgspec.json.encode(PendingState(number))


def decode_state(state: bytes | None) -> int | None:
    """Return the transaction number stored beside a pending checkpoint; None if another application wrote it."""
    try:
        return msgspec.json.decode(state or b"", type=PendingState).transaction
    except msgspec.DecodeError:
        return None


def next_number(committed: int | None) -> int:
    """Return the number of a lease's next table transaction, after ``committed`` (None: there was none)."""
    return (committed or 0) + 1


def plan_recovery(lease: Lease, committed: int | None) -> RecoveryPlan | None:
    """Return what to do next with the lease's pending checkpoint; None if it has none.

    Args:
        lease: as read, and held, before the table was.
        committed: number of the last table transaction of this lease; None if there was none.
    """
    pending = lease.pending_checkpoint
    if pending is None:
        return None
    number = decode_state(lease.pending_checkpoint_state)
    if number is None:
        verdict, reason = Verdict.DISCARD_FOREIGN, "another application prepared it; its state names no transaction"
    elif (committed or 0) == number:
        verdict, reason = Verdict.ADOPT, f"the table holds transaction {number}"
    elif (committed or 0) > number:
        verdict, reason = Verdict.DISCARD, f"transaction {number} was fenced off, the table is at {committed}"
    else:
        verdict, reason = Verdict.FENCE, f"transaction {number} is undecided, the table is at {committed or 0}"
    return RecoveryPlan(lease.lease_key, verdict, pending, number, reason)
