"""The raw table: created once, read by snapshots."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl_core.errors import ConfigurationError, TableMissingError, TableSchemaError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.manifest import FileManifest
from kcl_dagster.spark.read import reached
from kcl_dagster.spark.rows import TABLE_SCHEMA
from kcl_dagster.spark.table import RecordTable, TransactionNames
from kcl_dagster.spark.table_commit import LeaseCommit, commit_leases
from kcl_dagster.spark.windows import PARTITION_COLUMNS, Window

NAMES = TransactionNames("app", "orders", datetime(2026, 11, 20, 8, 30, 15, 999000, tzinfo=UTC))
TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
GRID = SparkPathConfig().grid


def table_in(folder: Path, window_minutes: int = 60) -> RecordTable:
    return RecordTable(SparkPathConfig(table_location=str(folder / "records"), window_minutes=window_minutes))


def put(table: RecordTable, lease_key: str, number: int, rows: dict[datetime, int]) -> None:
    """Commit one file per arrival time; the files themselves are not needed here."""
    files = tuple(
        FileManifest(
            path=f"{GRID.window_at(arrival).folder}/{lease_key}-{number}-{place}.parquet",
            window=GRID.window_at(arrival),
            size=100,
            rows=count,
            data_bytes=count,
            lowest_sequence_number="1",
            highest_sequence_number="9",
            first_arrival=arrival,
            last_arrival=arrival,
            written=arrival,
        )
        for place, (arrival, count) in enumerate(rows.items())
    )
    commit = LeaseCommit(
        lease_key=lease_key,
        shard_id=lease_key,
        number=number,
        start=ExtendedSequenceNumber("1"),
        end=ExtendedSequenceNumber("9"),
        files=files,
    )
    assert commit_leases(table, NAMES, [commit], worker_id="w").committed


def test_transactions_are_named_by_application_stream_and_its_creation() -> None:
    """A stream that was deleted and created again has leases of the same keys; they begin anew."""
    assert NAMES.lease("shardId-0") == "kcl/app/orders:1795163415/shardId-0"
    assert NAMES.reached("shardId-0") == "kcl/app/orders:1795163415/shardId-0/reached"


def test_a_table_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableMissingError, match="records"):
        table_in(tmp_path).snapshot()


def test_a_new_table_is_empty_and_knows_no_lease(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.create_if_missing()
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.files(), snapshot.rows_by_window()) == (0, (), {})
    assert snapshot.transaction(NAMES.lease("a")) is None
    assert reached(snapshot, NAMES, ["a"]) == {}


def test_creating_twice_changes_nothing(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.create_if_missing()
    put(table, "a", 1, {TEN: 3})
    table.create_if_missing()
    assert table.snapshot().version == 1


def test_many_may_create_at_once_and_one_does(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        for place in range(8):
            table = table_in(tmp_path / str(place))
            for made in [threads.submit(table.create_if_missing) for _ in range(8)]:
                made.result()
            assert table.snapshot().version == 0


def test_windows_of_another_length_are_refused(tmp_path: Path) -> None:
    table_in(tmp_path).create_if_missing()
    with pytest.raises(ConfigurationError, match="60 minutes, not of 30"):
        table_in(tmp_path, 30).create_if_missing()


@pytest.mark.parametrize("partition_by", [["data"], list(PARTITION_COLUMNS)])
def test_a_foreign_table_is_refused(tmp_path: Path, partition_by: list[str]) -> None:
    columns = pa.schema([("data", pa.string()), *((name, pa.string()) for name in PARTITION_COLUMNS)])
    DeltaTable.create(str(tmp_path / "records"), Schema.from_arrow(columns), partition_by=partition_by)
    with pytest.raises(TableSchemaError):
        table_in(tmp_path).create_if_missing()


def test_columns_that_somebody_added_are_no_obstacle(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.create_if_missing()
    added = Schema.from_arrow(pa.schema([("note", pa.string())])).fields
    DeltaTable(table.location).alter.add_columns(list(added))
    table.create_if_missing()
    put(table, "a", 1, {TEN: 3})
    assert len(table.snapshot().files()) == 1


def test_a_relative_location_is_the_one_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors run in folders of their own."""
    monkeypatch.chdir(tmp_path)
    table = RecordTable(SparkPathConfig(table_location="tables/records/"))
    assert table.location == str(tmp_path / "tables/records")
    table.create_if_missing()
    assert (tmp_path / "tables/records/_delta_log").is_dir()


def test_an_address_stays_as_it_is() -> None:
    assert RecordTable(SparkPathConfig(table_location="s3://bucket/records/")).location == "s3://bucket/records"


def test_files_are_absolute_and_of_the_windows_asked_for(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.create_if_missing()
    put(table, "a", 1, {TEN: 3, TEN + GRID.length: 4})
    put(table, "b", 1, {TEN: 5})
    snapshot = table.snapshot()
    folder = f"{table.location}/arrival_date=2026-11-21/arrival_time=10-00"
    assert snapshot.files([GRID.window_at(TEN)]) == (f"{folder}/a-1-0.parquet", f"{folder}/b-1-0.parquet")
    assert len(snapshot.files()) == 3
    assert snapshot.files([]) == ()
    assert snapshot.files([GRID.window_at(TEN - timedelta(days=1))]) == ()


def test_a_file_name_is_found_as_it_was_written(tmp_path: Path) -> None:
    """Lease keys of several streams hold colons, which the log escapes."""
    table = table_in(tmp_path)
    table.create_if_missing()
    put(table, "123:orders:17:shardId-0 50%", 1, {TEN: 1})
    (file,) = table.snapshot().files()
    assert file.endswith("/123:orders:17:shardId-0 50%-1-0.parquet")


def test_a_snapshot_does_not_change(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.create_if_missing()
    before = table.snapshot()
    put(table, "a", 1, {TEN: 3})
    assert (before.version, before.files(), before.rows_by_window()) == (0, (), {})
    assert before.transaction(NAMES.lease("a")) is None
    assert [commit.version for commit in before.history()] == [0]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.dictionaries(st.integers(0, 300), st.integers(1, 50), max_size=4), max_size=4))
def test_rows_are_counted_by_window(batches: list[dict[int, int]]) -> None:
    import tempfile  # noqa: PLC0415 - hypothesis shares function fixtures between examples

    with tempfile.TemporaryDirectory() as folder:
        table = table_in(Path(folder))
        table.create_if_missing()
        expected: dict[Window, int] = {}
        for number, batch in enumerate(batches, start=1):
            rows = {TEN + timedelta(minutes=minute): count for minute, count in batch.items()}
            put(table, "a", number, rows)
            for arrival, count in rows.items():
                window = GRID.window_at(arrival)
                expected[window] = expected.get(window, 0) + count
        found = table.snapshot().rows_by_window()
        assert found == expected
        assert list(found) == sorted(expected)


def test_the_table_shows_our_columns(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.create_if_missing()
    assert [field.name for field in DeltaTable(table.location).schema().fields] == TABLE_SCHEMA.names
