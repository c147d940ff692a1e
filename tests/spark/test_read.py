"""The table as Spark shows it: what was committed, and nothing else that lies in its folder."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.kpl import UserRecord
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.manifest import FileManifest
from kcl_dagster.spark.read import read_records
from kcl_dagster.spark.rows import TABLE_SCHEMA, record_batch, spark_ddl
from kcl_dagster.spark.table import RecordTable, TransactionNames
from kcl_dagster.spark.table_commit import LeaseCommit, commit_leases

pytestmark = pytest.mark.spark

TEN = datetime(2026, 11, 21, 10, 0, 0, 123000, tzinfo=UTC)
GRID = SparkPathConfig().grid
HOUR = timedelta(hours=1)
NAMES = TransactionNames("app", "orders", TEN)


@pytest.fixture
def table(tmp_path: Path) -> RecordTable:
    made = RecordTable(SparkPathConfig(table_location=str(tmp_path / "records")))
    made.create_if_missing()
    return made


def write(table: RecordTable, name: str, arrival: datetime, payloads: list[bytes]) -> FileManifest:
    window = GRID.window_at(arrival)
    path = f"{window.folder}/{name}.parquet"
    target = Path(table.location) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    users = [UserRecord(str(n), 0, "k", None, arrival.timestamp(), data) for n, data in enumerate(payloads, start=1)]
    pq.write_table(pa.Table.from_batches([record_batch("orders", "shard", users)]), target, compression="zstd")
    return FileManifest(
        path=path,
        window=window,
        size=target.stat().st_size,
        rows=len(users),
        data_bytes=sum(map(len, payloads)),
        lowest_sequence_number="1",
        highest_sequence_number=str(len(users)),
        first_arrival=arrival,
        last_arrival=arrival,
        written=arrival,
    )


def commit(table: RecordTable, number: int, *files: FileManifest) -> None:
    place = ExtendedSequenceNumber(str(number))
    made = LeaseCommit(lease_key="a", shard_id="a", number=number, start=place, end=place, files=files)
    assert commit_leases(table, NAMES, [made], worker_id="w").committed


def payloads(spark: SparkSession, table: RecordTable, *hours: int) -> list[bytes]:
    windows = [GRID.window_at(TEN + hour * HOUR) for hour in hours] if hours else None
    return sorted(bytes(row["data"]) for row in read_records(spark, table.snapshot(), windows).collect())


def test_an_empty_table_has_columns_but_no_rows(spark: SparkSession, table: RecordTable) -> None:
    frame = read_records(spark, table.snapshot())
    assert frame.columns == TABLE_SCHEMA.names
    assert frame.count() == 0


def test_every_column_comes_back_as_it_was_written(spark: SparkSession, table: RecordTable) -> None:
    """The partition columns too: they are in the files' places only."""
    commit(table, 1, write(table, "f", TEN, [b"\x00\xff"]))
    frame = read_records(spark, table.snapshot())
    assert ", ".join(f"{name} {kind}" for name, kind in frame.dtypes) == spark_ddl(TABLE_SCHEMA)
    (row,) = frame.selectExpr("*", "unix_millis(approximate_arrival_timestamp) AS millis").collect()
    assert (row["stream"], row["shard_id"], row["sequence_number"], bytes(row["data"])) == (
        "orders",
        "shard",
        "1",
        b"\x00\xff",
    )
    assert row["millis"] == round(TEN.timestamp() * 1000)
    assert (row["arrival_date"], row["arrival_time"]) == ("2026-11-21", "10-00")
    assert row["explicit_hash_key"] is None


def test_only_the_windows_asked_for_are_read(spark: SparkSession, table: RecordTable) -> None:
    commit(table, 1, *(write(table, f"f{hour}", TEN + hour * HOUR, [b"%d" % hour]) for hour in range(3)))
    assert payloads(spark, table) == [b"0", b"1", b"2"]
    assert payloads(spark, table, 0, 2) == [b"0", b"2"]
    assert payloads(spark, table, 9) == []


def test_partition_columns_keep_their_type_even_if_one_window_is_read(spark: SparkSession, table: RecordTable) -> None:
    """Never inferred: a date would become a date, and 10-00 something else."""
    commit(table, 1, write(table, "f", TEN, [b"x"]))
    frame = read_records(spark, table.snapshot(), [GRID.window_at(TEN)])
    assert frame.where("arrival_date = '2026-11-21' AND arrival_time = '10-00'").count() == 1
    assert frame.where("arrival_time = '11-00'").count() == 0


def test_files_that_were_never_committed_are_not_read(spark: SparkSession, table: RecordTable) -> None:
    commit(table, 1, write(table, "f", TEN, [b"x"]))
    write(table, "orphan", TEN, [b"lost"])
    assert payloads(spark, table) == [b"x"]


def test_rows_are_there_once_after_a_compaction(spark: SparkSession, table: RecordTable) -> None:
    for number in range(1, 5):
        commit(table, number, write(table, f"f{number}", TEN, [b"%d" % number]))
    before = table.snapshot()
    DeltaTable(table.location).optimize.compact()
    assert len(table.snapshot().files()) == 1
    assert payloads(spark, table) == [b"1", b"2", b"3", b"4"]
    assert read_records(spark, before).count() == 4
    assert table.snapshot().rows_by_window() == {GRID.window_at(TEN): 4}
    assert table.snapshot().history(after=4)[0].worker_id is None


def test_a_snapshot_shows_nothing_of_later_commits(spark: SparkSession, table: RecordTable) -> None:
    commit(table, 1, write(table, "f1", TEN, [b"1"]))
    frame = read_records(spark, table.snapshot())
    commit(table, 2, write(table, "f2", TEN, [b"2"]))
    assert frame.count() == 1
