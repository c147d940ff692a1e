"""How the ranges of one Spark task share its time, on an embedded Kinesis that answers slowly."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.fetch import FetchSettings, fetch_ranges
from kcl_dagster.spark.manifest import ShardManifest
from kcl_dagster.spark.ranges import LeaseRange

SHARD = "shardId-000000000000"
RECORDS = 8
SLOW = 0.4


class Task:
    """Reads the test's shard once per lease key, a record per answer, in two seconds altogether."""

    def __init__(self, aws: EmbeddedAws, stream: KinesisStream, root: Path) -> None:
        self.control = aws.kinesis_control
        self.kinesis = KinesisHttp(aws.config())
        self.settings = FetchSettings(
            aws=aws.config(),
            stream=StreamAddress(stream.name),
            location=str(root),
            path=SparkPathConfig(max_batch_seconds=2.0),
            timestamp=None,
            records_per_call=1,
            request_timeout=timedelta(seconds=5),
        )

    def read(self, *keys: str, start: ExtendedSequenceNumber = ExtendedSequenceNumber.TRIM_HORIZON) -> Any:
        ranges = tuple(LeaseRange(lease_key=key, shard_id=SHARD, start=start) for key in keys)
        manifests: list[ShardManifest] = fetch_ranges(self.kinesis, ranges, self.settings)
        assert [manifest.lease_key for manifest in manifests] == list(keys)
        return manifests


@pytest.fixture
def task(embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, tmp_path: Path) -> Task:
    for number in range(RECORDS):
        kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="k", Data=b"%d" % number)
    return Task(embedded_aws, kinesis_stream, tmp_path)


def test_a_range_ends_at_its_share_of_the_time_and_leaves_the_next_its_own(task: Task) -> None:
    task.control.inject("GetRecords", count=3, delay_seconds=SLOW)
    slow, quick = task.read("a", "b")
    assert 1 <= slow.rows <= 3
    assert (slow.at_tip, slow.problem, slow.reached) == (False, None, slow.last_arrival)
    assert (quick.rows, quick.at_tip) == (RECORDS, True)


def test_what_the_deadline_cut_off_the_next_batch_reads(task: Task) -> None:
    task.control.inject("GetRecords", count=3, delay_seconds=SLOW)
    (first, _) = task.read("a", "b")
    (rest,) = task.read("a", start=first.end)
    assert first.rows + rest.rows == RECORDS
    assert rest.at_tip


def test_time_that_one_range_leaves_over_the_next_may_use(task: Task) -> None:
    """Three slow answers take longer than half of the time."""
    (whole,) = task.read("tip")
    task.control.inject("GetRecords", delay_seconds=0.001)
    task.control.inject("GetRecords", count=3, delay_seconds=SLOW)
    ranges = (
        LeaseRange(lease_key="idle", shard_id=SHARD, start=whole.end),
        LeaseRange(lease_key="busy", shard_id=SHARD, start=ExtendedSequenceNumber.TRIM_HORIZON),
    )
    idle, busy = fetch_ranges(task.kinesis, ranges, task.settings)
    assert (idle.rows, idle.advanced, idle.at_tip) == (0, False, True)
    assert (busy.rows, busy.at_tip) == (RECORDS, True)
