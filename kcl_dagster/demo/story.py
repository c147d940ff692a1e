"""What happens in the running demo, told as it happens. Pure: compares what is seen with what was seen before."""

from collections.abc import Iterable

from kcl_core.leases.model import Lease
from kcl_dagster.demo.observer import SeenRun
from kcl_dagster.names import REASON_TAG, SLOT_TAG

_ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
_DUTIES = ("shard_sync", "rebalance", "lease_cleanup")


class Story:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._statuses: dict[str, str] = {}
        self._leases: dict[str, Lease] = {}

    def of_runs(self, runs: Iterable[SeenRun]) -> list[str]:
        """Return a line for each run that started or ended since the last call."""
        lines = []
        for run in runs:
            before = self._statuses.get(run.run_id)
            if run.status == before:
                continue
            self._statuses[run.run_id] = run.status
            line = _run_line(run)
            if line is not None:
                lines.append(line)
        return lines

    def of_leases(self, leases: Iterable[Lease]) -> list[str]:
        """Return a line for each lease that was created, moved, finished or deleted since the last call."""
        now = {lease.lease_key: lease for lease in leases}
        lines = []
        for key, lease in now.items():
            before = self._leases.get(key)
            if before is None:
                parents = f", continues {', '.join(sorted(lease.parent_shard_ids))}" if lease.parent_shard_ids else ""
                lines.append(f"lease of {key} created{parents}")
            # Between two looks a lease may be created, given away and finished.
            owner = before.actual_owner if before else None
            if lease.actual_owner not in (owner, None):
                lines.append(f"lease of {key}: {owner or 'nobody'} -> {lease.actual_owner}")
            if lease.is_finished and not (before and before.is_finished):
                lines.append(f"{key} is read to its end")
        lines += [f"lease of {key} deleted" for key in self._leases if key not in now]
        self._leases = now
        return lines


def _run_line(run: SeenRun) -> str | None:
    """Return the line of a run that has just got its status; None for those in between."""
    short = run.run_id[:8]
    reason = f": {run.tags[REASON_TAG]}" if REASON_TAG in run.tags else ""
    if run.job_name == "worker":
        place = run.tags.get(SLOT_TAG, "?")
        if run.status == "STARTED":
            return f"worker run {short} starts in place {place}{reason}"
        return f"worker run {short} in place {place} ended: {run.status}" if run.status in _ENDED else None
    if run.status == "FAILURE":
        return f"run {short} of {run.job_name} failed{reason}"
    if run.status != "SUCCESS":
        return None
    if run.job_name in _DUTIES:
        # Runs by the clock have no reason and mostly nothing to do.
        return f"job {run.job_name} done{reason}" if reason else None
    return f"downstream asset computed{reason}"
