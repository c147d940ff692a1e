from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_dagster.demo.ledger import Acknowledgement, LedgerWriter, TotalsEntry, numbers_of, ranges_of, read_ledger

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.lists(st.integers(0, 300)))
def test_ranges_hold_exactly_the_numbers_and_are_fewest(numbers: list[int]) -> None:
    ranges = ranges_of(numbers)
    assert list(numbers_of(ranges)) == sorted(set(numbers))
    assert all(before[1] + 1 < after[0] for before, after in pairwise(ranges))


def test_what_was_written_is_read_by_shard(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path) as writer:
        writer.put(NOW, [Acknowledgement("a", "99", (0, 1)), Acknowledgement("b", "7", (2,))])
        writer.put(NOW, [Acknowledgement("a", "100", (4, 3))])
        assert read_ledger(path).totals is None
        assert not read_ledger(path).is_complete
        writer.totals(TotalsEntry(rows=5, planned=5, shards={"a": 4, "b": 1}))
    ledger = read_ledger(path)
    assert ledger.rows == {"a": {0, 1, 3, 4}, "b": {2}}
    assert ledger.is_complete


def test_sequence_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path) as writer:
        writer.put(NOW, [Acknowledgement("a", "100", (0,)), Acknowledgement("a", "99", (1,))])
    assert '"first":"99","last":"100","records":2' in path.read_text()


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path) as writer:
        writer.put(NOW, [Acknowledgement("a", "1", (0,))])
    with path.open("ab") as file:
        file.write(b'{"type":"put","number":1,')
    assert read_ledger(path).rows == {"a": {0}}


def test_two_producers_never_share_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path), pytest.raises(FileExistsError):
        LedgerWriter(path)
