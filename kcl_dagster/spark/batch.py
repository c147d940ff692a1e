"""MicroBatch: one turn of the data path, from leases to a commit of the table and back to checkpoints."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from pyspark.sql import SparkSession

from kcl_core.consumer.checkpointer import Checkpointer
from kcl_core.consumer.shard_end import finish_shard
from kcl_core.errors import ShardReadError, StreamGoneError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable
from kcl_core.leases.transfer import transfer
from kcl_dagster.spark.fetch import FetchSettings, fetch_batch
from kcl_dagster.spark.manifest import FetchProblem, ShardManifest
from kcl_dagster.spark.ranges import BatchPlan, SkippedLease, parent_keys, plan_batch
from kcl_dagster.spark.recovery import Verdict, encode_state, next_number, plan_recovery
from kcl_dagster.spark.table import RecordTable, TransactionNames
from kcl_dagster.spark.table_commit import LeaseCommit, commit_leases, fence

_log = logging.getLogger(__name__)

# A round decides, or fences, or finds that another writer came in between. That writer can only commit the one number
# it prepared, so the third round decides; a lease that is still undecided then is skipped until the next batch.
_RECOVERY_ROUNDS = 3


class Step(Enum):
    """Where a batch is; told to `on_step` when the step is done."""

    FETCHED = "fetched"
    PREPARED = "prepared"
    COMMITTED = "committed"
    CHECKPOINTED = "checkpointed"


@dataclass(frozen=True, slots=True)
class LeaseProblem:
    """Why a lease was not read as far as planned."""

    lease_key: str
    problem: FetchProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch did.

    Attributes:
        committed: each lease as it was prepared, with what was read of it; in the table and checkpointed.
        version: of the table, with the batch in it; None if nothing was committed.
        left_out: keys of leases that were lost, or decided by somebody else, on the way; read again by their owner.
        finished: keys of leases that are at SHARD_END now.
        transferred: keys of leases that were handed over.
        skipped: leases held but not read, and why.
        problems: leases read less far than planned, and why.
        has_backlog: whether a lease has more to read than this batch took.
    """

    committed: tuple[tuple[Lease, ShardManifest], ...] = ()
    version: int | None = None
    left_out: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    transferred: tuple[str, ...] = ()
    skipped: tuple[SkippedLease, ...] = ()
    problems: tuple[LeaseProblem, ...] = ()
    has_backlog: bool = False

    @property
    def rows(self) -> int:
        """User records committed."""
        return sum(manifest.rows for _, manifest in self.committed)

    def raise_hopeless(self) -> None:
        """Raise if a lease has a problem that repeating does not mend; to be called once the report is recorded.

        Raises:
            ShardReadError: names the first such lease. What the batch could read is committed all the same.
        """
        for each in self.problems:
            # A shard that is gone is no reason to stop: its lease goes with the next lease cleanup.
            if not each.problem.retryable and each.problem.kind != StreamGoneError.__name__:
                raise ShardReadError(lease_key=each.lease_key, kind=each.problem.kind, cause=each.problem.message)


@dataclass(slots=True)
class _Outcome:
    committed: list[tuple[Lease, ShardManifest]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    version: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseDoor:
    """What a batch does to leases, and through what."""

    table: LeaseTable
    held: HeldLeases
    checkpointer: Checkpointer
    worker_id: str


class MicroBatch:
    """Reads what the held leases have, commits it as one version of the table, and moves the checkpoints.

    Safe to interrupt anywhere: a lease's position is written last, and `recovery` decides by the table what became
    of a batch that was cut off, at whichever worker has the lease then.
    """

    def __init__(
        self,
        spark: SparkSession,
        leases: LeaseDoor,
        table: RecordTable,
        names: TransactionNames,
        settings: FetchSettings,
        *,
        cores: int,
        on_step: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._leases = leases
        self._table = table
        self._names = names
        self._settings = settings
        self._cores = cores
        self._on_step = on_step
        self._iterators: dict[str, tuple[ExtendedSequenceNumber, str]] = {}
        self._reached: dict[str, datetime] = {}
        self._unblocked: set[str] = set()

    def run_once(self) -> BatchReport:
        """Run one batch. Leases that could not be read are in the report, see `BatchReport.raise_hopeless`.

        Raises:
            CommitConflictError: the batch is read again by the next run.
            TableThrottledError: the same; recovery decides what is half done.
            EndpointUnavailableError: the same.
        """
        held = self._leases.held
        self._settle_pending()
        transferred = tuple(
            lease.lease_key
            for lease in held.leaving(self._leases.worker_id)
            if lease.pending_checkpoint is None and transfer(self._leases.table, held, lease)
        )
        acquisitions = {lease.lease_key: held.acquisition(lease.lease_key) for lease in held.all()}
        plan = self._plan()
        if not plan.tasks:
            return BatchReport(transferred=transferred, skipped=plan.skipped)
        manifests = fetch_batch(self._spark, plan, self._settings)
        self._on_step(Step.FETCHED)
        outcome = self._commit([m for m in manifests if m.advanced], acquisitions)
        finished = tuple(m.lease_key for m in manifests if m.shard_end and self._finish(m, outcome, acquisitions))
        self._remember(manifests, outcome)
        self._record_idle(manifests)
        problems = tuple(LeaseProblem(m.lease_key, m.problem) for m in manifests if m.problem is not None)
        return BatchReport(
            committed=tuple(outcome.committed),
            version=outcome.version,
            left_out=tuple(outcome.left_out),
            finished=finished,
            transferred=transferred,
            skipped=plan.skipped,
            problems=problems,
            has_backlog=any(m.advanced and not m.at_tip and not m.shard_end for m in manifests),
        )

    def _plan(self) -> BatchPlan:
        held = self._leases.held.all()
        parents = self._parents_to_wait_for(held)
        leaving = {lease.lease_key for lease in held if lease.checkpoint_owner is not None}
        return plan_batch(held, parents, leaving=leaving, cores=self._cores, iterators=self._iterators)

    def _parents_to_wait_for(self, held: tuple[Lease, ...]) -> Mapping[str, Lease]:
        """Return the leases of parents that are not known to be finished; those of begun leases are."""
        parents: dict[str, Lease] = {}
        for lease in held:
            if not lease.checkpoint.is_sentinel or lease.lease_key in self._unblocked:
                continue
            rows = [row for key in parent_keys(lease) if (row := self._leases.table.get(key)) is not None]
            parents.update({row.lease_key: row for row in rows})
            if all(row.is_finished for row in rows):
                self._unblocked.add(lease.lease_key)
        return parents

    def _commit(self, manifests: list[ShardManifest], acquisitions: Mapping[str, int | None]) -> _Outcome:
        """Prepare, commit and checkpoint; a lease that is lost on the way drops out."""
        outcome = _Outcome()
        if not manifests:
            return outcome
        snapshot = self._table.snapshot()
        prepared: dict[str, Lease] = {}
        commits: list[LeaseCommit] = []
        for manifest in manifests:
            key = manifest.lease_key
            number = next_number(snapshot.transaction(self._names.lease(key)))
            lease = self._leases.checkpointer.prepare(
                key, manifest.end, encode_state(number), acquisition=acquisitions[key]
            )
            if lease is None:
                outcome.left_out.append(key)
                continue
            prepared[key] = lease
            commits.append(LeaseCommit.of_manifest(manifest, number=number, lease_counter=lease.lease_counter))
        self._on_step(Step.PREPARED)
        if not commits:
            return outcome
        done = commit_leases(self._table, self._names, commits, worker_id=self._leases.worker_id)
        outcome.version = done.version
        outcome.left_out += done.fenced
        self._on_step(Step.COMMITTED)
        by_key = {manifest.lease_key: manifest for manifest in manifests}
        for key in done.committed:
            # A lease lost since then is committed all the same: its next owner finds the transaction and adopts it.
            self._leases.checkpointer.checkpoint(key, by_key[key].end, acquisition=acquisitions[key])
            outcome.committed.append((prepared[key], by_key[key]))
        self._on_step(Step.CHECKPOINTED)
        return outcome

    def _finish(self, manifest: ShardManifest, outcome: _Outcome, acquisitions: Mapping[str, int | None]) -> bool:
        """Record the shard's end, unless records before it were left out."""
        key = manifest.lease_key
        if manifest.advanced and key not in {lease.lease_key for lease, _ in outcome.committed}:
            return False
        leases = self._leases
        return finish_shard(
            leases.table, leases.held, leases.checkpointer, key, manifest.children, acquisition=acquisitions[key]
        )

    def _remember(self, manifests: list[ShardManifest], outcome: _Outcome) -> None:
        """Keep iterators for the next batch, and what the table knows to be reached."""
        for lease, manifest in outcome.committed:
            if manifest.reached is not None:
                self._reached[lease.lease_key] = manifest.reached
        self._iterators = {
            m.lease_key: (m.end, m.next_iterator)
            for m in manifests
            if m.next_iterator is not None and m.lease_key not in outcome.left_out
        }

    def _record_idle(self, manifests: list[ShardManifest]) -> None:
        """Tell the table what shards without new records have reached, whenever that may close a window."""
        path, grid = self._settings.path, self._settings.path.grid
        commits: list[LeaseCommit] = []
        for manifest in manifests:
            reached, known = manifest.reached, self._reached.get(manifest.lease_key)
            if manifest.advanced or reached is None:
                continue
            passed = grid.index_at(reached - path.allowed_lateness)
            if known is None or passed > grid.index_at(known - path.allowed_lateness):
                commits.append(LeaseCommit.of_manifest(manifest, number=None, lease_counter=0))
        if not commits:
            return
        done = commit_leases(self._table, self._names, commits, worker_id=self._leases.worker_id)
        for commit in commits:
            if commit.lease_key in done.committed and commit.reached is not None:
                self._reached[commit.lease_key] = commit.reached

    def _settle_pending(self) -> None:
        """Decide what became of batches that were prepared and cut off, by this worker or by an earlier owner."""
        for lease in self._leases.held.all():
            acquisition = self._leases.held.acquisition(lease.lease_key)
            if lease.pending_checkpoint is not None:
                self._settle(lease, acquisition)

    def _settle(self, lease: Lease, acquisition: int | None) -> None:
        key, checkpointer = lease.lease_key, self._leases.checkpointer
        for _ in range(_RECOVERY_ROUNDS):
            plan = plan_recovery(lease, self._table.snapshot().transaction(self._names.lease(key)))
            if plan is None:
                return
            _log.info(
                "lease %s: %s the checkpoint prepared at %s: %s", key, plan.verdict.value, plan.pending, plan.reason
            )
            if plan.verdict is Verdict.ADOPT:
                checkpointer.checkpoint(key, plan.pending, acquisition=acquisition)
                return
            if plan.verdict is not Verdict.FENCE:
                checkpointer.discard_pending(key, acquisition=acquisition)
                return
            if plan.number is not None:
                fence(self._table, self._names, key, plan.number, worker_id=self._leases.worker_id)
