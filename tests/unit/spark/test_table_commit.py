"""Batches of leases get into the table exactly once, whoever else writes at the same time."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import ChildShard
from kcl_dagster.spark.commit_log import CommitNote
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.manifest import FileManifest, ShardManifest
from kcl_dagster.spark.read import reached
from kcl_dagster.spark.rows import FILE_SCHEMA
from kcl_dagster.spark.table import Conflict, RecordTable, TransactionNames
from kcl_dagster.spark.table_commit import LeaseCommit, commit_leases, fence, plan_commit

CREATED = datetime(2026, 11, 20, 8, 30, 15, 250000, tzinfo=UTC)
ARRIVAL = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
NAMES = TransactionNames("orders-app", "orders", CREATED)
GRID = SparkPathConfig().grid
START = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


def position(offset: int) -> ExtendedSequenceNumber:
    return ExtendedSequenceNumber(str(START + offset))


def write_file(root: str, name: str, *, rows: int = 3, first: int = 0, arrival: datetime = ARRIVAL) -> FileManifest:
    window = GRID.window_at(arrival)
    path = f"{window.folder}/{name}.parquet"
    target = Path(root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    numbers = [str(START + first + index) for index in range(rows)]
    columns = {
        "stream": ["orders"] * rows,
        "shard_id": ["shardId-0"] * rows,
        "partition_key": ["k"] * rows,
        "explicit_hash_key": [None] * rows,
        "sequence_number": numbers,
        "sub_sequence_number": [0] * rows,
        "approximate_arrival_timestamp": [arrival + timedelta(milliseconds=index) for index in range(rows)],
        "data": [b"record"] * rows,
    }
    pq.write_table(pa.table(columns, schema=FILE_SCHEMA), target)
    return FileManifest(
        path=path,
        window=window,
        size=target.stat().st_size,
        rows=rows,
        data_bytes=6 * rows,
        lowest_sequence_number=numbers[0],
        highest_sequence_number=numbers[-1],
        first_arrival=arrival,
        last_arrival=arrival + timedelta(milliseconds=rows - 1),
        written=arrival + timedelta(seconds=1),
    )


def batch(lease_key: str, number: int | None, *files: FileManifest, reached: datetime | None = None) -> LeaseCommit:
    begin = 10 * (number or 0)
    return LeaseCommit(
        lease_key=lease_key,
        shard_id=lease_key,
        number=number,
        start=position(begin),
        end=position(begin) if number is None else position(begin + 9),
        files=files,
        reached=reached,
        lease_counter=7,
    )


@pytest.fixture
def table(tmp_path: Path) -> RecordTable:
    made = RecordTable(SparkPathConfig(table_location=str(tmp_path / "records")))
    made.create_if_missing()
    return made


def rows_of(table: RecordTable) -> int:
    return DeltaTable(table.location).to_pyarrow_table().num_rows


def test_files_of_several_leases_come_in_one_version(table: RecordTable) -> None:
    commits = [batch(f"shard-{i}", 1, write_file(table.location, f"f{i}")) for i in range(3)]
    outcome = commit_leases(table, NAMES, commits, worker_id="w1")
    assert (outcome.version, outcome.committed, outcome.fenced) == (1, ("shard-0", "shard-1", "shard-2"), ())
    assert rows_of(table) == 9
    assert [table.snapshot().transaction(NAMES.lease(f"shard-{i}")) for i in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("late", [3, 2])
def test_a_number_that_the_table_has_or_has_passed_is_fenced_and_the_others_go_in(
    table: RecordTable, late: int
) -> None:
    commit_leases(table, NAMES, [batch("a", 3, write_file(table.location, "a3"))], worker_id="w1")
    outcome = commit_leases(
        table,
        NAMES,
        [batch("a", late, write_file(table.location, "late")), batch("b", 1, write_file(table.location, "b1"))],
        worker_id="w2",
    )
    assert (outcome.version, outcome.committed, outcome.fenced) == (2, ("b",), ("a",))
    assert rows_of(table) == 6
    assert table.snapshot().transaction(NAMES.lease("a")) == 3


def test_nothing_is_written_when_all_are_fenced(table: RecordTable) -> None:
    first = batch("a", 1, write_file(table.location, "a1"))
    commit_leases(table, NAMES, [first], worker_id="w1")
    outcome = commit_leases(table, NAMES, [first], worker_id="w1")
    assert (outcome.version, outcome.committed, outcome.fenced) == (None, (), ("a",))
    assert table.snapshot().version == 1


def test_a_fenced_batch_never_gets_in_and_the_number_behind_the_fence_does(table: RecordTable) -> None:
    assert fence(table, NAMES, "a", 1)
    assert table.snapshot().transaction(NAMES.lease("a")) == 2
    assert commit_leases(table, NAMES, [batch("a", 1, write_file(table.location, "a1"))], worker_id="old").fenced
    assert commit_leases(table, NAMES, [batch("a", 3, write_file(table.location, "a3"))], worker_id="new").committed
    assert rows_of(table) == 3


def test_a_fence_refuses_once_its_batch_is_in_the_table(table: RecordTable) -> None:
    commit_leases(table, NAMES, [batch("a", 1, write_file(table.location, "a1"))], worker_id="w1")
    assert not fence(table, NAMES, "a", 1)
    assert table.snapshot().transaction(NAMES.lease("a")) == 1


def test_a_commit_on_a_snapshot_older_than_the_fence_conflicts_even_with_other_commits_in_between(
    table: RecordTable,
) -> None:
    before = table.snapshot()
    fence(table, NAMES, "a", 1)
    commit_leases(table, NAMES, [batch("b", 1, write_file(table.location, "b1"))], worker_id="w1")
    due = plan_commit(before.transaction, NAMES, [batch("a", 1)])
    assert due.transactions == {NAMES.lease("a"): 1}
    note = table.snapshot().history()[-1].note
    assert note is not None
    conflict = before.commit([], due.transactions, replace(note, fingerprint="other"))
    assert isinstance(conflict, Conflict)
    assert "oncurrent transaction" in conflict.reason


def test_a_commit_whose_answer_was_lost_is_found_in_the_log(table: RecordTable) -> None:
    """Its repetition conflicts with itself; that it is in the table counts."""
    before = table.snapshot()
    note = CommitNote("w1", "the same")
    first = before.commit([], {NAMES.lease("a"): 1}, note)
    commit_leases(table, NAMES, [batch("b", 1)], worker_id="w2")
    assert first == before.commit([], {NAMES.lease("a"): 1}, note) == 1
    assert table.snapshot().version == 2


def test_versions_are_right_while_others_commit(table: RecordTable) -> None:
    older = table.snapshot()
    commit_leases(table, NAMES, [batch("a", 1)], worker_id="w1")
    newer = table.snapshot()
    commit_leases(table, NAMES, [batch("b", 1)], worker_id="w2")
    assert [(one.version, one.worker_id) for one in older.history()] == [(0, None)]
    assert [(one.version, one.worker_id) for one in newer.history(after=0)] == [(1, "w1")]


def test_what_was_reached_never_goes_back(table: RecordTable) -> None:
    late, early = ARRIVAL + timedelta(hours=1), ARRIVAL
    commit_leases(table, NAMES, [batch("a", 1, write_file(table.location, "a1"), reached=late)], worker_id="w1")
    commit_leases(table, NAMES, [batch("a", 2, write_file(table.location, "a2"), reached=early)], worker_id="w1")
    assert reached(table.snapshot(), NAMES, ["a", "unknown"]) == {"a": late}


def test_an_idle_lease_moves_only_what_it_reached(table: RecordTable) -> None:
    outcome = commit_leases(table, NAMES, [batch("a", None, reached=ARRIVAL)], worker_id="w1")
    assert (outcome.version, outcome.committed) == (1, ("a",))
    snapshot = table.snapshot()
    assert snapshot.transaction(NAMES.lease("a")) is None
    assert reached(snapshot, NAMES, ["a"]) == {"a": ARRIVAL}
    again = commit_leases(table, NAMES, [batch("a", None, reached=ARRIVAL)], worker_id="w1")
    assert (again.version, again.committed, again.fenced) == (None, ("a",), ())


def test_a_lease_that_moves_on_needs_a_number(table: RecordTable) -> None:
    with pytest.raises(ValueError, match="without a transaction number"):
        batch("a", None, write_file(table.location, "a1"))


def test_the_log_says_who_brought_which_ranges(table: RecordTable) -> None:
    manifest = ShardManifest(
        lease_key="a",
        shard_id="a",
        start=ExtendedSequenceNumber.TRIM_HORIZON,
        end=ExtendedSequenceNumber(str(START + 2), 4),
        shard_end=True,
        children=(ChildShard("c1", ("a",), 0, 9), ChildShard("c2", ("a",), 10, 19)),
        last_arrival=ARRIVAL,
        files=(write_file(table.location, "f1"), write_file(table.location, "f2", arrival=ARRIVAL + GRID.length)),
    )
    commit = LeaseCommit.of_manifest(manifest, number=1, lease_counter=12)
    commit_leases(table, NAMES, [commit], worker_id="w1")
    fence(table, NAMES, "b", 4, worker_id="w2")
    created, written, fenced = table.snapshot().history()
    assert (created.version, created.worker_id, created.ranges) == (0, None, ())
    assert (written.version, written.worker_id) == (1, "w1")
    assert written.timestamp.tzinfo is not None
    (brought,) = written.ranges
    assert brought == commit.committed_range
    assert (brought.start, brought.end) == (manifest.start, manifest.end)
    assert (brought.rows, brought.files, brought.children) == (6, 2, ("c1", "c2"))
    assert brought.last_arrival == ARRIVAL + GRID.length + timedelta(milliseconds=2)
    assert fenced.note is not None
    assert [(one.lease_key, one.number) for one in fenced.note.fences] == [("b", 4)]
    assert [one.version for one in table.snapshot().history(after=1)] == [2]
    assert table.snapshot().history(after=2) == ()


def test_statistics_cover_every_row(table: RecordTable) -> None:
    """A reader that skips files by statistics misses nothing, though they know no microseconds."""
    odd = ARRIVAL + timedelta(microseconds=1500)
    file = write_file(table.location, "f", arrival=odd)
    commit_leases(table, NAMES, [batch("a", 1, file)], worker_id="w1")
    (row,) = pa.table(DeltaTable(table.location).get_add_actions(flatten=True)).to_pylist()
    assert row["num_records"] == 3
    assert row["min.sequence_number"] == file.lowest_sequence_number
    assert row["max.sequence_number"] == file.highest_sequence_number
    assert row["min.approximate_arrival_timestamp"] <= file.first_arrival
    assert row["max.approximate_arrival_timestamp"] >= file.last_arrival
    found = DeltaTable(table.location).to_pyarrow_table(
        filters=[("approximate_arrival_timestamp", ">=", file.last_arrival)]
    )
    assert found.num_rows == 1


def test_transactions_survive_a_checkpoint_of_the_log(table: RecordTable) -> None:
    commit_leases(table, NAMES, [batch("a", 5, write_file(table.location, "a5"), reached=ARRIVAL)], worker_id="w1")
    DeltaTable(table.location).create_checkpoint()
    assert commit_leases(table, NAMES, [batch("a", 5)], worker_id="w2").fenced == ("a",)
    assert reached(table.snapshot(), NAMES, ["a"]) == {"a": ARRIVAL}


# --- races -----------------------------------------------------------------------------------------------------------


def _commit_in_process(location: str, barrier: Barrier, worker: int, lease: str, rounds: int) -> list[str]:
    table = RecordTable(SparkPathConfig(table_location=location))
    won = []
    for number in range(1, rounds + 1):
        file = write_file(location, f"{lease}-{worker}-{number}", rows=1)
        barrier.wait(timeout=60)
        outcome = commit_leases(table, NAMES, [batch(lease, number, file)], worker_id=f"w{worker}")
        if outcome.committed:
            assert outcome.version is not None
            won.append(file.path)
        else:
            assert outcome.fenced == (lease,)
    return won


_shared: list[Barrier] = []


def _share(barrier: Barrier) -> None:
    _shared.append(barrier)


def _racer(arguments: tuple[str, int, str, int]) -> list[str]:
    location, worker, lease, rounds = arguments
    return _commit_in_process(location, _shared[0], worker, lease, rounds)


def _race(table: RecordTable, leases: list[str], rounds: int) -> list[list[str]]:
    # Not forked: deltalake does not work in a forked process.
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(leases))
    with context.Pool(len(leases), initializer=_share, initargs=(barrier,)) as pool:
        work = [(table.location, worker, lease, rounds) for worker, lease in enumerate(leases)]
        return pool.map(_racer, work, chunksize=1)


def test_of_two_processes_with_the_same_lease_and_number_exactly_one_wins_each_round(table: RecordTable) -> None:
    rounds = 12
    winners = _race(table, ["a", "a"], rounds)
    assert sum(len(won) for won in winners) == rounds
    in_table = {Path(path).name for path in table.snapshot().files()}
    assert in_table == {Path(path).name for won in winners for path in won}
    assert rows_of(table) == rounds


def test_independent_leases_committed_at_once_all_get_in(table: RecordTable) -> None:
    rounds = 12
    winners = _race(table, ["a", "b"], rounds)
    assert [len(won) for won in winners] == [rounds, rounds]
    assert rows_of(table) == 2 * rounds
    versions = [commit.version for commit in table.snapshot().history()]
    assert versions == list(range(2 * rounds + 1))


def test_a_fence_and_its_batch_never_both_succeed(table: RecordTable) -> None:
    """Whoever loses sees it; the table's number says the same."""
    with ThreadPoolExecutor(2) as threads:
        for round_number in range(12):
            lease = f"shard-{round_number}"
            commit = batch(lease, 1, write_file(table.location, lease, rows=1))
            fenced = threads.submit(fence, table, NAMES, lease, 1)
            written = threads.submit(commit_leases, table, NAMES, [commit], worker_id="old")
            assert fenced.result() != bool(written.result().committed)
            expected = 2 if fenced.result() else 1
            assert table.snapshot().transaction(NAMES.lease(lease)) == expected


# --- the decision ----------------------------------------------------------------------------------------------------

numbers = st.one_of(st.none(), st.integers(1, 6))
moments = st.one_of(st.none(), st.integers(0, 5).map(lambda minutes: ARRIVAL + timedelta(minutes=minutes)))
wishes = st.dictionaries(st.sampled_from("abcd"), st.tuples(numbers, moments))
tables = st.dictionaries(st.sampled_from("abcd"), st.tuples(numbers, moments))


@given(wishes, tables)
def test_a_plan_raises_every_transaction_it_touches_and_forgets_no_lease(
    wanted: dict[str, tuple[int | None, datetime | None]], held: dict[str, tuple[int | None, datetime | None]]
) -> None:
    state: dict[str, int] = {}
    for key, (number, moment) in held.items():
        if number is not None:
            state[NAMES.lease(key)] = number
        if moment is not None:
            state[NAMES.reached(key)] = int(moment.timestamp() * 1000)
    commits = [batch(key, number, reached=moment) for key, (number, moment) in wanted.items()]
    plan = plan_commit(state.get, NAMES, commits)
    assert all(version > state.get(name, -1) for name, version in plan.transactions.items())
    fenced = {lease.lease_key for lease in plan.fenced}
    accepted = {commit.lease_key for commit in plan.accepted}
    assert sorted([*fenced, *accepted, *plan.settled]) == sorted(wanted)
    for key, (number, _) in wanted.items():
        assert (key in fenced) == (number is not None and state.get(NAMES.lease(key), 0) >= number)
        assert (NAMES.lease(key) in plan.transactions) == (number is not None and key not in fenced)
        assert key not in fenced or NAMES.reached(key) not in plan.transactions


def test_a_lease_cannot_be_committed_twice_at_once() -> None:
    empty: dict[str, int] = {}
    with pytest.raises(ValueError, match="twice at once"):
        plan_commit(empty.get, NAMES, [batch("a", 1), batch("a", 2)])
