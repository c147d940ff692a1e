"""The client of the embedded Kinesis's control door."""

import http.client
from typing import Literal

import msgspec

from kcl_core.errors import EndpointUnavailableError


class KinesisStatus(msgspec.Struct, frozen=True):
    """What the embedded Kinesis says about itself.

    Attributes:
        now: its time, epoch seconds.
        quotas: whether the quotas per shard are on.
        calls: requests by operation since the start or reset, failed ones included.
        faults: those still to happen.
    """

    now: float
    quotas: bool
    calls: dict[str, int]
    faults: list[dict[str, object]]


class KinesisControl:
    """Moves the time, switches quotas and orders faults of one embedded Kinesis.

    All methods return the status afterwards and raise `EndpointUnavailableError` when it is gone.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    def status(self) -> KinesisStatus:
        """Return the time, the counters and the faults still to happen."""
        return self._request("GET", "status", None)

    def advance(self, seconds: float) -> KinesisStatus:
        """Let ``seconds`` pass at once: iterators expire, records leave the retention, subscriptions end."""
        return self._request("POST", "advance", {"seconds": seconds})

    def quotas(self, *, on: bool) -> KinesisStatus:
        """Switch the quotas per shard (5 reads/s, 2 MiB/s read, 1 MiB/s and 1000 records/s written)."""
        return self._request("POST", "quotas", {"on": on})

    def inject(
        self,
        operation: str,
        *,
        count: int = 1,
        error: str | None = None,
        drop: Literal["before", "after", "within"] | None = None,
        delay_seconds: float = 0.0,
        fail_share: float | None = None,
    ) -> KinesisStatus:
        """Let something happen to the next ``count`` calls of an operation.

        Args:
            operation: Kinesis's name of it, or ``*`` for all.
            count: calls concerned; faults of one operation happen one after the other.
            error: answer with this code; nothing is done.
            drop: cut the connection before anything is done, after it was done, or within the answer.
            delay_seconds: answer this much later, real time.
            fail_share: of PutRecords' records, this share (0 to 1) fails; the others are stored.
        """
        wanted = {"error": error, "drop": drop, "fail_share": fail_share}
        fault: dict[str, object] = {key: value for key, value in wanted.items() if value is not None}
        fault |= {"operation": operation, "count": count, "delay_seconds": delay_seconds}
        return self._request("POST", "faults", fault)

    def reset(self) -> KinesisStatus:
        """Forget all streams and faults, switch quotas off and return to the host's time."""
        return self._request("POST", "reset", {})

    def shutdown(self) -> KinesisStatus:
        """End the server."""
        return self._request("POST", "shutdown", {})

    def _request(self, method: str, command: str, body: dict[str, object] | None) -> KinesisStatus:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=10)
        try:
            connection.request(method, f"/_control/{command}", body=None if body is None else msgspec.json.encode(body))
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise EndpointUnavailableError(
                service="the embedded Kinesis", operation=command, cause=repr(error)
            ) from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise ValueError(text.decode())
        return msgspec.json.decode(text, type=KinesisStatus)
