"""Parquet files of one lease, one per window."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.kpl import UserRecord
from kcl_dagster.spark.manifest import ShardManifest, decode_manifest, encode_manifest
from kcl_dagster.spark.rows import FILE_SCHEMA
from kcl_dagster.spark.window_files import WindowFiles, open_filesystem
from kcl_dagster.spark.windows import WindowGrid

GRID = WindowGrid(1)
BEGIN = ExtendedSequenceNumber.TRIM_HORIZON
START = datetime(2026, 1, 1, tzinfo=UTC)


def user(number: int, millis: int, data: bytes = b"x") -> UserRecord:
    return UserRecord(f"{number:056d}", number % 3, f"k{number}", None, START.timestamp() + millis / 1000, data)


def write(root: Path, *batches: list[UserRecord]) -> WindowFiles:
    filesystem, path = open_filesystem(str(root), {})
    files = WindowFiles(filesystem, path, GRID, VirtualClock(), stream="stream", shard_id="shard-1")
    for batch in batches:
        files.write(batch)
    return files


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    assert write(tmp_path).close() == ()
    assert list(tmp_path.rglob("*.parquet")) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.lists(st.integers(0, 300_000), max_size=20), max_size=4))
def test_every_record_is_in_the_file_of_its_window_with_true_figures(tmp_path: Path, drawn: list[list[int]]) -> None:
    numbers = iter(range(1000))
    batches = [[user(next(numbers), millis, b"d%d" % millis) for millis in batch] for batch in drawn]
    manifests = write(tmp_path, *batches).close()
    everything = [each for batch in batches for each in batch]
    assert sum(file.rows for file in manifests) == len(everything)
    assert len({file.window for file in manifests}) == len(manifests)
    for file in manifests:
        path = tmp_path / file.path
        table = parquet.ParquetFile(path).read()
        assert table.schema.equals(FILE_SCHEMA)
        rows = table.to_pylist()
        expected = [each for each in everything if GRID.window_at(arrival(each)) == file.window]
        assert [(row["sequence_number"], row["data"]) for row in rows] == [
            (e.sequence_number, e.data) for e in expected
        ]
        assert {row["shard_id"] for row in rows} == {"shard-1"}
        assert (file.rows, file.size) == (len(rows), path.stat().st_size)
        assert file.data_bytes == sum(len(row["data"]) for row in rows)
        assert file.path.startswith(file.window.folder + "/")
        arrivals = [row["approximate_arrival_timestamp"] for row in rows]
        assert (file.first_arrival, file.last_arrival) == (min(arrivals), max(arrivals))
        places = [row["sequence_number"] for row in rows]
        assert (file.lowest_sequence_number, file.highest_sequence_number) == (min(places), max(places))
    manifest = ShardManifest(
        lease_key="s", shard_id="shard-1", start=BEGIN, end=BEGIN, files=manifests, millis_behind_latest=5
    )
    assert decode_manifest(encode_manifest(manifest)) == manifest


def arrival(record: UserRecord) -> datetime:
    return START + timedelta(milliseconds=round((record.approximate_arrival_timestamp - START.timestamp()) * 1000))


def test_two_writers_of_one_shard_never_share_a_file(tmp_path: Path) -> None:
    """A task that Spark repeats writes beside the first one's files, not over them."""
    first, second = write(tmp_path, [user(1, 0)]).close(), write(tmp_path, [user(1, 0)]).close()
    assert first[0].path != second[0].path
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


@pytest.mark.parametrize(
    ("location", "kind"), [("/data/lake", "local"), ("s3://bucket/lake", "s3"), ("s3a://bucket/lake", "s3")]
)
def test_the_location_chooses_the_file_system(location: str, kind: str) -> None:
    filesystem, root = open_filesystem(location, {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    assert filesystem.type_name == kind
    assert root == location.partition("://")[2] if kind == "s3" else location
