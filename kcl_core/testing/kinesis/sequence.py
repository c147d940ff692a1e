"""Sequence numbers in AWS's layout, shard ids and hash keys: pure arithmetic.

A number has 186 bits, so 56 decimal digits. From the top: version 2 (4 bits), second of the shard's creation (36),
low four bits of the shard's number (4), position in the shard (64), a mark (8), second of the record (36), number of
the shard (32), version 2 (4). KCL's SequenceNumberValidator checks the length, both versions and the shard's number.
"""

import hashlib
from itertools import pairwise
from typing import Final

from kcl_core.streams.api import MAX_HASH_KEY

SEQUENCE_BITS: Final = 186
_POSITION_SHIFT: Final = 80
_POSITION_BITS: Final = 64
_CREATED_SHIFT: Final = 148
_SECONDS_MASK: Final = (1 << 36) - 1
_LAST_POSITION: Final = (1 << 63) - 1


def sequence_base(shard_number: int, created_second: int) -> int:
    """Return the part of a sequence number that is the same for all records of a shard."""
    return (
        (2 << 184)
        | (created_second & _SECONDS_MASK) << _CREATED_SHIFT
        | (shard_number & 0xF) << 144
        | (shard_number & 0xFFFFFFFF) << 4
        | 2
    )


def sequence_number(base: int, position: int, second: int) -> int:
    """Return the number of the record at ``position`` (counted from 1; 0 is the shard's start)."""
    return base | position << _POSITION_SHIFT | (second & _SECONDS_MASK) << 36


def ending_sequence_number(base: int, second: int) -> int:
    """Return the EndingSequenceNumber of a shard: above every record that it can hold."""
    return base | _LAST_POSITION << _POSITION_SHIFT | 0xFF << 72 | (second & _SECONDS_MASK) << 36


def shard_number_of(sequence: int) -> int | None:
    """Return the number of the shard that issued ``sequence``; None if it has not AWS's layout."""
    if sequence.bit_length() != SEQUENCE_BITS or sequence >> 184 != 2 or sequence & 0xF != 2:  # noqa: PLR2004
        return None
    return (sequence >> 4) & 0xFFFFFFFF


def shard_id(number: int) -> str:
    """Return the id of the ``number``-th shard of a stream, from 0 on."""
    return f"shardId-{number:012d}"


def hash_key_of(partition_key: str) -> int:
    """Return the hash that decides on the shard: MD5 of the key's UTF-8."""
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def even_ranges(count: int) -> list[tuple[int, int]]:
    """Cut 0 .. 2**128 - 1 into ``count`` ranges (both ends included) whose widths differ by one at most."""
    bounds = [(MAX_HASH_KEY + 1) * i // count for i in range(count + 1)]
    return [(low, high - 1) for low, high in pairwise(bounds)]
