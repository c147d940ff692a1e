"""Decider `kcl`: leases go where utilisation is lowest, as KCL 3 decides it. Pure.

KCL: VarianceBasedLeaseAssignmentDecider. Differences, all where Java's outcome is accidental: workers with equal
headroom are taken by number of leases and then by id (Java: the order of its heap); a worker judged by throughput
while no throughput is known counts as idle (Java: NaN); equal surpluses of two metrics go to the first by name.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from kcl_core.assignment.fleet import THROUGHPUT_METRIC, ActiveWorker, Fleet, LeaseView, Utilisation
from kcl_core.assignment.plan import AssignmentPlan, Move, Unplaced
from kcl_core.config import WorkerUtilizationAwareAssignmentConfig

Shuffle = Callable[[list[str]], None]


def keep_order(_: list[str]) -> None:
    """Shuffle nothing: candidates stay in order of their keys."""


def plan_by_variance(
    fleet: Fleet,
    config: WorkerUtilizationAwareAssignmentConfig,
    *,
    balance: bool,
    max_leases_for_worker: int | None = None,
    graceful: bool = True,
    shuffle: Shuffle = keep_order,
) -> AssignmentPlan:
    """Place the leases without a live owner, then, if asked, move load away from workers far above the average.

    Args:
        fleet: the snapshot.
        config: thresholds and limits.
        balance: whether to balance; KCL does at every ``variance_balancing_frequency``-th run.
        max_leases_for_worker: bound for each worker; leases beyond the fleet's capacity are reported unplaced.
        graceful: whether live owners are asked to hand over rather than lose the lease at once.
        shuffle: reorders a list of lease keys in place; decides which of a worker's leases move.
    """
    decider = _Decider(fleet, config, max_leases_for_worker, shuffle)
    decider.place_available()
    if balance:
        decider.balance()
    return fleet.finish_plan(decider.moves(), decider.unplaced, graceful=graceful)


@dataclass(slots=True)
class _Load:
    """One worker while the plan is made: decisions so far are included, except that giving away does not relieve."""

    worker_id: str
    utilisation: dict[str, Utilisation]
    throughput: float = 0.0
    leases: set[str] = field(default_factory=set)

    def add(self, lease_key: str, throughput: float) -> None:
        self.leases.add(lease_key)
        self.throughput += throughput

    def remove(self, lease_key: str, throughput: float) -> None:
        self.leases.discard(lease_key)
        self.throughput = self.throughput - throughput if self.leases else 0.0


class _Decider:
    """One planning run. Names as in the module's docstring; all throughputs are KiB/s."""

    def __init__(
        self,
        fleet: Fleet,
        config: WorkerUtilizationAwareAssignmentConfig,
        max_leases_for_worker: int | None,
        shuffle: Shuffle,
    ) -> None:
        self._fleet = fleet
        self._config = config
        self._max_leases = math.inf if max_leases_for_worker is None else max_leases_for_worker
        self._max_throughput = config.max_throughput_per_host_kbps or math.inf
        self._shuffle = shuffle
        self._views = {v.lease.lease_key: v for v in sorted(fleet.leases, key=lambda view: view.lease.lease_key)}
        workers = max(1, len(fleet.workers))
        measured = [v.lease.throughput_kbps for v in self._views.values() if v.lease.throughput_kbps is not None]
        average = math.fsum(measured) / len(measured) if measured else 0.0
        self._throughput = {
            key: average if view.lease.throughput_kbps is None else view.lease.throughput_kbps
            for key, view in self._views.items()
        }
        self._target_throughput = average * len(self._views) / workers
        self._leases_per_worker = max(1, len(self._views) // workers)
        self._owner = {key: view.owner for key, view in self._views.items()}
        self._loads = self._initial_loads(sorted(fleet.workers, key=lambda worker: worker.worker_id))
        self._averages = self._initial_averages()
        self._decided: dict[str, tuple[str, str]] = {}
        self._queue: list[tuple[float, int, str]] = []
        self.unplaced: list[Unplaced] = []
        for load in self._loads.values():
            self._offer(load)

    def moves(self) -> list[Move]:
        """Return what was decided, but not what ends where it began."""
        return [
            Move(key, self._views[key].owner, target, reason)
            for key, (target, reason) in self._decided.items()
            if self._views[key].owner != target or _is_stuck(self._views[key])
        ]

    def place_available(self) -> None:
        """Priority phase: give each lease without a live owner to the worker with the most headroom."""
        for view in sorted(self._views.values(), key=lambda view: view.age_order):
            if not view.is_available:
                continue
            why = self._fleet.why_available(view)
            load = self._pop()
            if load is None:
                self.unplaced.append(Unplaced(view.lease.lease_key, f"{why}; no active worker may take more leases"))
            else:
                self._assign(view, load, f"{why}; {load.worker_id} has the most headroom{self._standing(load)}")

    def balance(self) -> None:
        """Balance phase: move load away by the one metric that has most to move."""
        surpluses = {metric: self._surplus(metric) for metric in sorted(self._averages)}
        metric = max(surpluses, key=lambda each: sum(surpluses[each].values()), default="")
        takes = surpluses.get(metric, {})
        for worker_id in sorted(takes, key=lambda worker_id: (-takes[worker_id], worker_id)):
            source = self._loads[worker_id]
            why = f"{worker_id} is at {metric} {source.utilisation[metric].value:.1f}"
            for key in self._leases_to_move(source, takes[worker_id]):
                target = self._pop()
                if target is None:
                    return
                if self._would_exceed(target, key):
                    break
                average = f"the fleet's average {self._averages[metric]:.1f}"
                self._assign(self._views[key], target, f"{why}, {average}, {target.worker_id}{self._standing(target)}")

    def _initial_loads(self, workers: list[ActiveWorker]) -> dict[str, _Load]:
        loads = {worker.worker_id: _Load(worker.worker_id, dict(worker.utilisation)) for worker in workers}
        for key, owner in self._owner.items():
            if owner in loads:
                loads[owner].add(key, self._throughput[key])
        for worker in workers:
            if worker.by_throughput:
                load = loads[worker.worker_id]
                share = load.throughput / self._target_throughput if self._target_throughput else 0.0
                load.utilisation = {THROUGHPUT_METRIC: Utilisation(100 * share, 100)}
        return loads

    def _initial_averages(self) -> dict[str, float]:
        values: dict[str, list[float]] = {}
        for load in self._loads.values():
            for metric, utilisation in load.utilisation.items():
                values.setdefault(metric, []).append(utilisation.value)
        return {metric: math.fsum(each) / len(each) for metric, each in values.items()}

    def _headroom(self, load: _Load) -> float:
        # KCL gives an idle worker 1, less than one at below half of the average.
        return min(
            ((self._averages[m] - u.value) / u.value if u.value else 1.0 for m, u in load.utilisation.items()),
            default=math.inf,
        )

    def _offer(self, load: _Load) -> None:
        """Put the worker back into the queue if it may take another lease. The last one may overshoot."""
        if load.throughput <= self._max_throughput and len(load.leases) < self._max_leases:
            heapq.heappush(self._queue, (-self._headroom(load), len(load.leases), load.worker_id))

    def _pop(self) -> _Load | None:
        return self._loads[heapq.heappop(self._queue)[2]] if self._queue else None

    def _assign(self, view: LeaseView, load: _Load, reason: str) -> None:
        key, previous = view.lease.lease_key, self._owner[view.lease.lease_key]
        if previous == load.worker_id and not _is_stuck(view):
            self._offer(load)
            return
        throughput = self._throughput[key]
        if previous in self._loads:
            self._loads[previous].remove(key, throughput)
        load.utilisation = {
            metric: Utilisation(self._extrapolated(load, metric, key), utilisation.operating_range)
            for metric, utilisation in load.utilisation.items()
        }
        load.add(key, throughput)
        self._owner[key] = load.worker_id
        self._decided[key] = (load.worker_id, reason)
        self._offer(load)

    def _extrapolated(self, load: _Load, metric: str, lease_key: str) -> float:
        """Return the worker's value after it has taken the lease."""
        value, average = load.utilisation[metric].value, self._averages[metric]
        if self._target_throughput:
            return value + self._throughput[lease_key] * average / self._target_throughput
        return value + average / self._leases_per_worker

    def _would_exceed(self, load: _Load, lease_key: str) -> bool:
        return any(
            self._extrapolated(load, metric, lease_key) > min(self._averages[metric], utilisation.operating_range)
            for metric, utilisation in load.utilisation.items()
        )

    def _surplus(self, metric: str) -> dict[str, float]:
        """Return KiB/s to take away by worker id, judged by one metric; empty if the fleet is even enough."""
        average, tolerance = self._averages[metric], self._config.re_balance_threshold_percentage / 100
        upper, lower = average * (1 + tolerance), average * (1 - tolerance)
        found = {
            load.worker_id: load.utilisation[metric] for load in self._loads.values() if metric in load.utilisation
        }
        if not any(u.value > upper or u.value < lower or u.value > u.operating_range for u in found.values()):
            return {}
        sources = [key for key, u in found.items() if u.value >= upper or u.value > u.operating_range]
        share = self._config.dampening_percentage / 100
        return {
            key: self._loads[key].throughput * (found[key].value - average) / found[key].value * share
            if found[key].value
            else 0.0
            for key in sources or [max(found, key=lambda key: found[key].value)]
        }

    def _leases_to_move(self, source: _Load, take: float) -> list[str]:
        keys = sorted(source.leases)
        self._shuffle(keys)
        if source.throughput == 0:
            return keys[:1]
        chosen = []
        for key in keys:
            if take - self._throughput[key] > 0:
                take -= self._throughput[key]
                chosen.append(key)
        if keys and not chosen and self._config.allow_throughput_overshoot:
            return [min(keys, key=lambda key: self._throughput[key])]
        return chosen

    def _standing(self, load: _Load) -> str:
        if not load.utilisation:
            return ", its utilisation being unknown"
        metrics = (f"{m} {u.value:.1f} of {self._averages[m]:.1f}" for m, u in sorted(load.utilisation.items()))
        return f" at {', '.join(metrics)}"


def _is_stuck(view: LeaseView) -> bool:
    # The row of a dead owner that was handing over: only another assignment clears its checkpoint owner.
    return view.is_available and view.lease.checkpoint_owner is not None
