"""How many worker runs there should be, and which to start now. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class SlotRun:
    """The newest run of one place in the fleet.

    Attributes:
        slot: number of the place, from 0.
        run_id: the run that has, or last had, this place.
        ended: aware UTC; None while the run has not ended.
        failures: how many runs of this place in a row, up to this one, ended as failures.
    """

    slot: int
    run_id: str
    ended: datetime | None
    failures: int


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A worker run to request.

    Attributes:
        run_key: the same for the same cause, so that a repeated request starts nothing.
        reason: for people.
    """

    slot: int
    run_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What to start now, and what waits.

    Attributes:
        waiting: a sentence for each place that stays empty for now.
    """

    starts: tuple[WorkerStart, ...]
    waiting: tuple[str, ...]


FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)


def plan_fleet(wanted: int, newest: Iterable[SlotRun], now: datetime) -> FleetPlan:
    """Plan the runs that fill the places 0 .. ``wanted`` - 1.

    A place whose run failed is filled again at once the first time, then after a pause that doubles with
    each failure in a row, from 5 s to 5 min, so that a worker that cannot start causes no storm of runs.
    """
    by_slot = {run.slot: run for run in newest}
    starts: list[WorkerStart] = []
    waiting: list[str] = []
    for slot in range(wanted):
        run = by_slot.get(slot)
        if run is None:
            starts.append(WorkerStart(slot, f"worker-{slot}-first", "no worker has had this place yet"))
            continue
        if run.ended is None:
            continue
        pause = pause_after(run.failures)
        if now - run.ended < pause:
            waiting.append(f"place {slot} failed {run.failures} times in a row and waits {pause.total_seconds():.0f} s")
            continue
        starts.append(
            WorkerStart(slot, f"worker-{slot}-after-{run.run_id}", f"run {run.run_id[:8]} of this place ended")
        )
    return FleetPlan(tuple(starts), tuple(waiting))


def pause_after(failures: int) -> timedelta:
    """Return how long a place stays empty after so many failures in a row."""
    if failures <= 1:
        return timedelta(0)
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures - 2, 10)))
