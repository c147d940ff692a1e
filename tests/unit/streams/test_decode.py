"""Answers of Kinesis as typed values."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kcl_core.errors import EndpointUnavailableError, KinesisRequestError
from kcl_core.streams.api import MAX_HASH_KEY, ChildShard, KinesisRecord
from kcl_core.streams.decode import (
    decode_describe_stream_summary,
    decode_get_records,
    decode_list_shards,
    decode_shard_iterator,
)

HEADERS = {"Date": "Sat, 21 Nov 2026 01:02:03 GMT"}
CHILD = {
    "ShardId": "shardId-000000000001",
    "ParentShards": ["shardId-000000000000"],
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(MAX_HASH_KEY)},
}


def body(**members: Any) -> bytes:
    return msgspec.json.encode({"Records": [], "MillisBehindLatest": 0, **members})


def test_a_record_keeps_its_bytes_its_digits_and_its_milliseconds() -> None:
    number = "49590338271490256608559692538361571095921575989136588898"
    wire = {
        "SequenceNumber": number,
        "ApproximateArrivalTimestamp": 1476889707.123,
        "Data": "AP/zmsI=",
        "PartitionKey": "Straße",
        "EncryptionType": "KMS",
    }
    answer = decode_get_records(body(Records=[wire], NextShardIterator="n", MillisBehindLatest=1500), HEADERS)
    assert answer.records == (
        KinesisRecord(
            sequence_number=number,
            approximate_arrival_timestamp=1476889707.123,
            data=b"\x00\xff\xf3\x9a\xc2",
            partition_key="Straße",
            encryption_type="KMS",
        ),
    )
    assert (answer.next_shard_iterator, answer.millis_behind_latest, answer.at_shard_end) == ("n", 1500, False)


def test_server_time_is_the_date_header() -> None:
    answer = decode_get_records(body(NextShardIterator="n"), HEADERS)
    assert answer.server_time == datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}, {"Date": ""}])
def test_without_server_time_the_answer_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(KinesisRequestError, match="Date"):
        decode_get_records(body(NextShardIterator="n"), headers)


@pytest.mark.parametrize("absent", [{}, {"NextShardIterator": None}])
def test_the_last_answer_of_a_shard_names_its_children(absent: dict[str, None]) -> None:
    answer = decode_get_records(body(ChildShards=[CHILD], **absent), HEADERS)
    assert answer.at_shard_end
    assert answer.child_shards == (ChildShard("shardId-000000000001", ("shardId-000000000000",), 0, MAX_HASH_KEY),)


@pytest.mark.parametrize("absent", [{}, {"ChildShards": None}, {"ChildShards": []}])
def test_an_answer_before_the_end_names_no_children(absent: dict[str, Any]) -> None:
    assert decode_get_records(body(NextShardIterator="n", **absent), HEADERS).child_shards == ()


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({}, id="no iterator, no children"),
        pytest.param({"NextShardIterator": None, "ChildShards": None}, id="both null"),
        pytest.param({"ChildShards": [{**CHILD, "ParentShards": []}]}, id="no iterator, a child without parents"),
        pytest.param({"ChildShards": [CHILD], "NextShardIterator": "n"}, id="an iterator and children"),
    ],
)
def test_an_answer_that_contradicts_itself_on_the_shard_end_is_repeated(members: dict[str, Any]) -> None:
    """KCL's vectors of response validity: (absent, none), (absent, child without parents), (present, children)."""
    with pytest.raises(EndpointUnavailableError) as caught:
        decode_get_records(body(**members), HEADERS)
    assert caught.value.retryable


def test_members_that_are_unknown_are_ignored() -> None:
    assert decode_get_records(body(NextShardIterator="n", Later=1), HEADERS).records == ()


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b"[]", b'{"MillisBehindLatest":0}', b'{"Records":[{"Data":"?"}],"NextShardIterator":"n"}']
)
def test_a_malformed_body_is_a_typed_error(text: bytes) -> None:
    with pytest.raises(KinesisRequestError, match="malformed answer"):
        decode_get_records(text, HEADERS)
    with pytest.raises(KinesisRequestError, match="malformed answer"):
        decode_describe_stream_summary(text)
    with pytest.raises(KinesisRequestError, match="malformed answer"):
        decode_shard_iterator(text)


@pytest.mark.parametrize("token", [None, "t"])
def test_a_page_of_shards_comes_with_the_next_token(token: str | None) -> None:
    wire = {
        "ShardId": "shardId-000000000002",
        "ParentShardId": "shardId-000000000000",
        "AdjacentParentShardId": "shardId-000000000001",
        "HashKeyRange": {"StartingHashKey": "7", "EndingHashKey": str(MAX_HASH_KEY)},
        "SequenceNumberRange": {"StartingSequenceNumber": "5", "EndingSequenceNumber": "9"},
    }
    shards, next_token = decode_list_shards(msgspec.json.encode({"Shards": [wire], "NextToken": token}))
    assert next_token == token
    (shard,) = shards
    assert shard.parents == ("shardId-000000000000", "shardId-000000000001")
    assert (shard.starting_hash_key, shard.ending_hash_key) == (7, MAX_HASH_KEY)
    assert (shard.starting_sequence_number, shard.ending_sequence_number, shard.is_open) == ("5", "9", False)
