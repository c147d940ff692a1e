"""What the leader has seen of leases over time; as text, so that one started anew on this host need not wait anew."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kcl_core.assignment.handoff import Handoff
from kcl_core.assignment.liveness import SeenReport
from kcl_core.leases.expiry import Sighting
from kcl_core.leases.identity import boot_id

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Observations:
    """Since when each counter stands still, until when each handoff may take, and when each worker was heard of.

    Attributes:
        sightings: by lease key.
        handoffs: by lease key.
        reports: by worker id.
    """

    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    handoffs: Mapping[str, Handoff] = field(default_factory=dict)
    reports: Mapping[str, SeenReport] = field(default_factory=dict)


class _Stored(msgspec.Struct):
    boot: str
    sightings: dict[str, Sighting]
    handoffs: dict[str, Handoff]
    reports: dict[str, SeenReport] = {}


def dump(seen: Observations) -> str:
    """Return the observations as JSON. Their times must be those of a `HostClock`."""
    return msgspec.json.encode(
        _Stored(boot_id(), dict(seen.sightings), dict(seen.handoffs), dict(seen.reports))
    ).decode()


def load(text: str) -> Observations:
    """Return the observations of `dump`; none if they are of another boot, whose times mean nothing now.

    Also none of an empty or foreign text: nothing seen is always safe, leases only expire later.
    """
    if not text:
        return Observations()
    try:
        stored = msgspec.json.decode(text, type=_Stored)
    except msgspec.DecodeError as error:
        _log.warning("stored observations cannot be read, waiting anew: %s", error)
        return Observations()
    if stored.boot != boot_id():
        return Observations()
    return Observations(stored.sightings, stored.handoffs, stored.reports)
