"""SyncShards: compares the stream's shards with the leases and creates the leases that are missing."""

import logging
from dataclasses import dataclass

from kcl_core.config import InitialPosition
from kcl_core.leases.table import LeaseTable
from kcl_core.streams.api import KinesisApi, ShardFilter, StreamAddress
from kcl_core.sync.holes import Audit, audit
from kcl_core.sync.lease_plan import LeaseSyncPlan, NewLease, children_ahead, plan_first_leases, plan_leases_ahead
from kcl_core.sync.shards import ShardGraph

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardSyncReport:
    """What a run did.

    Attributes:
        created: keys of the leases created, in order.
        existing: keys of planned leases that somebody else had created meanwhile.
        postponed: keys of planned leases whose parent's lease went away meanwhile; the next run looks again.
        completed: keys of rows that were given their range of hash keys.
        audit: whether the active leases cover every hash key; None if the leases were not looked at.
    """

    plan: LeaseSyncPlan
    created: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()
    postponed: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    audit: Audit | None = None


class SyncShards:
    """Creates missing leases; never deletes any. To be run by the leader (KCL: HierarchicalShardSyncer).

    `look` writes nothing, `apply` carries out a look, `run_once` does both.
    """

    def __init__(
        self,
        kinesis: KinesisApi,
        leases: LeaseTable,
        stream: StreamAddress,
        initial_position: InitialPosition,
        *,
        ignore_unexpected_child_shards: bool = False,
    ) -> None:
        self._kinesis = kinesis
        self._leases = leases
        self._stream = stream
        self._initial_position = initial_position
        self._ignore = ignore_unexpected_child_shards
        self._audit: Audit | None = None

    def look(self) -> LeaseSyncPlan:
        """Plan from the table and the stream as they are now.

        A listing that contradicts itself is the plan's ``problem``, not an exception.

        Raises:
            StreamNotReadyError: the stream is being created or deleted; retry.
            StreamGoneError: the stream does not exist.
        """
        leases = self._leases.scan().leases
        self._audit = audit(leases, self._audit)
        if not leases:
            return self._first_look()
        return plan_leases_ahead(
            self._kinesis.list_shards(self._stream),
            leases,
            self._initial_position,
            ignore_unexpected_child_shards=self._ignore,
            stream=self._stream.name,
        )

    def apply(self, plan: LeaseSyncPlan) -> ShardSyncReport:
        """Create the planned leases in order. A lease that exists by now is no error.

        Raises:
            ShardGraphError: the plan's problem; nothing was written, retry.
            TableThrottledError: the leases before this one were created; retry.
        """
        if plan.problem is not None:
            raise plan.problem
        outcome: dict[str, list[str]] = {"created": [], "existing": [], "postponed": []}
        for entry in plan.entries:
            outcome[self._create(entry, outcome["created"])].append(entry.lease.lease_key)
        completed = [
            row.lease_key for row in plan.ranges if self._leases.update_hash_range(row.lease_key, row.hash_key_range)
        ]
        report = ShardSyncReport(
            plan,
            created=tuple(outcome["created"]),
            existing=tuple(outcome["existing"]),
            postponed=tuple(outcome["postponed"]),
            completed=tuple(completed),
            audit=self._audit,
        )
        if report.created:
            _log.info("created %d leases of stream %s", len(report.created), self._stream.name)
        return report

    def run_once(self) -> ShardSyncReport:
        """Look and apply."""
        return self.apply(self.look())

    def _first_look(self) -> LeaseSyncPlan:
        first = plan_first_leases(
            self._kinesis.list_shards(self._stream, _filter_for(self._initial_position)),
            self._initial_position,
            ignore_unexpected_child_shards=self._ignore,
            stream=self._stream.name,
        )
        if first.problem is not None:
            return first
        # A filter by time shows shards that are closed by now; their children are in the full listing only.
        graph = ShardGraph.of(self._kinesis.list_shards(self._stream), stream=self._stream.name)
        leased = {entry.lease.lease_key for entry in first.entries}
        return LeaseSyncPlan(first.entries + children_ahead(graph, leased), listed=len(graph.shards))

    def _create(self, entry: NewLease, created: list[str]) -> str:
        # The scan that this was decided on is not one moment. A missing child of a lease that still exists
        # was never there; a missing child of a lease that is gone may have been finished and cleaned up,
        # and to create it again would be to read it again.
        if any(key not in created and self._leases.get(key) is None for key in entry.follows):
            return "postponed"
        return "created" if self._leases.create(entry.lease) else "existing"


def _filter_for(position: InitialPosition) -> ShardFilter:
    match position.position:
        case "LATEST":
            return ShardFilter("AT_LATEST")
        case "TRIM_HORIZON":
            return ShardFilter("AT_TRIM_HORIZON")
        case "AT_TIMESTAMP":
            return ShardFilter("AT_TIMESTAMP", timestamp=position.timestamp)
