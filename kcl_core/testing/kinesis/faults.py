"""Faults on order: errors, lost connections, delays, half-failed PutRecords."""

from typing import Annotated, Literal

import msgspec

Drop = Literal["before", "after", "within"]


class Fault(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What happens to the next ``count`` calls of an operation. Several faults of one operation happen in turn.

    Attributes:
        operation: Kinesis's name of it, or ``*`` for all.
        error: answer with this code; nothing is done.
        message: goes with ``error``.
        status: HTTP status of ``error``; by default 500 for InternalFailure and ServiceUnavailable, else 400.
        drop: cut the connection: ``before`` anything is done, ``after`` it was done, ``within`` the answer (half of
            it is sent; a subscription is cut after its first event).
        delay_seconds: answer this much later, real time; may be combined with the others.
        fail_share: of PutRecords' records, this share fails with the code InternalFailure; the others are stored.
    """

    operation: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    error: str | None = None
    message: str = "injected"
    status: int | None = None
    drop: Drop | None = None
    delay_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    fail_share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None

    def http_status(self) -> int:
        """Return the HTTP status of the error."""
        internal = self.error in ("InternalFailure", "InternalFailureException", "ServiceUnavailable")
        return self.status or (500 if internal else 400)


def next_fault(faults: list[Fault], operation: str) -> Fault | None:
    """Take one turn of the first fault that concerns ``operation``; drop it when it is used up."""
    for fault in faults:
        if fault.operation in ("*", operation):
            fault.count -= 1
            if not fault.count:
                faults.remove(fault)
            return fault
    return None


def failing(share: float, count: int) -> set[int]:
    """Return which of ``count`` records fail: evenly spread, ``share`` of them, at least one."""
    failures = max(1, round(share * count))
    return {i * count // failures for i in range(failures)}
