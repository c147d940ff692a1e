"""What a materialization says of where its rows came from."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.lineage import lineage_of_commit, materialization
from kcl_dagster.spark.manifest import FileManifest, ShardManifest
from kcl_dagster.spark.windows import WindowGrid

GRID = WindowGrid(60)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def file(hour: int, rows: int, numbers: tuple[str, str]) -> FileManifest:
    start = NOON + timedelta(hours=hour)
    return FileManifest(
        path="x",
        window=GRID.window_at(start),
        size=10,
        rows=rows,
        data_bytes=rows * 5,
        lowest_sequence_number=numbers[0],
        highest_sequence_number=numbers[1],
        first_arrival=start + timedelta(minutes=int(numbers[0])),
        last_arrival=start + timedelta(minutes=int(numbers[1])),
        written=start,
    )


def read(shard: str, *files: FileManifest, behind: int | None = 0, counter: int = 7) -> tuple[Lease, ShardManifest]:
    begin = ExtendedSequenceNumber.TRIM_HORIZON
    lease = Lease(lease_key=shard, checkpoint=begin, lease_counter=counter, parent_shard_ids=frozenset({"p1", "p0"}))
    manifest = ShardManifest(
        lease_key=shard, shard_id=shard, start=begin, end=begin, files=files, millis_behind_latest=behind
    )
    return lease, manifest


def test_a_commit_is_told_window_by_window() -> None:
    windows = lineage_of_commit([read("s0", file(0, 2, ("10", "20")), file(1, 3, ("30", "40")))], 5)
    assert [window.arrival_time for window in windows] == ["12-00", "13-00"]
    assert [sum(shard.rows for shard in each.shards.values()) for each in windows.values()] == [2, 3]
    assert all((each.versions, each.batches) == ((5, 5), 1) for each in windows.values())


def test_commits_of_one_window_add_up() -> None:
    noon = GRID.window_at(NOON)
    first = lineage_of_commit([read("s0", file(0, 2, ("10", "20"))), read("s1", file(0, 1, ("11", "11")))], 5)[noon]
    second = lineage_of_commit([read("s0", file(0, 4, ("21", "45")), behind=900, counter=9)], 8)[noon]
    both = first.followed_by(second)
    event = materialization(dg.AssetKey("records"), both, stream="flights", worker_id="w", rows_in_window=70)
    assert event.partition == "2026-01-01-12:00"
    facts = {name: value.value for name, value in event.metadata.items()}
    assert (facts["kcl/rows"], facts["kcl/bytes"], facts["kcl/files"], facts["kcl/batches"]) == (7, 35, 3, 2)
    assert (facts["kcl/first table version"], facts["kcl/table version"]) == (5, 8)
    assert (facts["dagster/partition_row_count"], facts["kcl/behind latest (ms)"]) == (70, 900)
    table = event.metadata["kcl/shards"]
    assert isinstance(table, dg.TableMetadataValue)
    merged = dict(table.records[0].data)
    assert (merged["shard"], merged["parents"], merged["rows"]) == ("s0", "p0, p1", 6)
    assert (merged["first sequence number"], merged["last sequence number"]) == ("10", "45")
    assert merged["lease counter"] == 9
