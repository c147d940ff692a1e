"""The door for tests: `/_control/...` moves the clock, switches quotas, orders faults, resets, ends the server."""

import asyncio
from http import HTTPStatus
from typing import Annotated

import msgspec

from kcl_core.testing.kinesis.account import Account
from kcl_core.testing.kinesis.faults import Fault

CONTROL_PREFIX = "/_control/"


class Advance(msgspec.Struct, forbid_unknown_fields=True):
    """Let time pass."""

    seconds: Annotated[float, msgspec.Meta(ge=0)]


class SwitchQuotas(msgspec.Struct, forbid_unknown_fields=True):
    """Switch the quotas per shard."""

    on: bool


class Status(msgspec.Struct, kw_only=True):
    """What the server says about itself.

    Attributes:
        now: the server's time, epoch seconds.
        calls: requests by operation since the start or reset, failed ones included.
        faults: those that are still to happen.
    """

    now: float
    quotas: bool
    calls: dict[str, int]
    faults: list[Fault]


def control(account: Account, method: str, command: str, body: bytes, stop: asyncio.Event) -> tuple[HTTPStatus, bytes]:
    """Do what a test asks for; return the HTTP status and the body: the `Status` afterwards, or what was wrong."""
    try:
        if (method, command) != ("GET", "status"):
            _do(account, command if method == "POST" else "", body, stop)
    except (msgspec.DecodeError, LookupError) as error:
        return HTTPStatus.BAD_REQUEST, msgspec.json.encode({"message": str(error)})
    status = Status(now=account.clock.now(), quotas=account.quotas.on, calls=dict(account.calls), faults=account.faults)
    return HTTPStatus.OK, msgspec.json.encode(status)


def _do(account: Account, command: str, body: bytes, stop: asyncio.Event) -> None:
    if command == "advance":
        account.clock.advance(msgspec.json.decode(body, type=Advance).seconds)
        account.changed()
    elif command == "quotas":
        account.quotas.switch(on=msgspec.json.decode(body, type=SwitchQuotas).on)
    elif command == "faults":
        account.faults.append(msgspec.json.decode(body, type=Fault))
    elif command == "reset":
        account.reset()
    elif command == "shutdown":
        stop.set()
    else:
        message = f"unknown command {command!r}: GET status, POST advance, quotas, faults, reset or shutdown"
        raise LookupError(message)
