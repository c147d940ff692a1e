"""Frames of application/vnd.amazon.eventstream, written (the reading half belongs to the client)."""

import zlib

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_STRING = 7


def encode_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Return one frame: lengths, their CRC, headers, payload, CRC of all (AWS event stream encoding)."""
    head = b"".join(
        len(name).to_bytes(1, "big") + name.encode() + bytes([_STRING]) + len(value).to_bytes(2, "big") + value.encode()
        for name, value in headers.items()
    )
    prelude = (len(head) + len(payload) + 16).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    frame = prelude + zlib.crc32(prelude).to_bytes(4, "big") + head + payload
    return frame + zlib.crc32(frame).to_bytes(4, "big")


def event(kind: str, payload: bytes, content_type: str) -> bytes:
    """Return the frame of an event called ``kind``."""
    return encode_frame({":event-type": kind, ":content-type": content_type, ":message-type": "event"}, payload)


def exception(code: str, payload: bytes, content_type: str) -> bytes:
    """Return the frame of an error that ends the stream of events."""
    headers = {":exception-type": code, ":content-type": content_type, ":message-type": "exception"}
    return encode_frame(headers, payload)
