"""Kinesis's JSON answers as typed values. Parsed by msgspec: boto3's parser takes several times as long per record."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeVar

import msgspec

from kcl_core.errors import EndpointUnavailableError, KinesisRequestError
from kcl_core.streams.api import ChildShard, GetRecordsAnswer, KinesisRecord, Shard, StreamSummary


class _Wire(msgspec.Struct, rename="pascal", gc=False):
    """Members are named as on the wire; unknown ones are ignored."""


class _HashKeyRange(_Wire):
    starting_hash_key: str
    ending_hash_key: str


class _SequenceNumberRange(_Wire):
    starting_sequence_number: str
    ending_sequence_number: str | None = None


class _Shard(_Wire):
    shard_id: str
    hash_key_range: _HashKeyRange
    sequence_number_range: _SequenceNumberRange
    parent_shard_id: str | None = None
    adjacent_parent_shard_id: str | None = None


class _ListShards(_Wire):
    shards: list[_Shard] = []
    next_token: str | None = None


class _ChildShard(_Wire):
    shard_id: str
    parent_shards: list[str]
    hash_key_range: _HashKeyRange


class _GetRecords(_Wire):
    records: list[KinesisRecord]
    next_shard_iterator: str | None = None
    millis_behind_latest: int | None = None
    child_shards: list[_ChildShard] | None = None


class _Summary(_Wire):
    stream_name: str
    stream_status: Literal["CREATING", "DELETING", "ACTIVE", "UPDATING"]
    stream_creation_timestamp: float
    retention_period_hours: int
    open_shard_count: int
    stream_arn: str = msgspec.field(name="StreamARN")


class _DescribeStreamSummary(_Wire):
    stream_description_summary: _Summary


class _ShardIterator(_Wire):
    shard_iterator: str


Answer = TypeVar("Answer")

_get_records = msgspec.json.Decoder(_GetRecords)
_list_shards = msgspec.json.Decoder(_ListShards)
_describe_stream_summary = msgspec.json.Decoder(_DescribeStreamSummary)
_shard_iterator = msgspec.json.Decoder(_ShardIterator)


def decode_get_records(body: bytes, headers: Mapping[str, str]) -> GetRecordsAnswer:
    """Return the answer of GetRecords.

    Args:
        body: JSON.
        headers: of the answer; ``Date`` is Kinesis's clock.

    Raises:
        EndpointUnavailableError: the answer contradicts itself on whether the shard has ended. Nothing of it may be
            used: a shard finished by mistake is never read again (KCL: KinesisDataFetcher.isValidResult).
        KinesisRequestError: the body is not what the API reference says.
    """
    answer = _decode(_get_records, body, "GetRecords")
    children = answer.child_shards or []
    if (answer.next_shard_iterator is None) != bool(children) or not all(child.parent_shards for child in children):
        raise EndpointUnavailableError(
            service="Kinesis",
            operation="GetRecords",
            cause=f"an answer {'with' if answer.next_shard_iterator else 'without'} a next iterator has the child"
            f" shards {[(child.shard_id, child.parent_shards) for child in children]}",
        )
    return GetRecordsAnswer(
        tuple(answer.records),
        answer.next_shard_iterator,
        answer.millis_behind_latest or 0,
        tuple(
            ChildShard(
                child.shard_id,
                tuple(child.parent_shards),
                int(child.hash_key_range.starting_hash_key),
                int(child.hash_key_range.ending_hash_key),
            )
            for child in children
        ),
        _server_time(headers),
    )


def decode_list_shards(body: bytes) -> tuple[list[Shard], str | None]:
    """Return one page of ListShards, and the token of the next.

    Raises:
        KinesisRequestError: the body is not what the API reference says.
    """
    answer = _decode(_list_shards, body, "ListShards")
    shards = [
        Shard(
            shard_id=shard.shard_id,
            parent_shard_id=shard.parent_shard_id,
            adjacent_parent_shard_id=shard.adjacent_parent_shard_id,
            starting_hash_key=int(shard.hash_key_range.starting_hash_key),
            ending_hash_key=int(shard.hash_key_range.ending_hash_key),
            starting_sequence_number=shard.sequence_number_range.starting_sequence_number,
            ending_sequence_number=shard.sequence_number_range.ending_sequence_number,
        )
        for shard in answer.shards
    ]
    return shards, answer.next_token


def decode_describe_stream_summary(body: bytes) -> StreamSummary:
    """Return the answer of DescribeStreamSummary.

    Raises:
        KinesisRequestError: the body is not what the API reference says.
    """
    summary = _decode(_describe_stream_summary, body, "DescribeStreamSummary").stream_description_summary
    return StreamSummary(
        summary.stream_name,
        summary.stream_arn,
        summary.stream_status,
        datetime.fromtimestamp(summary.stream_creation_timestamp, UTC),
        summary.retention_period_hours,
        summary.open_shard_count,
    )


def decode_shard_iterator(body: bytes) -> str:
    """Return the answer of GetShardIterator.

    Raises:
        KinesisRequestError: the body is not what the API reference says.
    """
    return _decode(_shard_iterator, body, "GetShardIterator").shard_iterator


def _decode(decoder: "msgspec.json.Decoder[Answer]", body: bytes, operation: str) -> Answer:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise KinesisRequestError(operation=operation, code="malformed answer", message=str(error)) from error


def _server_time(headers: Mapping[str, Any]) -> datetime:
    """Return the ``Date`` header, which every answer of AWS has.

    Raises:
        KinesisRequestError: there is none; without it nobody knows what time the tip of the shard is at.
    """
    try:
        return parsedate_to_datetime(headers["Date"]).astimezone(UTC)
    except (KeyError, ValueError) as error:
        raise KinesisRequestError(
            operation="GetRecords", code="malformed answer", message=f"no usable Date header: {headers.get('Date')!r}"
        ) from error
