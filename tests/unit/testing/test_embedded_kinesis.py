"""What only our Kinesis can: move time, enforce quotas, fail on order; and that it ends with its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import cbor2
import psutil
import pytest
import urllib3
from botocore.exceptions import ClientError

from kcl_core.clock import SystemClock
from kcl_core.errors import StreamThrottledError
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.control import KinesisControl
from kcl_core.testing.server import EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

STREAM = "stream"
SHARD = "shardId-000000000000"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def own_aws(embedded_aws: EmbeddedAws) -> Iterator[EmbeddedAws]:
    """Servers of our own: these tests move the time and reset everything."""
    assert embedded_aws.process_ids
    with EmbeddedAws.start() as aws:
        yield aws


@pytest.fixture
def control(own_aws: EmbeddedAws) -> KinesisControl:
    own_aws.kinesis_control.reset()
    return own_aws.kinesis_control


@pytest.fixture
def client(own_aws: EmbeddedAws, control: KinesisControl) -> "KinesisClient":
    made = own_aws.config().kinesis()
    assert control.status().calls == {}
    made.create_stream(StreamName=STREAM, ShardCount=1)
    return made


def iterator(client: "KinesisClient", kind: Any = "TRIM_HORIZON") -> str:
    return client.get_shard_iterator(StreamName=STREAM, ShardId=SHARD, ShardIteratorType=kind)["ShardIterator"]


def put(client: "KinesisClient", count: int, size: int = 1) -> None:
    for first in range(0, count, 500):
        entries: list[Any] = [{"Data": b"x" * size, "PartitionKey": "k"}] * min(500, count - first)
        answer = client.put_records(StreamName=STREAM, Records=entries)
        assert answer["FailedRecordCount"] == 0


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


def test_iterators_expire_after_five_minutes(client: "KinesisClient", control: KinesisControl) -> None:
    given = iterator(client)
    control.advance(299)
    client.get_records(ShardIterator=given)
    control.advance(2)
    with pytest.raises(ClientError) as error:
        client.get_records(ShardIterator=given)
    assert code(error) == "ExpiredIteratorException"


def test_records_leave_with_the_retention(client: "KinesisClient", control: KinesisControl) -> None:
    put(client, 2)
    control.advance(23 * 3600)
    put(client, 1)
    assert len(client.get_records(ShardIterator=iterator(client))["Records"]) == 3
    control.advance(2 * 3600)
    assert len(client.get_records(ShardIterator=iterator(client))["Records"]) == 1


def test_the_age_of_the_position_is_told(client: "KinesisClient", control: KinesisControl) -> None:
    put(client, 2)
    control.advance(60)
    put(client, 1)
    behind = client.get_records(ShardIterator=iterator(client), Limit=1)
    assert behind["MillisBehindLatest"] >= 59_000
    tip = client.get_records(ShardIterator=behind["NextShardIterator"])
    assert tip["MillisBehindLatest"] == 0


def test_an_answer_holds_at_most_10_000_records_and_10_mib(client: "KinesisClient") -> None:
    put(client, 10_500)
    first = client.get_records(ShardIterator=iterator(client))
    assert len(first["Records"]) == 10_000
    latest = iterator(client, "LATEST")
    for _ in range(12):
        client.put_record(StreamName=STREAM, PartitionKey="k", Data=b"x" * (MIB - 10))
    answer = client.get_records(ShardIterator=latest)
    assert 9 <= len(answer["Records"]) <= 10
    assert len(client.get_records(ShardIterator=answer["NextShardIterator"])["Records"]) >= 2


def test_reads_are_throttled_per_shard_once_quotas_are_on(
    client: "KinesisClient", own_aws: EmbeddedAws, control: KinesisControl
) -> None:
    """Five calls a second and shard. Asked through our own client, because boto3 hides throttling by repeating."""
    http, given = KinesisHttp(own_aws.config()), iterator(client)
    for _ in range(20):
        http.get_records(StreamAddress(STREAM), given)
    control.quotas(on=True)

    def read_often() -> None:
        for _ in range(20):
            http.get_records(StreamAddress(STREAM), given)

    with pytest.raises(StreamThrottledError):
        read_often()


def test_faults_happen_as_often_as_ordered(client: "KinesisClient", control: KinesisControl) -> None:
    control.inject("DescribeStreamSummary", error="AccessDeniedException", count=2)
    for _ in range(2):
        with pytest.raises(ClientError) as error:
            client.describe_stream_summary(StreamName=STREAM)
        assert code(error) == "AccessDeniedException"
    client.describe_stream_summary(StreamName=STREAM)
    assert control.status().faults == []


def test_a_share_of_a_put_fails_and_the_rest_is_stored(client: "KinesisClient", control: KinesisControl) -> None:
    control.inject("PutRecords", fail_share=0.25)
    entries: list[Any] = [{"Data": b"x", "PartitionKey": "k"}] * 8
    answer = client.put_records(StreamName=STREAM, Records=entries)
    assert answer["FailedRecordCount"] == 2
    assert len(client.get_records(ShardIterator=iterator(client))["Records"]) == 6


def test_on_demand_streams_start_with_four_shards_and_modes_change(client: "KinesisClient") -> None:
    client.create_stream(StreamName="on-demand", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    summary = client.describe_stream_summary(StreamName="on-demand")["StreamDescriptionSummary"]
    assert (summary["OpenShardCount"], summary["StreamModeDetails"]["StreamMode"]) == (4, "ON_DEMAND")
    client.update_stream_mode(StreamARN=summary["StreamARN"], StreamModeDetails={"StreamMode": "PROVISIONED"})
    changed = client.describe_stream_summary(StreamName="on-demand")["StreamDescriptionSummary"]
    assert changed["StreamModeDetails"]["StreamMode"] == "PROVISIONED"


def test_cbor_is_spoken_as_java_does(client: "KinesisClient", own_aws: EmbeddedAws) -> None:
    put(client, 1, size=3)
    http = urllib3.PoolManager()

    def call(operation: str, **arguments: object) -> bytes:
        answer = http.request(
            "POST",
            own_aws.kinesis_endpoint,
            body=cbor2.dumps(arguments),
            headers={"Content-Type": "application/x-amz-cbor-1.1", "X-Amz-Target": f"Kinesis_20131202.{operation}"},
        )
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/x-amz-cbor-1.1"
        return answer.data

    given = cbor2.loads(call("GetShardIterator", StreamName=STREAM, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON"))
    # Looked for in the bytes: Kinesis's timestamps are milliseconds under CBOR's tag for seconds, as Java wants them.
    assert cbor2.dumps(b"xxx") in call("GetRecords", ShardIterator=given["ShardIterator"])


def test_the_servers_end_with_a_parent_that_is_killed(embedded_aws: EmbeddedAws) -> None:
    """No orphan keeps a port, whatever happens to a test run."""
    assert embedded_aws.process_ids
    script = (
        "from kcl_core.testing.server import EmbeddedAws\n"
        "aws = EmbeddedAws.start()\n"
        "print(*aws.process_ids, flush=True)\n"
        "input()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert all(child.is_running() for child in children)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    if parent.stdin is not None:
        parent.stdin.close()
    clock, pause = SystemClock(), StopSignal()
    deadline = clock.monotonic() + 20
    while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
        assert clock.monotonic() < deadline, "a server outlived its parent"
        pause.wait(timedelta(milliseconds=100))
