"""Closed windows, from real leases and a real table."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcl_core.dynamodb.location import LEASE, TableLocation
from kcl_core.errors import TableMissingError
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.kpl import UserRecord
from kcl_dagster.spark.closed_windows import ClosedWindows
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.table import RecordTable, TransactionNames
from kcl_dagster.spark.table_commit import LeaseCommit, commit_leases
from kcl_dagster.spark.window_files import WindowFiles, open_filesystem

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NAMES = TransactionNames("app", "stream", NOON)


class Lake:
    """A raw table with windows of ten minutes, and the leases that feed it."""

    def __init__(self, leases: LeaseTable, root: Path, *, allowed_lateness_seconds: int = 0) -> None:
        self.leases = leases
        self.config = SparkPathConfig(
            table_location=str(root), window_minutes=10, allowed_lateness_seconds=allowed_lateness_seconds
        )
        self.table = RecordTable(self.config)
        self.table.create_if_missing()
        self.numbers: dict[str, int] = {}
        self.closed = ClosedWindows(leases, self.table, NAMES, self.config)

    def lease(self, key: str, *parents: str, finished: bool = False) -> None:
        position = ExtendedSequenceNumber.SHARD_END if finished else ExtendedSequenceNumber.TRIM_HORIZON
        assert self.leases.create(Lease(lease_key=key, checkpoint=position, parent_shard_ids=frozenset(parents)))

    def commit(self, key: str, *minutes: int, reached: int) -> None:
        """Commit a record for each of the minutes after noon."""
        filesystem, root = open_filesystem(self.table.location, {})
        files = WindowFiles(filesystem, root, self.config.grid, VirtualClock(), stream="stream", shard_id=key)
        files.write([UserRecord(f"{m:05d}", 0, "k", None, (NOON + m * MINUTE).timestamp(), b"x") for m in minutes])
        self.numbers[key] = self.numbers.get(key, 0) + 1
        commit = LeaseCommit(
            lease_key=key,
            shard_id=key,
            number=self.numbers[key],
            start=ExtendedSequenceNumber("1"),
            end=ExtendedSequenceNumber("2"),
            files=files.close(),
            reached=NOON + reached * MINUTE,
        )
        assert commit_leases(self.table, NAMES, [commit], worker_id="w").committed == (key,)

    def look(self, after: str | None = None, limit: int = 10) -> tuple[list[tuple[str, int]], str | None]:
        grid = self.config.grid
        found = self.closed.look(grid.window_of_partition("2026-01-01", after) if after else None, limit=limit)
        windows = [(closed.window.arrival_time, closed.rows) for closed in found.windows]
        return windows, found.last.arrival_time if found.last else None


@pytest.fixture
def lake(leases: LeaseTable, tmp_path: Path) -> Lake:
    return Lake(leases, tmp_path / "table")


def test_an_empty_table_has_no_closed_window(lake: Lake) -> None:
    lake.lease("s0")
    assert lake.look() == ([], None)


def test_windows_close_as_all_leases_pass_them(lake: Lake) -> None:
    lake.lease("s0")
    lake.lease("s1")
    lake.commit("s0", 1, 2, 15, reached=16)
    assert lake.look() == ([], None)
    lake.commit("s1", 3, reached=11)
    assert lake.look() == ([("12-00", 3)], "12-00")
    assert lake.look(after="12-00") == ([], "12-00")
    lake.commit("s0", reached=21)
    lake.commit("s1", reached=21)
    assert lake.look(after="12-00") == ([("12-10", 1)], "12-10")


def test_empty_windows_are_passed_over_but_remembered(lake: Lake) -> None:
    lake.lease("s0")
    lake.commit("s0", 1, 45, reached=52)
    assert lake.look() == ([("12-00", 1), ("12-40", 1)], "12-40")
    assert lake.look(after="12-00") == ([("12-40", 1)], "12-40")


def test_a_limit_is_taken_up_by_the_next_look(lake: Lake) -> None:
    lake.lease("s0")
    lake.commit("s0", 1, 11, 21, reached=31)
    assert lake.look(limit=2) == ([("12-00", 1), ("12-10", 1)], "12-10")
    assert lake.look(after="12-10", limit=2) == ([("12-20", 1)], "12-20")


def test_children_of_a_finished_shard_keep_its_window_open_until_they_are_read(lake: Lake) -> None:
    lake.lease("s0", finished=True)
    lake.lease("s1", "s0")
    lake.commit("s0", 1, reached=5)
    assert lake.look() == ([], None)
    lake.commit("s1", 8, reached=10)
    assert lake.look() == ([("12-00", 2)], "12-00")


def test_lateness_is_the_configured_one(leases: LeaseTable, tmp_path: Path) -> None:
    lake = Lake(leases, tmp_path / "table", allowed_lateness_seconds=120)
    lake.lease("s0")
    lake.commit("s0", 1, reached=11)
    assert lake.look() == ([], None)
    lake.commit("s0", reached=12)
    assert lake.look() == ([("12-00", 1)], "12-00")


def test_a_child_whose_parent_s_lease_is_deleted_begins_where_the_parent_ended(lake: Lake) -> None:
    """The table remembers what leases reached that are no more."""
    lake.commit("s0", 1, reached=13)
    lake.lease("s1", "s0")
    assert lake.look() == ([("12-00", 1)], "12-00")


def test_a_merged_child_begins_where_the_slower_parent_ended(lake: Lake) -> None:
    lake.commit("s0", 1, reached=35)
    lake.lease("s2", "s0", "s1")
    assert lake.look() == ([], None)
    lake.commit("s1", 2, reached=12)
    assert lake.look() == ([("12-00", 2)], "12-00")


def test_a_lease_without_parents_that_was_never_read_keeps_all_open_and_is_named(lake: Lake) -> None:
    lake.lease("s0")
    lake.commit("s0", 1, reached=60)
    lake.lease("s1")
    look = lake.closed.look(None, limit=10)
    assert look.windows == ()
    assert "lease s1" in look.reason


def test_without_a_lease_nothing_closes(lake: Lake) -> None:
    lake.commit("s0", 1, reached=60)
    assert lake.look() == ([], None)


def test_windows_beyond_the_limit_are_not_forgotten_when_empty_ones_follow(lake: Lake) -> None:
    lake.lease("s0")
    lake.commit("s0", 1, 31, reached=60)
    assert lake.look(limit=1) == ([("12-00", 1)], "12-00")
    assert lake.look(after="12-00", limit=1) == ([("12-30", 1)], "12-50")


def test_a_look_writes_nothing(lake: Lake) -> None:
    lake.lease("s0")
    lake.commit("s0", 1, reached=60)
    before = lake.leases.scan().leases, lake.table.snapshot().version
    assert lake.closed.look(None, limit=10).version == before[1]
    assert (lake.leases.scan().leases, lake.table.snapshot().version) == before


def test_tables_that_are_missing_are_named(
    dynamodb: "DynamoDBClient", leases: LeaseTable, application_name: str, tmp_path: Path
) -> None:
    lake = Lake(leases, tmp_path / "table")
    nowhere = LeaseTable(dynamodb, TableLocation(f"{application_name}-no", "leaseKey", LEASE))
    with pytest.raises(TableMissingError, match=f"{application_name}-no"):
        ClosedWindows(nowhere, lake.table, NAMES, lake.config).look(None, limit=1)
    other = SparkPathConfig(table_location=str(tmp_path / "other"))
    with pytest.raises(TableMissingError, match="other"):
        ClosedWindows(leases, RecordTable(other), NAMES, other).look(None, limit=1)
