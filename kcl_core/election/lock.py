"""The leader's lock and the decision whether it may be taken. Pure; the item itself is in `lock_table`."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock item, as amazon-dynamodb-lock-client writes it.

    Attributes:
        owner_name: worker id of the leader.
        record_version_number: random, new with every heartbeat; unchanged means the owner is silent.
        lease_duration: seconds that the *owner* promised; an observer waits for these, not for its own setting.
        is_released: whether the owner gave it up without deleting it.
    """

    owner_name: str
    record_version_number: str
    lease_duration: float
    is_released: bool = False


@dataclass(frozen=True, slots=True)
class LockSighting:
    """A lock, and since when this observer has seen it unchanged.

    Attributes:
        since: monotonic second after the read that showed it first.
    """

    lock: Lock
    since: float


Step = Literal["create", "take released", "take expired", "heartbeat", "wait"]
"""What a candidate does next."""


def see(lock: Lock | None, earlier: LockSighting | None, now: float) -> LockSighting | None:
    """Return the sighting after a read.

    Args:
        lock: as just read; None if there is none.
        earlier: what was seen before.
        now: monotonic second after the read.
    """
    if lock is None:
        return None
    return earlier if earlier is not None and earlier.lock == lock else LockSighting(lock, now)


def next_step(seen: LockSighting | None, own_versions: Collection[str], asked: float) -> Step:
    """Return what a candidate does about the lock as it has seen it.

    A lock has expired when *this* observer saw its version unchanged for more than the owner's whole lease duration.

    Args:
        seen: the sighting, None if there is no lock.
        own_versions: versions that the candidate itself wrote, or may have written. A process restarted under the
            same worker id has written none yet: it does not own its old lock.
        asked: monotonic second before the read, so that a slow read never shortens the wait.
    """
    if seen is None:
        return "create"
    if seen.lock.is_released:
        return "take released"
    if seen.lock.record_version_number in own_versions:
        return "heartbeat"
    return "take expired" if asked - seen.since > seen.lock.lease_duration else "wait"
