import io
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import MAX_HASH_KEY, Shard
from kcl_dagster.demo.ledger import Ledger, TotalsEntry
from kcl_dagster.demo.summary import (
    Kill,
    LandedRow,
    Summary,
    TableFacts,
    count_windows,
    find_moves,
    read_landed,
    summarize,
)
from kcl_dagster.demo.summary_view import summary_json, summary_picture
from kcl_dagster.spark.commit_log import CommitNote, CommittedRange, TableCommit
from kcl_dagster.spark.rows import FILE_SCHEMA
from kcl_dagster.spark.windows import WindowGrid

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHARD = Shard(shard_id="shard-0", starting_hash_key=0, ending_hash_key=MAX_HASH_KEY, starting_sequence_number="1")


def ledger_of(rows: dict[str, frozenset[int]], *, planned: int | None = None) -> Ledger:
    counts = {shard: len(numbers) for shard, numbers in rows.items()}
    total = sum(counts.values())
    return Ledger(rows, START, START, TotalsEntry(rows=total, planned=planned or total, shards=counts))


def table_of(rows: Iterable[LandedRow], commits: Iterable[TableCommit] = ()) -> TableFacts:
    return TableFacts(7, list(rows), list(commits), ())


def compare(ledger: Ledger, rows: Iterable[LandedRow]) -> Summary:
    return summarize(ledger, table_of(rows), stream="flights", shards=(SHARD,))


def landed(rows: dict[str, frozenset[int]]) -> list[LandedRow]:
    return [LandedRow(number, shard, str(number), 0) for shard, numbers in rows.items() for number in numbers]


def commit(version: int, worker: str, second: float, *leases: str, rows: int = 1) -> TableCommit:
    position = ExtendedSequenceNumber("1")
    ranges = tuple(
        CommittedRange(lease_key=key, shard_id=key, number=version, start=position, end=position, rows=rows)
        for key in leases
    )
    note = CommitNote(worker, f"{version}", ranges)
    return TableCommit(version, START + timedelta(seconds=second), "WRITE", note)


places = st.dictionaries(st.integers(0, 500), st.sampled_from(["shard-0", "shard-1", "shard-2"]), min_size=1)


def by_shard(rows: dict[int, str]) -> dict[str, frozenset[int]]:
    return {shard: frozenset(n for n, at in rows.items() if at == shard) for shard in set(rows.values())}


@given(places, st.data())
def test_a_table_with_each_row_once_is_exactly_once_in_any_order(rows: dict[int, str], data: st.DataObject) -> None:
    table = data.draw(st.permutations(landed(by_shard(rows))))
    summary = compare(ledger_of(by_shard(rows)), table)
    assert summary.exactly_once
    assert (summary.sent, summary.landed) == (len(rows), len(rows))
    assert all(shard.acknowledged == shard.landed for shard in summary.shards)


@given(
    places,
    st.lists(st.integers(0, 600), max_size=20),
    st.frozensets(st.integers(0, 600), max_size=20),
    st.integers(0, 3),
)
def test_each_kind_of_difference_is_counted_and_none_passes(
    rows: dict[int, str], added: list[int], lost: frozenset[int], unreadable: int
) -> None:
    kept = {number: shard for number, shard in rows.items() if number not in lost}
    table = landed(by_shard(kept)) + [LandedRow(number, rows.get(number, "shard-0"), "1", 0) for number in added]
    table += [LandedRow(None, "shard-0", "1", 0)] * unreadable
    summary = compare(ledger_of(by_shard(rows)), table)
    present = kept.keys() | set(added)
    assert summary.missing == len(rows.keys() - present)
    assert summary.unexpected == len(present - rows.keys())
    assert summary.duplicates == len(kept) + len(added) - len(present)
    assert summary.unreadable == unreadable
    assert summary.landed == len(table)
    assert summary.misplaced == 0
    assert summary.exactly_once == (present == rows.keys() and len(table) == len(rows))


def test_a_lost_row_and_a_row_twice_do_not_make_up_for_each_other() -> None:
    rows = {"shard-0": frozenset({0, 1, 2})}
    table = [LandedRow(0, "shard-0", "1", 0), LandedRow(0, "shard-0", "1", 0), LandedRow(2, "shard-0", "3", 0)]
    summary = compare(ledger_of(rows), table)
    assert (summary.landed, summary.missing, summary.duplicates) == (3, 1, 1)
    assert summary.missing_ranges == ((1, 1),)
    assert not summary.exactly_once


def test_a_row_read_from_another_shard_than_it_went_to_is_misplaced() -> None:
    summary = compare(ledger_of({"shard-0": frozenset({0})}), [LandedRow(0, "shard-1", "1", 0)])
    assert summary.misplaced == 1
    assert not summary.exactly_once


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger({"shard-0": frozenset({0})}, START, START, None),
        ledger_of({"shard-0": frozenset({0})}, planned=2),
        Ledger({"shard-0": frozenset({0})}, START, START, TotalsEntry(rows=2, planned=2, shards={"shard-0": 2})),
    ],
    ids=["cut off", "fewer rows than planned", "totals contradict the lines"],
)
def test_a_producer_that_did_not_finish_in_order_is_never_exactly_once(ledger: Ledger) -> None:
    assert not compare(ledger, [LandedRow(0, "shard-0", "1", 0)]).exactly_once


def test_nothing_sent_is_not_exactly_once() -> None:
    assert not compare(ledger_of({}), []).exactly_once


def test_recovery_is_counted_from_the_kill_to_the_first_record_of_a_new_owner() -> None:
    commits = [
        commit(1, "w1", 0, "a", "b"),
        commit(2, "w2", 1, "c"),
        commit(3, "w2", 12, "a", rows=0),
        TableCommit(4, START + timedelta(seconds=13), "OPTIMIZE", None),
        commit(5, "w2", 15, "b", "c"),
        commit(6, "w3", 17, "a", "c"),
    ]
    kill = Kill("w1", START + timedelta(seconds=2))
    moves = find_moves(commits, kill)
    assert [(m.lease_key, m.source, m.target, m.version, m.seconds_after_kill) for m in moves] == [
        ("b", "w1", "w2", 5, 13.0),
        ("a", "w1", "w3", 6, 15.0),
        ("c", "w2", "w3", 6, None),
    ]
    summary = summarize(ledger_of({}), table_of([], commits), stream="flights", shards=(), kill=kill)
    assert summary.recovery_seconds == 13.0
    assert summary.commits == 4


def test_a_lease_handed_over_before_the_kill_is_no_recovery() -> None:
    commits = [commit(1, "w1", 0, "a"), commit(2, "w2", 1, "a")]
    assert find_moves(commits, Kill("w1", START + timedelta(seconds=5)))[0].seconds_after_kill is None


def test_rows_are_read_from_the_files_given_and_payloads_without_number_are_kept(tmp_path: Path) -> None:
    payloads = [b'{"row": 4, "carrier": "UA"}', b"{}", b"\xff", b'{"row": "x"}']
    for name, part in (("one", payloads[:1]), ("two", payloads[1:]), ("not in the snapshot", payloads)):
        rows = [{"shard_id": "s", "sequence_number": "9", "sub_sequence_number": 1, "data": data} for data in part]
        pq.write_table(pa.Table.from_pylist(rows, schema=FILE_SCHEMA), tmp_path / f"{name}.parquet")
    read = read_landed([str(tmp_path / "one.parquet"), str(tmp_path / "two.parquet")])
    assert read == [LandedRow(number, "s", "9", 1) for number in (4, None, None, None)]
    assert read_landed([]) == []


def test_windows_come_in_order_of_time() -> None:
    first, second = (WindowGrid(1).window_at(START + timedelta(minutes=minute)) for minute in (0, 1))
    counted = count_windows({second: 3, first: 5}, {first.partition_key})
    assert [(w.partition_key, w.rows, w.computed) for w in counted] == [
        ("2026-01-01-12:00", 5, True),
        ("2026-01-01-12:01", 3, False),
    ]


@pytest.mark.parametrize(
    ("rows", "verdict"), [([0, 1], "exactly once."), ([0], "does not hold each row")], ids=["sound", "row missing"]
)
def test_people_and_machines_read_the_same_verdict(rows: list[int], verdict: str) -> None:
    commits = [commit(1, "w1", 0, "shard-0"), commit(2, "w2", 9, "shard-0")]
    facts = TableFacts(
        2,
        [LandedRow(number, "shard-0", "1", 0) for number in rows],
        commits,
        count_windows({WindowGrid(1).window_at(START): len(rows)}, ()),
    )
    summary = summarize(
        ledger_of({"shard-0": frozenset({0, 1})}),
        facts,
        stream="flights",
        shards=(SHARD,),
        kill=Kill("w1", START + timedelta(seconds=1)),
        places={"Dagster": "http://127.0.0.1:3000"},
    )
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(summary_picture(summary))
    text = console.export_text()
    assert verdict in text.splitlines()[-1]
    for expected in ("shard-0", "w1 -> w2", "8.0 s later", "http://127.0.0.1:3000", "2026-01-01-12:00"):
        assert expected in text
    facts_read = msgspec.json.decode(summary_json(summary))
    assert facts_read["exactly_once"] == summary.exactly_once
    assert facts_read["recovery_seconds"] == 8.0
    assert int(facts_read["stream_shards"][0]["ending_hash_key"]) == MAX_HASH_KEY
