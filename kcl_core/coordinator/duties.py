"""Doing one of the leader's duties once: become leader, act, and step back."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from kcl_core.clock import Clock
from kcl_core.election.leader import LeaderElection
from kcl_core.runtime import Runtime, StopSignal

Report = TypeVar("Report")

RETRY_PAUSE = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class NotLeading:
    """Somebody else leads; nothing was done.

    Attributes:
        leader: worker id of the leader; None if the lock was taken and given up meanwhile.
    """

    leader: str | None


def run_as_leader(
    election: LeaderElection,
    clock: Clock,
    duty: Callable[[], Report],
    *,
    patience: timedelta = timedelta(0),
    stop: StopSignal | None = None,
) -> Report | NotLeading:
    """Take the leader's lock, do ``duty``, and release the lock; the lock is heartbeated meanwhile.

    Args:
        election: the candidate.
        clock: for the patience.
        duty: what only the leader may do. It must be safe against a second leader, because a lock by time is no
            proof: every write of ours is conditional.
        patience: how long to wait for a lock that somebody else holds.
        stop: ends the wait early.

    Raises:
        TableMissingError: there is no table for the lock yet.
    """
    pause = stop or StopSignal()
    deadline = clock.monotonic() + patience.total_seconds()
    standing = election.run_once()
    while not standing.leads(clock.monotonic()):
        if clock.monotonic() >= deadline or pause.wait(RETRY_PAUSE):
            return NotLeading(standing.leader)
        standing = election.run_once()
    heartbeat = Runtime(clock)
    heartbeat.start("leader heartbeat", election.run_once, election.heartbeat_interval)
    try:
        report = duty()
        heartbeat.raise_failure()
    finally:
        heartbeat.stop()
        election.release()
    return report
