"""The data path: putting and getting records."""

import binascii
from typing import Any

import msgspec

from kcl_core.streams.api import MAX_HASH_KEY
from kcl_core.testing.kinesis import requests
from kcl_core.testing.kinesis.account import Account, find_shard
from kcl_core.testing.kinesis.errors import ApiError, invalid, malformed, not_found, throttled
from kcl_core.testing.kinesis.faults import failing
from kcl_core.testing.kinesis.model import Shard, Stream
from kcl_core.testing.kinesis.sequence import hash_key_of, shard_id, shard_number_of
from kcl_core.testing.kinesis.tokens import IteratorToken, check_age, seal, unseal

MAX_REQUEST_BYTES = 10 * 1024 * 1024
"""PutRecords' limit for all records and keys together (API reference of PutRecords)."""


def put_record(account: Account, request: requests.PutRecord) -> requests.Answer:
    """Store one record."""
    stream = account.readable(request.stream_name, request.stream_arn)
    entry = requests.PutRecordsEntry(request.data, request.partition_key, request.explicit_hash_key)
    size, shard = _size(stream, entry), _route(stream, entry)
    now = account.now()
    refusal = account.quotas.may_write(stream.name, shard.number, size, now)
    if refusal:
        raise throttled(_refused(refusal, stream, shard))
    number = shard.log.append(entry.data, entry.partition_key, size, now)
    account.changed()
    return {"ShardId": shard.id, "SequenceNumber": number}


def put_records(account: Account, request: requests.PutRecords, fail_share: float | None = None) -> requests.Answer:
    """Store up to 500 records; single ones may fail.

    ``fail_share`` is an injected fault, see `Fault.fail_share`.
    """
    stream = account.readable(request.stream_name, request.stream_arn)
    sizes = [_size(stream, entry) for entry in request.records]
    shards = [_route(stream, entry) for entry in request.records]
    if sum(sizes) > MAX_REQUEST_BYTES:
        raise invalid(f"{sum(sizes)} bytes of records and keys exceed the limit of {MAX_REQUEST_BYTES}.")
    now = account.now()
    injected = failing(fail_share, len(sizes)) if fail_share else set()
    failed = 0
    results: list[str] = []
    for i, (entry, size, shard) in enumerate(zip(request.records, sizes, shards, strict=True)):
        refusal = account.quotas.may_write(stream.name, shard.number, size, now)
        if refusal or i in injected:
            failed += 1
            error = throttled(_refused(refusal, stream, shard)) if refusal else ApiError("InternalFailure", "injected")
            results.append(msgspec.json.encode({"ErrorCode": error.code, "ErrorMessage": error.message}).decode())
        else:
            number = shard.log.append(entry.data, entry.partition_key, size, now)
            results.append(f'{{"SequenceNumber":"{number}","ShardId":"{shard.id}"}}')
    account.changed()
    return f'{{"FailedRecordCount":{failed},"Records":[{",".join(results)}]}}'.encode()


def get_shard_iterator(account: Account, request: requests.GetShardIterator) -> requests.Answer:
    """Return an iterator, good for five minutes."""
    stream = account.readable(request.stream_name, request.stream_arn)
    shard = find_shard(stream, request.shard_id)
    position = starting_position(
        account, shard, request.shard_iterator_type, request.starting_sequence_number, request.timestamp
    )
    return {"ShardIterator": _iterator(account, stream, shard, position)}


def get_records(account: Account, request: requests.GetRecords) -> requests.Answer:
    """Read from an iterator's position: up to Limit records and 10 MiB."""
    token = unseal(request.shard_iterator, IteratorToken, "ShardIterator")
    stream = account.readable(token.stream, request.stream_arn)
    now = account.now()
    check_age(token.issued, now, "ExpiredIteratorException", "Iterator")
    shard = stream.shards.get(token.shard) if token.stream_created == stream.created else None
    if shard is None:
        raise not_found(f"Shard {shard_id(token.shard)} in stream {stream.name}")
    refusal = account.quotas.may_read(stream.name, shard.number, now)
    if refusal:
        raise throttled(_refused(refusal, stream, shard))
    body, end = shard.log.read(token.position, request.limit)
    account.quotas.was_read(stream.name, shard.number, shard.log.size(token.position, end), now)
    parts = [b'{"Records":[', body, b'],"MillisBehindLatest":', str(millis_behind(shard, end, now)).encode()]
    if shard.closed is None or end < shard.log.end:
        parts += [b',"NextShardIterator":"', _iterator(account, stream, shard, end).encode(), b'"}']
    else:
        parts += [b',"ChildShards":', msgspec.json.encode(child_shards(stream, shard)), b"}"]
    return b"".join(parts)


def starting_position(
    account: Account, shard: Shard, kind: str, sequence_number: str | None, timestamp: float | None
) -> int:
    """Return the position in the shard's log that an iterator or a subscription starts at.

    Raises:
        ApiError: what ``kind`` needs is missing, from another shard or in the future.
    """
    if kind == "TRIM_HORIZON":
        return shard.log.first
    if kind == "LATEST":
        return shard.log.end
    if kind == "AT_TIMESTAMP":
        if timestamp is None:
            raise invalid("AT_TIMESTAMP requires Timestamp.")
        if int(timestamp * 1000) > account.now():
            raise invalid(f"Timestamp {timestamp} is in the future.")
        return shard.log.at_time(round(timestamp * 1000))
    if sequence_number is None:
        raise invalid(f"{kind} requires StartingSequenceNumber.")
    number = int(sequence_number)
    if shard_number_of(number) != shard.number:
        raise invalid(f"StartingSequenceNumber {sequence_number} is invalid because it did not come from {shard.id}.")
    return shard.log.at_sequence(number) if kind == "AT_SEQUENCE_NUMBER" else shard.log.after_sequence(number)


def millis_behind(shard: Shard, end: int, now: int) -> int:
    """Return how far a reader who has read up to ``end`` is behind: 0 at the tip, else the age of what it read last."""
    if end >= shard.log.end:
        return 0
    last = end - 1 if end > shard.log.first else end
    return max(now - shard.log.arrival(last), 1)


def child_shards(stream: Stream, shard: Shard) -> list[dict[str, Any]]:
    """Return ChildShards of a closed shard; those that expired meanwhile are left out."""
    children = [stream.shards[number] for number in shard.children if number in stream.shards]
    return [
        {"ShardId": c.id, "ParentShards": [shard_id(p) for p in c.parents], "HashKeyRange": c.hash_range()}
        for c in children
    ]


def _iterator(account: Account, stream: Stream, shard: Shard, position: int) -> str:
    return seal(IteratorToken(stream.name, stream.created, shard.number, position, account.now()))


def _size(stream: Stream, entry: requests.PutRecordsEntry) -> int:
    try:
        size = len(binascii.a2b_base64(entry.data, strict_mode=True)) + len(entry.partition_key.encode())
    except ValueError as error:
        raise ApiError("SerializationException", f"Data is not base64: {error}") from error
    if size > stream.record_kib * 1024:
        raise malformed(f"A record of {size} bytes exceeds the stream's limit of {stream.record_kib} KiB.")
    return size


def _route(stream: Stream, entry: requests.PutRecordsEntry) -> Shard:
    if entry.explicit_hash_key is None:
        return stream.route(hash_key_of(entry.partition_key))
    key = int(entry.explicit_hash_key)
    if key > MAX_HASH_KEY:
        raise invalid(f"ExplicitHashKey {key} is above 2**128 - 1.")
    return stream.route(key)


def _refused(why: str, stream: Stream, shard: Shard) -> str:
    return f"{why} ({shard.id} in stream {stream.name})."
