"""CBOR beside JSON, faults on order, and processes that end with their parent."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from typing import Any

import cbor2
import psutil
import pytest
import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from kcl_core.clock import SystemClock
from kcl_core.runtime import StopSignal
from kcl_core.testing.control import KinesisControl
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import HOST, EmbeddedAws, ServerProcess

SHARD = "shardId-000000000000"
CBOR = "application/x-amz-cbor-1.1"


def call_in_cbor(aws: EmbeddedAws, operation: str, **arguments: object) -> tuple[int, dict[str, Any]]:
    """Return the status and the answer, its timestamps as (epoch milliseconds,)."""
    answer = urllib3.PoolManager().request(
        "POST",
        aws.kinesis_endpoint,
        body=cbor2.dumps(arguments),
        headers={"Content-Type": CBOR, "X-Amz-Target": f"Kinesis_20131202.{operation}"},
    )
    assert answer.headers["Content-Type"] == CBOR
    decoded = cbor2.loads(answer.data, semantic_decoders={1: lambda millis, _: (millis,)}) if answer.data else {}
    return answer.status, decoded


def records_of(stream: KinesisStream) -> list[bytes]:
    given = stream.client.get_shard_iterator(StreamName=stream.name, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    return [record["Data"] for record in stream.client.get_records(ShardIterator=given)["Records"]]


def put(stream: KinesisStream, data: bytes = b"x") -> str:
    return stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=data)["SequenceNumber"]


def test_cbor_is_spoken_as_java_does(stream: KinesisStream, own_aws: EmbeddedAws, control: KinesisControl) -> None:
    """Bytes instead of base64, and timestamps in milliseconds under CBOR's tag for seconds."""
    now = int(control.status().now * 1000)
    status, _ = call_in_cbor(own_aws, "PutRecord", StreamName=stream.name, PartitionKey="k", Data=b"\x00\xff")
    assert status == 200
    where = {"StreamName": stream.name, "ShardId": SHARD, "ShardIteratorType": "AT_TIMESTAMP"}
    _, given = call_in_cbor(own_aws, "GetShardIterator", **where, Timestamp=cbor2.CBORTag(1, now))
    _, answer = call_in_cbor(own_aws, "GetRecords", ShardIterator=given["ShardIterator"])
    (record,) = answer["Records"]
    assert record["Data"] == b"\x00\xff"
    assert now <= record["ApproximateArrivalTimestamp"][0] < now + 60_000
    assert records_of(stream) == [b"\x00\xff"]


def test_errors_are_told_in_cbor_too(own_aws: EmbeddedAws, control: KinesisControl) -> None:
    assert control.status().calls == {}
    status, answer = call_in_cbor(own_aws, "DescribeStreamSummary", StreamName="none")
    assert (status, answer["__type"]) == (400, "ResourceNotFoundException")


def test_errors_happen_as_often_as_ordered(stream: KinesisStream, control: KinesisControl) -> None:
    control.inject("DescribeStreamSummary", error="AccessDeniedException", count=2)
    control.inject("DescribeStreamSummary", error="InternalFailure")
    seen = []
    for _ in range(3):
        with pytest.raises(ClientError) as caught:
            stream.client.describe_stream_summary(StreamName=stream.name)
        error = caught.value.response
        seen.append((error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]))
    assert seen == [("AccessDeniedException", 400)] * 2 + [("InternalFailure", 500)]
    stream.client.describe_stream_summary(StreamName=stream.name)
    assert control.status().faults == []
    assert control.status().calls["DescribeStreamSummary"] == 5


@pytest.mark.parametrize(("drop", "stored"), [("before", []), ("after", [b"x"])])
def test_a_lost_connection_leaves_done_what_was_done(
    drop: Any, stored: list[bytes], stream: KinesisStream, control: KinesisControl
) -> None:
    control.inject("PutRecord", drop=drop)
    with pytest.raises(BotoCoreError):
        put(stream)
    assert records_of(stream) == stored


def test_an_answer_may_break_off_half_way(stream: KinesisStream, own_aws: EmbeddedAws, control: KinesisControl) -> None:
    """Asked without boto3, which takes half an answer for an empty one."""
    control.inject("DescribeStreamSummary", drop="within")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        urllib3.PoolManager(retries=False).request(
            "POST",
            own_aws.kinesis_endpoint,
            json={"StreamName": stream.name},
            headers={"X-Amz-Target": "Kinesis_20131202.DescribeStreamSummary"},
        )


def test_an_answer_may_come_late(stream: KinesisStream, control: KinesisControl) -> None:
    control.inject("PutRecord", delay_seconds=0.5)
    clock = SystemClock()
    started = clock.monotonic()
    put(stream)
    assert clock.monotonic() - started >= 0.5
    assert records_of(stream) == [b"x"]


def test_a_share_of_a_put_fails_and_the_rest_is_stored(stream: KinesisStream, control: KinesisControl) -> None:
    control.inject("PutRecords", fail_share=0.25)
    entries: list[Any] = [{"Data": b"x", "PartitionKey": "k"}] * 8
    answer = stream.client.put_records(StreamName=stream.name, Records=entries)
    assert answer["FailedRecordCount"] == 2
    assert [record.get("ErrorCode") for record in answer["Records"]].count("InternalFailure") == 2
    assert len(records_of(stream)) == 6


def test_what_the_control_door_does_not_understand_it_refuses(control: KinesisControl) -> None:
    with pytest.raises(ValueError, match=r"count|Expected"):
        control.inject("GetRecords", count=0)
    with pytest.raises(ValueError, match=r"seconds|Expected"):
        control.advance(-1)
    assert control.status().faults == []


def test_changes_of_state_take_as_long_as_the_server_was_told() -> None:
    """CREATING, UPDATING and DELETING, on the server's own clock."""
    server = ServerProcess.spawn(
        "kinesis",
        ["kcl_core.testing.kinesis", "--with-parent", "--create-seconds=10", "--update-seconds=20"],
        None,
    )
    server.await_ready()
    try:
        control = KinesisControl(HOST, server.port)
        http = urllib3.PoolManager()

        def call(operation: str, body: dict[str, Any]) -> dict[str, Any]:
            headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"Kinesis_20131202.{operation}"}
            answer = http.request("POST", f"http://{HOST}:{server.port}", json=body, headers=headers)
            told: dict[str, Any] = answer.json() if answer.data else {}
            return told

        def status() -> str:
            told = call("DescribeStreamSummary", {"StreamName": "s"})
            return str(told.get("__type") or told["StreamDescriptionSummary"]["StreamStatus"])

        call("CreateStream", {"StreamName": "s", "ShardCount": 1})
        assert status() == "CREATING"
        assert call("ListShards", {"StreamName": "s"})["__type"] == "ResourceNotFoundException"
        control.advance(10)
        assert status() == "ACTIVE"
        wanted = {"StreamName": "s", "ShardToSplit": SHARD, "NewStartingHashKey": "1000"}
        call("SplitShard", wanted)
        assert status() == "UPDATING"
        assert call("SplitShard", wanted)["__type"] == "ResourceInUseException"
        assert len(call("ListShards", {"StreamName": "s"})["Shards"]) == 1
        control.advance(20)
        assert status() == "ACTIVE"
        assert len(call("ListShards", {"StreamName": "s"})["Shards"]) == 3
        call("DeleteStream", {"StreamName": "s"})
        assert status() == "DELETING"
        control.advance(10)
        assert status() == "ResourceNotFoundException"
    finally:
        server.close()


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
