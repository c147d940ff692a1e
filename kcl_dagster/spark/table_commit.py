"""Committing batches of leases to the table, exactly once: each lease's batches are numbered, and so are its commits.

`deltalake` rejects a commit on an outdated snapshot if another one of the same application transaction came in
between, but it accepts any number on a fresh snapshot. So the number is compared with the one in the snapshot, and
the commit is made on that same snapshot: whatever happened since then is a conflict, and the comparison is repeated.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Self

from deltalake.transaction import AddAction

from kcl_core.errors import CommitConflictError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.spark.commit_log import CommitNote, CommittedRange, Fence
from kcl_dagster.spark.manifest import FileManifest, ShardManifest
from kcl_dagster.spark.table import Conflict, RecordTable, TransactionNames

# Each attempt is lost to a writer of the same lease, of which there is at most one that is not us.
_ATTEMPTS = 10

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCommit:
    """What one lease wants to have in the table.

    Attributes:
        number: of the lease's transaction, as prepared; None if only ``reached`` moves, which needs no fence: an
            outdated owner's observation that a shard had nothing new is still true.
        files: complete, below the table's root.
        start: where the read began; excluded.
        end: everything up to here is in ``files``.
        reached: arrival time below which nothing is left behind, aware UTC; None if the read could not tell.
        shard_end: whether the shard is closed and nothing follows ``end``.
        children: ids of the shards that continue it; only at its end.
        lease_counter: of the lease when the batch was prepared.
    """

    lease_key: str
    shard_id: str
    number: int | None
    start: ExtendedSequenceNumber
    end: ExtendedSequenceNumber
    files: tuple[FileManifest, ...] = ()
    reached: datetime | None = None
    shard_end: bool = False
    children: tuple[str, ...] = ()
    lease_counter: int = 0

    def __post_init__(self) -> None:
        if self.number is None and (self.files or self.end != self.start):
            message = f"lease {self.lease_key!r} moves on without a transaction number"
            raise ValueError(message)

    @classmethod
    def of_manifest(cls, manifest: ShardManifest, *, number: int | None, lease_counter: int) -> Self:
        """Return the commit of what a Spark task reported."""
        return cls(
            lease_key=manifest.lease_key,
            shard_id=manifest.shard_id,
            number=number,
            start=manifest.start,
            end=manifest.end,
            files=manifest.files,
            reached=manifest.reached,
            shard_end=manifest.shard_end,
            children=tuple(child.shard_id for child in manifest.children),
            lease_counter=lease_counter,
        )

    @property
    def committed_range(self) -> CommittedRange:
        """What the table's log says of it."""
        return CommittedRange(
            lease_key=self.lease_key,
            shard_id=self.shard_id,
            number=self.number,
            start=self.start,
            end=self.end,
            rows=sum(file.rows for file in self.files),
            data_bytes=sum(file.data_bytes for file in self.files),
            files=len(self.files),
            first_arrival=min((file.first_arrival for file in self.files), default=None),
            last_arrival=max((file.last_arrival for file in self.files), default=None),
            reached=self.reached,
            shard_end=self.shard_end,
            children=self.children,
            lease_counter=self.lease_counter,
        )


@dataclass(frozen=True, slots=True)
class FencedLease:
    """A lease whose commit comes too late, and why."""

    lease_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What is to be committed on one snapshot.

    Attributes:
        accepted: with something to commit.
        settled: keys of leases whose ``reached`` the table has already; nothing to commit.
        fenced: decided by somebody else.
        transactions: version by name.
    """

    accepted: tuple[LeaseCommit, ...]
    settled: tuple[str, ...]
    fenced: tuple[FencedLease, ...]
    transactions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What became of the commits.

    Attributes:
        version: of the table, the one that holds them; None if there was nothing to write.
        committed: keys of the leases all of whose records, and what they reached, are in the table.
        fenced: keys of leases of which nothing was written. Their pending checkpoints are decided by recovery.
    """

    version: int | None
    committed: tuple[str, ...]
    fenced: tuple[str, ...]


def plan_commit(
    transaction: Callable[[str], int | None], names: TransactionNames, commits: Iterable[LeaseCommit]
) -> CommitPlan:
    """Decide which commits are still due.

    Args:
        transaction: the version of an application transaction in the snapshot to commit on.
        names: of the transactions.
        commits: at most one per lease.

    Raises:
        ValueError: a lease is there twice.
    """
    accepted: list[LeaseCommit] = []
    settled: list[str] = []
    fenced: list[FencedLease] = []
    transactions: dict[str, int] = {}
    seen: set[str] = set()
    for commit in commits:
        key = commit.lease_key
        if key in seen:
            message = f"lease {key!r} is to be committed twice at once"
            raise ValueError(message)
        seen.add(key)
        own: dict[str, int] = {}
        if commit.number is not None:
            committed = transaction(names.lease(key)) or 0
            if committed >= commit.number:
                fenced.append(FencedLease(key, f"the table is at {committed}, transaction {commit.number} is too late"))
                continue
            own[names.lease(key)] = commit.number
        if commit.reached is not None:
            millis = _millis(commit.reached)
            known = transaction(names.reached(key))
            if known is None or millis > known:
                own[names.reached(key)] = millis
        if own:
            accepted.append(commit)
            transactions.update(own)
        else:
            settled.append(key)
    return CommitPlan(tuple(accepted), tuple(settled), tuple(fenced), transactions)


def commit_leases(
    table: RecordTable, names: TransactionNames, commits: Sequence[LeaseCommit], *, worker_id: str
) -> CommitOutcome:
    """Commit batches of several leases as one version of the table, leaving out those that come too late.

    Raises:
        CommitConflictError: others changed the same leases at every attempt; nothing is known to be committed.
            Recovery finds out.
        TableMissingError: there is no table.
    """
    cause = ""
    for _ in range(_ATTEMPTS):
        snapshot = table.snapshot()
        plan = plan_commit(snapshot.transaction, names, commits)
        fenced = tuple(lease.lease_key for lease in plan.fenced)
        if not plan.accepted:
            return CommitOutcome(None, plan.settled, fenced)
        files = [add_action(file) for commit in plan.accepted for file in commit.files]
        answer = snapshot.commit(files, plan.transactions, _note(plan, worker_id))
        if not isinstance(answer, Conflict):
            done = (*(commit.lease_key for commit in plan.accepted), *plan.settled)
            return CommitOutcome(answer, done, fenced)
        cause = answer.reason
    raise CommitConflictError(table=table.location, attempts=_ATTEMPTS, cause=cause)


def fence(table: RecordTable, names: TransactionNames, lease_key: str, number: int, *, worker_id: str = "") -> bool:
    """Make sure that transaction ``number`` of a lease, prepared but not committed, never will be.

    An empty transaction with the number behind it is committed, on a snapshot that does not have ``number`` yet:
    from then on the table is ahead of it, which says for good that it was not committed.

    Args:
        table: where.
        names: of the transactions.
        lease_key: of a lease that the caller holds.
        number: of the prepared transaction.
        worker_id: who fences, for the table's log.

    Returns:
        False if the table has ``number`` or a later one already, or got one meanwhile: look again.
    """
    snapshot = table.snapshot()
    name = names.lease(lease_key)
    if (snapshot.transaction(name) or 0) >= number:
        return False
    fences = (Fence(lease_key, number),)
    note = CommitNote(worker_id, _fingerprint([worker_id, name, str(number)]), fences=fences)
    return not isinstance(snapshot.commit([], {name: number + 1}, note), Conflict)


def add_action(file: FileManifest) -> AddAction:
    """Return Delta's entry of a file, with the statistics by which readers skip it."""
    # Delta's statistics have milliseconds: the bounds are widened to them, never narrowed.
    last = file.last_arrival + _MILLISECOND - timedelta(microseconds=1)
    statistics = {
        "numRecords": file.rows,
        "minValues": {
            "sequence_number": file.lowest_sequence_number,
            "approximate_arrival_timestamp": _delta_timestamp(file.first_arrival),
        },
        "maxValues": {
            "sequence_number": file.highest_sequence_number,
            "approximate_arrival_timestamp": _delta_timestamp(last),
        },
        "nullCount": {"sequence_number": 0, "approximate_arrival_timestamp": 0},
    }
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=file.window.partition_values,
        modification_time=_millis(file.written),
        data_change=True,
        stats=json.dumps(statistics),
    )


def _note(plan: CommitPlan, worker_id: str) -> CommitNote:
    paths = [file.path for commit in plan.accepted for file in commit.files]
    numbers = [f"{name}={version}" for name, version in plan.transactions.items()]
    ranges = tuple(commit.committed_range for commit in plan.accepted)
    return CommitNote(worker_id, _fingerprint([worker_id, *sorted(paths), *sorted(numbers)]), ranges)


def _fingerprint(parts: Iterable[str]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:32]


def _millis(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _delta_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
