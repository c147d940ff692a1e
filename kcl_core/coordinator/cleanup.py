"""CleanUpLeases: deletes the leases of shards that are finished, or gone from Kinesis."""

from dataclasses import dataclass

from kcl_core.leases.cleanup import CleanupPlan, plan_cleanup
from kcl_core.leases.table import LeaseTable
from kcl_core.streams.api import KinesisApi, StreamAddress
from kcl_core.sync.shards import ShardGraph


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What a run did.

    Attributes:
        deleted: keys of the leases deleted.
        refused: keys of planned leases that stay: they, or a parent of theirs, changed meanwhile.
        completed: keys of rows that were given the ids of their children.
    """

    plan: CleanupPlan
    deleted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()


class CleanUpLeases:
    """Deletes leases that nobody needs any more (KCL: LeaseCleanupManager). To be run by the leader."""

    def __init__(
        self, kinesis: KinesisApi, leases: LeaseTable, stream: StreamAddress, *, cleanup_completed: bool = True
    ) -> None:
        self._kinesis = kinesis
        self._leases = leases
        self._stream = stream
        self._cleanup_completed = cleanup_completed

    def look(self) -> CleanupPlan:
        """Plan from the table and the stream as they are now; write nothing.

        Raises:
            ShardGraphError: the listing contradicts itself; retry.
            StreamNotReadyError: the stream is being created or deleted; retry.
            StreamGoneError: the stream does not exist; its leases stay.
        """
        # The table first: a shard that is created in between is then listed without a lease, never the reverse.
        leases = self._leases.scan().leases
        graph = ShardGraph.of(self._kinesis.list_shards(self._stream), stream=self._stream.name)
        return plan_cleanup(leases, graph.shards.keys(), graph.children_of, cleanup_completed=self._cleanup_completed)

    def apply(self, plan: CleanupPlan) -> CleanupReport:
        """Complete rows and delete leases, each only if its checkpoint is the one that was decided on.

        Raises:
            TableThrottledError: what came before was written; retry.
        """
        completed = [
            row.lease_key for row in plan.children if self._leases.update_children(row.lease_key, row.child_shard_ids)
        ]
        deleted: list[str] = []
        refused: set[str] = set()
        for deletion in plan.deletions:
            lease = deletion.lease
            if not refused & lease.parent_shard_ids and self._leases.delete(lease):
                deleted.append(lease.lease_key)
            else:
                refused.add(lease.lease_key)
        return CleanupReport(plan, tuple(deleted), tuple(sorted(refused)), tuple(completed))

    def run_once(self) -> CleanupReport:
        """Look and apply."""
        return self.apply(self.look())
