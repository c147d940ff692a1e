"""KPL aggregates: many user records in one Kinesis record. Taken apart as KCL does, and put together for producers.

The format is public (aggregation-format.md of amazon-kinesis-producer): four magic bytes, a protobuf message
AggregatedRecord, and the message's MD5. Its three message types are parsed here by hand: a protobuf runtime
would be one more heavy dependency for a hundred lines, and its generated classes are no faster on small records.
"""

from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import NamedTuple

import msgspec

from kcl_core.streams.api import MAX_HASH_KEY, KinesisRecord

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT_BITS = 63


class UserRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as the producer's user put it.

    Attributes:
        sequence_number: of the Kinesis record.
        sub_sequence_number: place within the aggregate, from 0; 0 for a plain record.
        explicit_hash_key: decimal digits if the producer set one; None for plain records, whose is not transmitted.
        approximate_arrival_timestamp: epoch seconds, millisecond precision, of the Kinesis record.
    """

    sequence_number: str
    sub_sequence_number: int
    partition_key: str
    explicit_hash_key: str | None
    approximate_arrival_timestamp: float
    data: bytes


class AggregateEntry(NamedTuple):
    """What a producer puts into an aggregate.

    Attributes:
        explicit_hash_key: decimal digits; None lets the partition key's MD5 decide.
    """

    partition_key: str
    data: bytes
    explicit_hash_key: str | None = None


def hash_key(partition_key: str) -> int:
    """Return the hash that Kinesis places a record by: the MD5 of the key as 128-bit big-endian number."""
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def deaggregate(
    records: Iterable[KinesisRecord], *, starting_hash_key: int = 0, ending_hash_key: int = MAX_HASH_KEY
) -> list[UserRecord]:
    """Take aggregates apart; anything else passes as it is (KCL: AggregatorUtil.deaggregate).

    An aggregate with a user record outside of the shard's hash keys is left out as a whole: its producer grouped by
    an outdated shard map, learned it from the answer to its put, and sent those records again. A payload that is
    not a sound aggregate is delivered as the plain record it is. KCL drops the rest of an aggregate behind an entry
    that refers to no key; here the whole record is delivered as it came, so that nothing is lost.

    Args:
        records: of one shard, in order.
        starting_hash_key: first hash key of the shard.
        ending_hash_key: last hash key of the shard, included.
    """
    whole = starting_hash_key <= 0 and ending_hash_key >= MAX_HASH_KEY
    users: list[UserRecord] = []
    for record in records:
        entries = read_aggregate(record.data)
        if entries is None:
            users.append(_user_record(record, 0, AggregateEntry(record.partition_key, record.data)))
        elif whole or all(starting_hash_key <= _place(entry) <= ending_hash_key for entry in entries):
            users.extend(_user_record(record, index, entry) for index, entry in enumerate(entries))
    return users


def read_aggregate(data: bytes) -> list[AggregateEntry] | None:
    """Return the entries of an aggregate, or None if ``data`` is not a sound one."""
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST_BYTES:
        return None
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if md5(message, usedforsecurity=False).digest() != digest:
        return None
    try:
        return _read_message(message)
    except (ValueError, IndexError):
        return None


def aggregate(entries: Iterable[AggregateEntry]) -> bytes:
    """Return the data of one Kinesis record that holds all ``entries``, in order.

    All of them must belong into the shard that the record is put to; the record's own partition key, or explicit
    hash key, decides which that is.
    """
    keys: dict[str, int] = {}
    explicit: dict[str, int] = {}
    body = bytearray()
    for entry in entries:
        inner = _varint_field(1, keys.setdefault(entry.partition_key, len(keys)))
        if entry.explicit_hash_key is not None:
            inner += _varint_field(2, explicit.setdefault(entry.explicit_hash_key, len(explicit)))
        body += _bytes_field(3, inner + _bytes_field(3, entry.data))
    tables = b"".join(_bytes_field(1, key.encode()) for key in keys)
    tables += b"".join(_bytes_field(2, key.encode()) for key in explicit)
    message = tables + bytes(body)
    return MAGIC + message + md5(message, usedforsecurity=False).digest()


def _user_record(record: KinesisRecord, index: int, entry: AggregateEntry) -> UserRecord:
    return UserRecord(
        record.sequence_number,
        index,
        entry.partition_key,
        entry.explicit_hash_key,
        record.approximate_arrival_timestamp,
        entry.data,
    )


def _place(entry: AggregateEntry) -> int:
    return hash_key(entry.partition_key) if entry.explicit_hash_key is None else int(entry.explicit_hash_key)


def _read_message(message: bytes) -> list[AggregateEntry]:
    """Parse an AggregatedRecord.

    Raises:
        ValueError: it is malformed, lacks a required field, or an entry refers to no key.
        IndexError: it ends too early.
    """
    keys: list[str] = []
    explicit: list[str] = []
    bodies: list[bytes] = []
    for number, value in _fields(message):
        if number == 1:
            keys.append(_expect_bytes(value).decode())
        elif number == 2:  # noqa: PLR2004 - field numbers are the format
            digits = _expect_bytes(value).decode()
            if not (digits.isascii() and digits.isdigit()):
                message_text = f"explicit hash key {digits!r} is not a number"
                raise ValueError(message_text)
            explicit.append(digits)
        elif number == 3:  # noqa: PLR2004
            bodies.append(_expect_bytes(value))
    return [_read_entry(body, keys, explicit) for body in bodies]


def _read_entry(body: bytes, keys: list[str], explicit: list[str]) -> AggregateEntry:
    key_index: int | None = None
    explicit_index: int | None = None
    data: bytes | None = None
    for number, value in _fields(body):
        if number == 1:
            key_index = _expect_int(value)
        elif number == 2:  # noqa: PLR2004
            explicit_index = _expect_int(value)
        elif number == 3:  # noqa: PLR2004
            data = _expect_bytes(value)
    if key_index is None or data is None:
        message = "an entry lacks its key or its data"
        raise ValueError(message)
    return AggregateEntry(keys[key_index], data, None if explicit_index is None else explicit[explicit_index])


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field; fixed-width ones, which the format does not use, as bytes."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _read_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            text = "a field has no number"
            raise ValueError(text)
        if wire_type == _VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, position = _read_varint(message, position)
        elif wire_type in (_FIXED32, _FIXED64):
            size = 4 if wire_type == _FIXED32 else 8
        else:
            text = f"wire type {wire_type} is unknown"
            raise ValueError(text)
        if position + size > end:
            text = "a field ends behind the message"
            raise ValueError(text)
        yield number, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, position
        shift += 7
        if shift > _LONGEST_VARINT_BITS:
            text = "a varint is longer than 64 bits"
            raise ValueError(text)


def _expect_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        text = "a number where bytes belong"
        raise ValueError(text)  # noqa: TRY004 - malformed input, not a caller's mistake
    return value


def _expect_int(value: int | bytes) -> int:
    if not isinstance(value, int):
        text = "bytes where a number belongs"
        raise ValueError(text)  # noqa: TRY004 - malformed input, not a caller's mistake
    return value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - the continuation bit
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
