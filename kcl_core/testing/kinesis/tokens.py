"""Shard iterators and page tokens: opaque to the client, self-contained, with the time of their issue."""

import base64
import zlib
from typing import TypeVar

import msgspec

from kcl_core.testing.kinesis.errors import ApiError, invalid

LIFETIME_MILLIS = 300_000
"""Iterators and tokens are good for five minutes."""

T = TypeVar("T", bound=msgspec.Struct)


class IteratorToken(msgspec.Struct, frozen=True, array_like=True):
    """A shard iterator.

    Attributes:
        stream_created: tells a stream from an earlier one of the same name.
        position: position in the shard's `RecordLog`.
        issued: epoch milliseconds.
    """

    stream: str
    stream_created: int
    shard: int
    position: int
    issued: int


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where a listing continues, and the question it answers.

    Attributes:
        after: shard number or consumer name after which the next page starts.
        question: JSON of the first request, so that the filter applies to all pages.
    """

    stream: str
    stream_created: int
    after: str
    question: str
    issued: int


def seal(token: msgspec.Struct) -> str:
    """Return the token as text."""
    body = msgspec.json.encode(token)
    return base64.urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).decode()


def unseal(text: str, kind: type[T], name: str) -> T:
    """Read a token.

    Raises:
        ApiError: it was not issued by this server; ``name`` says which argument it was.
    """
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True)
        if zlib.crc32(raw[4:]) != int.from_bytes(raw[:4], "big"):
            raise invalid(f"Invalid {name}.")
        return msgspec.json.decode(raw[4:], type=kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise invalid(f"Invalid {name}.") from error


def check_age(issued: int, now: int, error: str, name: str) -> None:
    """Refuse a token older than five minutes.

    Raises:
        ApiError: with the code ``error``.
    """
    if now - issued > LIFETIME_MILLIS:
        raise ApiError(error, f"{name} expired: issued {(now - issued) // 1000} seconds ago, good for 300.")
