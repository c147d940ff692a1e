"""Sightings as text, so that an observer that is started anew on the same host need not start waiting anew."""

import logging
from collections.abc import Mapping

import msgspec

from kcl_core.leases.expiry import Sighting
from kcl_core.leases.identity import boot_id

_log = logging.getLogger(__name__)


class _Stored(msgspec.Struct):
    boot: str
    seen: dict[str, tuple[int, float]]


def dump(seen: Mapping[str, Sighting]) -> str:
    """Return the sightings as JSON. Their times must be those of a `HostClock`."""
    stored = _Stored(boot_id(), {key: (each.lease_counter, each.since) for key, each in seen.items()})
    return msgspec.json.encode(stored).decode()


def load(text: str) -> dict[str, Sighting]:
    """Return the sightings of `dump`; none if they are of another boot, whose times mean nothing now.

    Also none of an empty or foreign text: nothing seen is always safe, leases only expire later.
    """
    if not text:
        return {}
    try:
        stored = msgspec.json.decode(text, type=_Stored)
    except msgspec.DecodeError as error:
        _log.warning("stored sightings cannot be read, waiting anew: %s", error)
        return {}
    if stored.boot != boot_id():
        return {}
    return {key: Sighting(counter, since) for key, (counter, since) in stored.seen.items()}
