"""Kinesis over HTTP, against the embedded Kinesis: what is read is what boto3 wrote, and every refusal has its type."""

import hashlib
import hmac
import http.server
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig
from kcl_core.errors import (
    AccessDeniedError,
    ConfigurationError,
    EndpointUnavailableError,
    ExpiredIteratorError,
    KclError,
    KinesisRequestError,
    StreamGoneError,
    StreamNotReadyError,
    StreamThrottledError,
)
from kcl_core.runtime import Runtime
from kcl_core.streams.api import MAX_HASH_KEY, IteratorPosition, ShardFilter, StreamAddress
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import CREDENTIALS, EmbeddedAws

SHARD = "shardId-000000000000"
TRIM_HORIZON = IteratorPosition("TRIM_HORIZON")


@pytest.fixture
def kinesis(embedded_aws: EmbeddedAws) -> KinesisHttp:
    return KinesisHttp(embedded_aws.config())


@pytest.fixture
def stream(kinesis_stream: KinesisStream) -> StreamAddress:
    return StreamAddress(kinesis_stream.name, kinesis_stream.arn)


@pytest.fixture(params=["name", "name and ARN"])
def address(request: pytest.FixtureRequest, kinesis_stream: KinesisStream) -> StreamAddress:
    return StreamAddress(kinesis_stream.name, kinesis_stream.arn if request.param == "name and ARN" else None)


def put(stream: KinesisStream, *data: bytes) -> list[str]:
    return [
        stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=each)["SequenceNumber"] for each in data
    ]


def split(stream: KinesisStream) -> None:
    stream.client.split_shard(StreamName=stream.name, ShardToSplit=SHARD, NewStartingHashKey=str(2**127))


def test_the_summary_is_what_boto3_says(
    kinesis: KinesisHttp, address: StreamAddress, kinesis_stream: KinesisStream
) -> None:
    summary = kinesis.describe_stream_summary(address)
    expected = kinesis_stream.client.describe_stream_summary(StreamName=kinesis_stream.name)["StreamDescriptionSummary"]
    assert (summary.name, summary.arn, summary.status) == (kinesis_stream.name, kinesis_stream.arn, "ACTIVE")
    assert abs(summary.created - expected["StreamCreationTimestamp"]) < timedelta(milliseconds=1)
    assert summary.created.tzinfo is not None
    assert (summary.retention_hours, summary.open_shard_count) == (24, 1)


def test_records_come_back_as_they_were_put(
    kinesis: KinesisHttp, address: StreamAddress, kinesis_stream: KinesisStream, embedded_aws: EmbeddedAws
) -> None:
    data = [bytes(range(256)), b"\x00", b"x" * 100_000]
    numbers = put(kinesis_stream, *data)
    answer = kinesis.get_records(address, kinesis.get_shard_iterator(address, SHARD, TRIM_HORIZON))
    assert [record.data for record in answer.records] == data
    assert [record.sequence_number for record in answer.records] == numbers
    assert {record.partition_key for record in answer.records} == {"k"}
    now = embedded_aws.kinesis_control.status().now
    assert all(0 <= now - record.approximate_arrival_timestamp < 60 for record in answer.records)
    assert 0 <= now - answer.server_time.timestamp() < 60
    assert (answer.millis_behind_latest, answer.child_shards, answer.at_shard_end) == (0, (), False)


def test_the_limit_is_kept_and_the_next_iterator_continues(
    kinesis: KinesisHttp, stream: StreamAddress, kinesis_stream: KinesisStream
) -> None:
    put(kinesis_stream, b"1", b"2", b"3")
    first = kinesis.get_records(stream, kinesis.get_shard_iterator(stream, SHARD, TRIM_HORIZON), limit=2)
    assert [record.data for record in first.records] == [b"1", b"2"]
    assert first.next_shard_iterator is not None
    assert [record.data for record in kinesis.get_records(stream, first.next_shard_iterator).records] == [b"3"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TRIM_HORIZON", [b"1", b"2", b"3"]),
        ("AT_SEQUENCE_NUMBER", [b"2", b"3"]),
        ("AFTER_SEQUENCE_NUMBER", [b"3"]),
        ("AT_TIMESTAMP", [b"3"]),
        ("LATEST", []),
    ],
)
def test_an_iterator_starts_where_it_was_asked_to(
    kind: Any,
    expected: list[bytes],
    *,
    kinesis: KinesisHttp,
    stream: StreamAddress,
    kinesis_stream: KinesisStream,
    embedded_aws: EmbeddedAws,
) -> None:
    _, second = put(kinesis_stream, b"1", b"2")
    moment = datetime.fromtimestamp(embedded_aws.kinesis_control.advance(10).now - 5, UTC)
    put(kinesis_stream, b"3")
    position = IteratorPosition(
        kind, second if "SEQUENCE" in kind else None, moment if kind == "AT_TIMESTAMP" else None
    )
    answer = kinesis.get_records(stream, kinesis.get_shard_iterator(stream, SHARD, position))
    assert [record.data for record in answer.records] == expected


def test_the_last_answer_of_a_split_shard_names_its_children(
    kinesis: KinesisHttp, stream: StreamAddress, kinesis_stream: KinesisStream
) -> None:
    put(kinesis_stream, b"1")
    split(kinesis_stream)
    answer = kinesis.get_records(stream, kinesis.get_shard_iterator(stream, SHARD, TRIM_HORIZON))
    assert [record.data for record in answer.records] == [b"1"]
    assert answer.at_shard_end
    assert [(child.parent_shards, child.starting_hash_key, child.ending_hash_key) for child in answer.child_shards] == [
        ((SHARD,), 0, 2**127 - 1),
        ((SHARD,), 2**127, MAX_HASH_KEY),
    ]


def test_shards_are_listed_with_their_family_and_filtered(
    kinesis: KinesisHttp, address: StreamAddress, kinesis_stream: KinesisStream
) -> None:
    split(kinesis_stream)
    parent, low, high = kinesis.list_shards(address)
    assert (parent.shard_id, parent.parents, parent.is_open) == (SHARD, (), False)
    assert [(child.parents, child.is_open) for child in (low, high)] == [((SHARD,), True)] * 2
    assert (low.starting_hash_key, high.ending_hash_key) == (0, MAX_HASH_KEY)
    assert kinesis.list_shards(address, ShardFilter("AT_LATEST")) == (low, high)
    assert kinesis.list_shards(address, ShardFilter("AFTER_SHARD_ID", shard_id=low.shard_id)) == (high,)
    created = kinesis.describe_stream_summary(address).created
    assert parent in kinesis.list_shards(address, ShardFilter("FROM_TIMESTAMP", timestamp=created))


def test_a_listing_goes_over_all_pages(kinesis: KinesisHttp, embedded_aws: EmbeddedAws, application_name: str) -> None:
    client = embedded_aws.config().kinesis()
    client.create_stream(StreamName=application_name, ShardCount=1001)
    arn = client.describe_stream_summary(StreamName=application_name)["StreamDescriptionSummary"]["StreamARN"]
    try:
        for address in (StreamAddress(application_name), StreamAddress(application_name, arn)):
            shards = kinesis.list_shards(address, ShardFilter("AT_LATEST"))
            assert len({shard.shard_id for shard in shards}) == len(shards) == 1001
    finally:
        client.delete_stream(StreamName=application_name)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ProvisionedThroughputExceededException", StreamThrottledError),
        ("LimitExceededException", StreamThrottledError),
        ("KMSThrottlingException", StreamThrottledError),
        ("ThrottlingException", StreamThrottledError),
        ("AccessDeniedException", AccessDeniedError),
        ("com.amazonaws.kinesis#AccessDeniedException", AccessDeniedError),
        ("ExpiredTokenException", AccessDeniedError),
        ("ExpiredIteratorException", ExpiredIteratorError),
        ("InvalidArgumentException", ExpiredIteratorError),
        ("ResourceNotFoundException", StreamGoneError),
        ("ResourceInUseException", StreamNotReadyError),
        ("InternalFailure", EndpointUnavailableError),
        ("ServiceUnavailable", EndpointUnavailableError),
        ("ValidationException", KinesisRequestError),
        ("KMSDisabledException", KinesisRequestError),
    ],
)
def test_every_refusal_has_its_type(
    code: str, expected: type[KclError], kinesis: KinesisHttp, stream: StreamAddress, embedded_aws: EmbeddedAws
) -> None:
    iterator = kinesis.get_shard_iterator(stream, SHARD, TRIM_HORIZON)
    embedded_aws.kinesis_control.inject("GetRecords", error=code)
    with pytest.raises(KclError) as caught:
        kinesis.get_records(stream, iterator)
    assert type(caught.value) is expected
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert kinesis.get_records(stream, iterator).records == ()


def test_an_invalid_argument_elsewhere_is_not_an_expired_iterator(kinesis: KinesisHttp, stream: StreamAddress) -> None:
    with pytest.raises(KinesisRequestError, match="InvalidArgumentException"):
        kinesis.get_shard_iterator(stream, SHARD, IteratorPosition("AT_SEQUENCE_NUMBER"))


def test_a_stream_or_shard_that_does_not_exist_is_gone(kinesis: KinesisHttp, stream: StreamAddress) -> None:
    with pytest.raises(StreamGoneError, match="no-such-stream"):
        kinesis.describe_stream_summary(StreamAddress("no-such-stream"))
    with pytest.raises(StreamGoneError, match="shardId-000000000009"):
        kinesis.get_shard_iterator(stream, "shardId-000000000009", TRIM_HORIZON)


def test_an_iterator_expires(kinesis: KinesisHttp, stream: StreamAddress, embedded_aws: EmbeddedAws) -> None:
    iterator = kinesis.get_shard_iterator(stream, SHARD, TRIM_HORIZON)
    embedded_aws.kinesis_control.advance(301)
    with pytest.raises(ExpiredIteratorError):
        kinesis.get_records(stream, iterator)


def test_the_quota_of_a_shard_is_a_throttle(
    kinesis: KinesisHttp, stream: StreamAddress, embedded_aws: EmbeddedAws
) -> None:
    iterator = kinesis.get_shard_iterator(stream, SHARD, TRIM_HORIZON)
    embedded_aws.kinesis_control.quotas(on=True)
    try:
        with pytest.raises(StreamThrottledError):  # noqa: PT012 - five calls a second are good, one of these is not
            for _ in range(50):
                kinesis.get_records(stream, iterator)
    finally:
        embedded_aws.kinesis_control.quotas(on=False)


@pytest.mark.parametrize("drop", ["before", "after", "within"])
def test_a_connection_that_breaks_once_goes_unnoticed(
    drop: Any, kinesis: KinesisHttp, stream: StreamAddress, kinesis_stream: KinesisStream, embedded_aws: EmbeddedAws
) -> None:
    put(kinesis_stream, b"1")
    iterator = kinesis.get_shard_iterator(stream, SHARD, TRIM_HORIZON)
    embedded_aws.kinesis_control.inject("GetRecords", drop=drop)
    assert [record.data for record in kinesis.get_records(stream, iterator).records] == [b"1"]


def test_a_connection_that_breaks_twice_is_an_error_that_may_be_retried(
    kinesis: KinesisHttp, stream: StreamAddress, embedded_aws: EmbeddedAws
) -> None:
    embedded_aws.kinesis_control.inject("DescribeStreamSummary", drop="before", count=2)
    with pytest.raises(EndpointUnavailableError) as caught:
        kinesis.describe_stream_summary(stream)
    assert caught.value.retryable
    assert kinesis.describe_stream_summary(stream).name == stream.name


def test_an_answer_that_does_not_come_is_given_up(embedded_aws: EmbeddedAws, stream: StreamAddress) -> None:
    hasty = KinesisHttp(embedded_aws.config(), request_timeout=timedelta(seconds=0.05))
    embedded_aws.kinesis_control.inject("DescribeStreamSummary", delay_seconds=0.3, count=2)
    with pytest.raises(EndpointUnavailableError, match="timed out"):
        hasty.describe_stream_summary(stream)


def test_nobody_at_the_endpoint_is_an_error_that_may_be_retried(embedded_aws: EmbeddedAws) -> None:
    nobody = embedded_aws.config().model_copy(update={"kinesis_endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(EndpointUnavailableError) as caught:
        KinesisHttp(nobody).describe_stream_summary(StreamAddress("s"))
    assert caught.value.retryable


def test_it_travels_to_other_processes_by_its_settings(kinesis: KinesisHttp, stream: StreamAddress) -> None:
    kinesis.describe_stream_summary(stream)
    travelled = pickle.loads(pickle.dumps(kinesis))
    assert travelled.describe_stream_summary(stream).name == stream.name


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in (*CREDENTIALS, "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    ("aws", "setting"),
    [
        (AwsConfig(), "aws.region_name"),
        (AwsConfig(region_name="eu-west-1"), "AWS credentials"),
        (AwsConfig(region_name="eu-west-1", profile_name="nobody"), "aws.profile_name"),
    ],
)
def test_what_is_not_set_up_is_named(aws: AwsConfig, setting: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KinesisHttp(aws).describe_stream_summary(StreamAddress("s"))
    assert caught.value.setting == setting


class _Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps the one request that it answers."""

    seen: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(200)
        self.send_header("Content-Length", "21")
        self.end_headers()
        self.wfile.write(b'{"ShardIterator":"i"}')

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def recorder() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Recorder) as server:
        runtime = Runtime(SystemClock())
        runtime.start("recorder", server.handle_request, timedelta(hours=1))
        yield f"http://127.0.0.1:{server.server_port}"
        runtime.stop()


def signature(secret: str, headers: dict[str, str], path: str, body: bytes) -> str:
    """The signature as AWS's reference of Signature Version 4 has it, from what arrived."""
    fields = dict(part.strip().split("=", 1) for part in headers["authorization"].partition(" ")[2].split(","))
    scope = fields["Credential"].split("/", 1)[1]
    signed = fields["SignedHeaders"].split(";")
    assert {"host", "x-amz-date", "x-amz-target"} <= set(signed)
    lines = [f"{name}:{headers[name]}" for name in signed]
    request = "\n".join(["POST", path, "", *lines, "", ";".join(signed), hashlib.sha256(body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


@pytest.mark.parametrize("token", [None, "session-token"])
def test_what_arrives_bears_its_signature(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    if token is not None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    with recorder() as endpoint:
        kinesis = KinesisHttp(AwsConfig(region_name="eu-west-1", kinesis_endpoint_url=endpoint))
        assert kinesis.get_shard_iterator(StreamAddress("s", "arn:s"), SHARD, TRIM_HORIZON) == "i"
    path, headers, body = _Recorder.seen.pop()
    assert headers["authorization"].endswith(f"Signature={signature('the-secret', headers, path, body)}")
    assert "AKIDEXAMPLE/" in headers["authorization"]
    assert "/eu-west-1/kinesis/aws4_request" in headers["authorization"]
    assert headers.get("x-amz-security-token") == token
    assert headers["content-type"] == "application/x-amz-json-1.1"
    assert headers["x-amz-target"] == "Kinesis_20131202.GetShardIterator"
    assert b'"StreamARN":"arn:s"' in body
    assert b'"StreamName":"s"' in body
