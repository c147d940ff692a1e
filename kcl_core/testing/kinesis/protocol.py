"""JSON 1.1 and CBOR 1.1 bodies. Everything is JSON inside; CBOR is translated at the border."""

import base64
from typing import Any

import cbor2
import msgspec

from kcl_core.testing.kinesis.errors import ApiError, malformed

JSON = "application/x-amz-json-1.1"
CBOR = "application/x-amz-cbor-1.1"
_TIMESTAMPS = frozenset({"ApproximateArrivalTimestamp", "StreamCreationTimestamp", "ConsumerCreationTimestamp"})


def decode_request(body: bytes, content_type: str, kind: type[Any]) -> Any:
    """Read a request.

    Raises:
        ApiError: SerializationException for what cannot be parsed, ValidationException for a missing or invalid field.
    """
    try:
        if content_type == CBOR:
            return msgspec.convert(_jsonable(decode_cbor(body)), kind)
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise malformed(f"1 validation error detected: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, cbor2.CBORError) as error:
        raise ApiError("SerializationException", str(error)) from error


def encode_answer(answer: dict[str, Any] | bytes | None, content_type: str) -> bytes:
    """Write an answer; None is an empty body."""
    if answer is None:
        return b""
    body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
    return cbor2.dumps(_cborable(msgspec.json.decode(body))) if content_type == CBOR else body


def encode_error(error: ApiError, content_type: str) -> bytes:
    """Write an error answer."""
    return encode_answer({"__type": error.code, "message": error.message}, content_type)


def decode_cbor(body: bytes) -> Any:
    """Read CBOR; timestamps (tag 1, epoch milliseconds with Kinesis) become epoch seconds."""
    return cbor2.loads(body, semantic_decoders={1: lambda millis, _immutable: millis / 1000})


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    return [_jsonable(item) for item in value] if isinstance(value, list) else value


def _cborable(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _cborable(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_cborable(item) for item in value]
    if key == "Data":
        return base64.b64decode(value)
    return cbor2.CBORTag(1, round(value * 1000)) if key in _TIMESTAMPS else value
