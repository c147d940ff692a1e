"""What was seen of the leader's lock, as text: so that short runs on one host can wait out a long silence together."""

import logging

import msgspec

from kcl_core.election.lock import LockSighting
from kcl_core.leases.identity import boot_id

_log = logging.getLogger(__name__)


class _Stored(msgspec.Struct):
    boot: str
    sighting: LockSighting


def dump(seen: LockSighting | None) -> str:
    """Return the sighting as JSON, empty if there is none. Its time must be that of a `HostClock`."""
    return "" if seen is None else msgspec.json.encode(_Stored(boot_id(), seen)).decode()


def load(text: str) -> LockSighting | None:
    """Return the sighting of `dump`; None if it is of another boot, whose times mean nothing now.

    Also None of an empty or foreign text: nothing seen is always safe, a lock only expires later.
    """
    if not text:
        return None
    try:
        stored = msgspec.json.decode(text, type=_Stored)
    except msgspec.DecodeError as error:
        _log.warning("a stored sighting of the lock cannot be read, waiting anew: %s", error)
        return None
    return stored.sighting if stored.boot == boot_id() else None
