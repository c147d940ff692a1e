"""Everything that one embedded Kinesis holds: streams, time, quotas, faults, and how to find a stream."""

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field

from kcl_core.testing.kinesis.clock import MovableClock
from kcl_core.testing.kinesis.errors import in_use, invalid, not_found
from kcl_core.testing.kinesis.faults import Fault
from kcl_core.testing.kinesis.model import Consumer, Shard, Stream
from kcl_core.testing.kinesis.quotas import Quotas

ACCOUNT_ID = "123456789012"
_SHARD_ID = re.compile(r"shardId-(\d{12})")
_STREAM_ARN = re.compile(r"arn:aws[a-z-]*:kinesis:[^:]*:\d{12}:stream/([a-zA-Z0-9_.-]+)")
_CONSUMER_ARN = re.compile(_STREAM_ARN.pattern + r"/consumer/([a-zA-Z0-9_.-]+):\d+")


@dataclass(frozen=True, slots=True)
class Durations:
    """How long changes of state take, in seconds of the server's clock.

    Attributes:
        create: CreateStream, DeleteStream and RegisterStreamConsumer.
        update: reshards and changes of mode.
    """

    create: float = 0.0
    update: float = 0.0


@dataclass(slots=True)
class Account:
    """One account in one region.

    Attributes:
        calls: requests by operation since the start or reset, failed ones included.
        subscriptions: (consumer ARN, shard number) -> serial number and start (epoch milliseconds) of the newest
            SubscribeToShard, ended ones included.
    """

    region: str = "us-east-1"
    durations: Durations = Durations()
    clock: MovableClock = field(default_factory=MovableClock)
    streams: dict[str, Stream] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    faults: list[Fault] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    subscriptions: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> int:
        """Return epoch milliseconds."""
        return int(self.clock.now() * 1000)

    def after(self, seconds: float) -> int:
        """Return the time ``seconds`` from now, epoch milliseconds."""
        return self.now() + int(seconds * 1000)

    def changed(self) -> None:
        """Wake whoever waits for records, reshards or the time."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return at the next change, or after ``seconds`` of real time."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    def stream_arn(self, name: str) -> str:
        """Return the ARN that a stream called ``name`` has."""
        return f"arn:aws:kinesis:{self.region}:{ACCOUNT_ID}:stream/{name}"

    def stream(self, name: str | None, arn: str | None = None) -> Stream:
        """Find a stream by name, ARN or both, and bring it up to the present.

        Raises:
            ApiError: it does not exist, or name and ARN contradict each other.
        """
        wanted = stream_name(name, arn)
        found = self.streams.get(wanted)
        if found is not None:
            found.settle(self.now())
            found = self.streams.get(wanted)
        if found is None:
            raise not_found(f"Stream {wanted} under account {ACCOUNT_ID}")
        return found

    def readable(self, name: str | None, arn: str | None = None) -> Stream:
        """Find a stream that may be read and written: one that is ACTIVE or UPDATING.

        Raises:
            ApiError: it is being created or deleted (AWS answers as if it did not exist), or does not exist.
        """
        found = self.stream(name, arn)
        if found.status not in ("ACTIVE", "UPDATING"):
            raise not_found(f"Stream {found.name} under account {ACCOUNT_ID}")
        return found

    def changeable(self, name: str | None, arn: str | None = None) -> Stream:
        """Find a stream that may be changed: one that is ACTIVE.

        Raises:
            ApiError: it is in another state or does not exist.
        """
        found = self.stream(name, arn)
        if found.status != "ACTIVE":
            raise in_use(f"Stream {found.name} is {found.status}, not ACTIVE.")
        return found

    def consumer(self, arn: str) -> tuple[Stream, Consumer]:
        """Find a consumer by its ARN.

        Raises:
            ApiError: there is none.
        """
        match = _CONSUMER_ARN.fullmatch(arn)
        if match is None:
            raise invalid(f"{arn} is not the ARN of a consumer.")
        stream = self.stream(match.group(1))
        found = stream.consumers.get(match.group(2))
        if found is None or found.arn != arn:
            raise not_found(f"Consumer {arn}")
        return stream, found

    def reset(self) -> None:
        """Forget everything, return to the host's time, switch quotas off."""
        self.streams.clear()
        self.faults.clear()
        self.calls.clear()
        self.subscriptions.clear()
        self.quotas.switch(on=False)
        self.clock.reset()
        self.changed()


def stream_name(name: str | None, arn: str | None) -> str:
    """Return the stream's name from its name, its ARN or both.

    Raises:
        ApiError: none given, not an ARN, or they contradict each other.
    """
    if arn is None:
        if not name:
            raise invalid("Either StreamName or StreamARN should be provided.")
        return name
    match = _STREAM_ARN.fullmatch(arn)
    if match is None:
        raise invalid(f"{arn} is not the ARN of a stream.")
    if name and name != match.group(1):
        raise invalid(f"StreamARN {arn} is not the ARN of stream {name}.")
    return match.group(1)


def shard_number(shard_id: str) -> int | None:
    """Return the number in a shard id; None if it is not one."""
    match = _SHARD_ID.fullmatch(shard_id)
    return int(match.group(1)) if match else None


def find_shard(stream: Stream, shard_id: str) -> Shard:
    """Find a shard that has not expired.

    Raises:
        ApiError: there is none.
    """
    number = shard_number(shard_id)
    shard = stream.shards.get(number) if number is not None else None
    if shard is None:
        raise not_found(f"Shard {shard_id} in stream {stream.name} under account {ACCOUNT_ID}")
    return shard
