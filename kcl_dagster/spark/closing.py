"""Which windows are closed: nothing will be added to them any more. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kcl_core.leases.model import Lease
from kcl_dagster.spark.windows import Window, WindowGrid


@dataclass(frozen=True, slots=True)
class HoldingLease:
    """A lease that may still deliver into the first window that is not closed.

    Attributes:
        reached: arrival time up to which its records are in the table; None if nothing is known.
        reason: for people.
    """

    lease_key: str
    reached: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Closing:
    """The outcome of one look.

    Attributes:
        windows: closed since the last look, oldest first; windows without a record included.
        held_by: what keeps the next window open.
        reason: one sentence for people.
    """

    windows: tuple[Window, ...]
    held_by: tuple[HoldingLease, ...]
    reason: str


def closed_windows(
    leases: Iterable[Lease],
    reached: Mapping[str, datetime],
    grid: WindowGrid,
    *,
    open_from: datetime,
    lateness: timedelta = timedelta(0),
) -> Closing:
    """Return the windows from ``open_from`` on that no lease can deliver into any more.

    A lease delivers nothing below the arrival time it has reached; a finished one delivers nothing at all.
    A lease that has not reached anything yet begins where its parents ended, so theirs counts, the lesser of
    two; without one of theirs either it holds everything open. No lease at all closes nothing: shard sync may
    not have run yet.

    Args:
        leases: every lease of the stream.
        reached: arrival time reached, by lease key; of parents too, even those whose lease is deleted.
        grid: the table's windows.
        open_from: start of the first window that was not closed before.
        lateness: how far past a window's end every lease must be; arrival times may be slightly out of order.
    """
    rows = sorted(leases, key=lambda lease: lease.lease_key)
    if not rows:
        return Closing((), (), "no lease exists yet")
    bounds = {lease.lease_key: _reached(lease, reached) for lease in rows if not lease.is_finished}
    if not bounds:
        return _all_finished(reached.values(), grid, open_from)
    unknown = tuple(
        HoldingLease(key, None, "neither it nor its parents have reached anything yet")
        for key, bound in bounds.items()
        if bound is None
    )
    windows: tuple[Window, ...] = ()
    if not unknown:
        windows = grid.ended_between(open_from, min(bound for bound in bounds.values() if bound) - lateness)
    pending = windows[-1].end if windows else grid.window_at(open_from).start
    needed = pending + grid.length + lateness
    behind = tuple(
        HoldingLease(key, bound, f"has reached {bound:%Y-%m-%d %H:%M:%S}, needs {needed:%Y-%m-%d %H:%M:%S} UTC")
        for key, bound in bounds.items()
        if bound is not None and bound < needed
    )
    return Closing(windows, unknown + behind, _sentence(windows, unknown + behind))


def _reached(lease: Lease, reached: Mapping[str, datetime]) -> datetime | None:
    own = reached.get(lease.lease_key)
    if own is not None:
        return own
    prefix = lease.lease_key.removesuffix(lease.shard_id)
    parents = [reached.get(prefix + parent) for parent in lease.parent_shard_ids]
    known = [parent for parent in parents if parent is not None]
    return min(known) if known and len(known) == len(parents) else None


def _all_finished(reached: Iterable[datetime], grid: WindowGrid, open_from: datetime) -> Closing:
    """Close everything that has records: the stream has no shard left that could bring more."""
    last = max(reached, default=None)
    if last is None:
        return Closing((), (), "every shard is at its end and brought no record")
    windows = grid.ended_between(open_from, grid.window_at(last).end)
    return Closing(windows, (), f"every shard is at its end; {len(windows)} windows closed")


def _sentence(windows: tuple[Window, ...], held_by: tuple[HoldingLease, ...]) -> str:
    done = f"{len(windows)} windows closed" if windows else "no window closed"
    if not held_by:
        return done
    first = held_by[0]
    others = f" and {len(held_by) - 1} more leases" if len(held_by) > 1 else ""
    return f"{done}; lease {first.lease_key} {first.reason}{others}"
