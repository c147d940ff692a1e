"""HTTP/1.1 on asyncio: frames requests and answers, cuts and delays them when told to."""

import asyncio
from contextlib import aclosing
from email.utils import formatdate
from http import HTTPStatus
from itertools import count

from kcl_core.testing.kinesis.account import Account
from kcl_core.testing.kinesis.control import CONTROL_PREFIX, control
from kcl_core.testing.kinesis.dispatch import TARGET_PREFIX, perform
from kcl_core.testing.kinesis.errors import ApiError
from kcl_core.testing.kinesis.event_stream import CONTENT_TYPE as EVENT_STREAM
from kcl_core.testing.kinesis.fan_out import Subscription, frames
from kcl_core.testing.kinesis.faults import Fault, next_fault
from kcl_core.testing.kinesis.protocol import CBOR, JSON, encode_answer, encode_error

_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024
_JOIN_BELOW = 64 * 1024
_request_ids = count(1)


class Connection(asyncio.Protocol):
    """One client's connection; its requests are answered in turn."""

    def __init__(self, account: Account, stop: asyncio.Event) -> None:
        self._account = account
        self._stop = stop
        self._received = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_server gives
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was still being sent."""
        del exc
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Hold back events: the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Send events again."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Collect bytes, and answer the requests that are complete."""
        self._received += data
        self._advance()

    def _advance(self) -> None:
        while self._task is None and not self._transport.is_closing():
            if self._head is None and not self._read_head():
                return
            if self._head is None:
                continue
            method, path, headers = self._head
            length = int(headers.get("content-length", "0"))
            if len(self._received) < length:
                return
            body = bytes(memoryview(self._received)[:length])
            del self._received[:length]
            self._head = None
            self._answer(method, path, headers, body)

    def _read_head(self) -> bool:
        """Take a request's head off the received bytes; return whether there was a whole one."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > _MAX_HEAD:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return False
        lines = self._received[:end].decode("latin-1").split("\r\n")
        del self._received[: end + 4]
        method, _, rest = lines[0].partition(" ")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif not length.isdecimal() or int(length) > _MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            if headers.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._head = (method, rest.partition(" ")[0], headers)
        return True

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        if path.startswith(CONTROL_PREFIX):
            status, answer = control(self._account, method, path.removeprefix(CONTROL_PREFIX), body, self._stop)
            self._send(status, "application/json", answer)
            return
        operation = headers.get("x-amz-target", "").removeprefix(TARGET_PREFIX)
        content_type = CBOR if headers.get("content-type") == CBOR else JSON
        self._account.calls[operation] += 1
        fault = next_fault(self._account.faults, operation)
        if fault is not None and fault.delay_seconds:
            self._run(self._answer_late(operation, content_type, body, fault))
        else:
            self._perform(operation, content_type, body, fault)

    async def _answer_late(self, operation: str, content_type: str, body: bytes, fault: Fault) -> None:
        await asyncio.sleep(fault.delay_seconds)
        self._task = None
        self._perform(operation, content_type, body, fault)
        self._advance()

    def _perform(self, operation: str, content_type: str, body: bytes, fault: Fault | None) -> None:
        drop = fault.drop if fault is not None else None
        if drop == "before":
            self._transport.abort()
            return
        try:
            answer = perform(self._account, operation, body, content_type, fault)
        except ApiError as error:
            self._send(error.status, content_type, encode_error(error, content_type))
            return
        if drop == "after":
            self._transport.abort()
        elif isinstance(answer, Subscription):
            self._run(self._push(answer, content_type, cut=drop is not None))
        else:
            self._send(HTTPStatus.OK, content_type, encode_answer(answer, content_type), cut=drop is not None)

    def _run(self, work: "asyncio._CoroutineLike[None]") -> None:
        self._task = asyncio.get_running_loop().create_task(work)

    async def _push(self, subscription: Subscription, content_type: str, *, cut: bool) -> None:
        head = self._head_of(HTTPStatus.OK, EVENT_STREAM)
        self._transport.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        async with aclosing(frames(self._account, subscription, content_type)) as sending:
            sent = 0
            async for frame in sending:
                await self._writable.wait()
                self._transport.write(b"%x\r\n%b\r\n" % (len(frame), frame))
                sent += 1
                if cut and sent == 2:  # noqa: PLR2004 - the initial response and one event
                    await asyncio.sleep(0)
                    self._transport.close()
                    return
        self._transport.write(b"0\r\n\r\n")
        self._task = None
        self._advance()

    def _send(self, status: int, content_type: str, body: bytes, *, cut: bool = False) -> None:
        head = self._head_of(status, content_type) + b"Content-Length: %d\r\n\r\n" % len(body)
        if cut:
            self._transport.write(head + body[: len(body) // 2])
            self._transport.close()
        elif len(body) < _JOIN_BELOW:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _head_of(self, status: int, content_type: str) -> bytes:
        # The Date is the server's own time: clients measure skew and shard lag by it.
        date = formatdate(self._account.clock.now(), usegmt=True)
        return (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {date}\r\nContent-Type: {content_type}\r\n"
            f"x-amzn-RequestId: {next(_request_ids):032x}\r\n"
        ).encode()

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(status, "text/plain", b"")
        self._transport.close()
