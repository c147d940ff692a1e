"""SubscribeToShard: what is pushed, when, and when it ends."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec

from kcl_core.testing.kinesis.account import Account
from kcl_core.testing.kinesis.api_records import child_shards, millis_behind
from kcl_core.testing.kinesis.event_stream import event, exception
from kcl_core.testing.kinesis.model import Shard, Stream
from kcl_core.testing.kinesis.protocol import encode_answer

LIFETIME_MILLIS = 300_000
"""A subscription ends after five minutes."""

TAKEOVER_MILLIS = 5_000
"""Within this time of a subscription's start a second one is refused; later it takes over."""

HEARTBEAT_SECONDS = 1.0
"""Real time between events while there are no records."""

_EVENT_RECORDS = 1000


@dataclass(frozen=True, slots=True)
class Subscription:
    """A successful SubscribeToShard, not yet sent.

    Attributes:
        serial: number of this subscription among those of the same consumer and shard.
        started: epoch milliseconds.
    """

    stream: Stream
    shard: Shard
    consumer_arn: str
    position: int
    serial: int
    started: int


async def frames(account: Account, subscription: Subscription, content_type: str) -> AsyncGenerator[bytes, None]:
    """Yield the event stream's frames until the shard's end, five minutes have passed, or another took over."""
    yield event("initial-response", encode_answer({}, content_type), content_type)
    stream, shard, position = subscription.stream, subscription.shard, subscription.position
    key = (subscription.consumer_arn, shard.number)
    while True:
        stream.settle(account.now())
        if account.subscriptions.get(key, (0, 0))[0] != subscription.serial:
            message = {"message": "Another subscription took over."}
            yield exception("ResourceInUseException", encode_answer(message, content_type), content_type)
            return
        if account.streams.get(stream.name) is not stream:
            message = {"message": f"Stream {stream.name} was deleted."}
            yield exception("ResourceNotFoundException", encode_answer(message, content_type), content_type)
            return
        body, position = shard.log.read(position, _EVENT_RECORDS)
        ended = shard.closed is not None and position >= shard.log.end
        payload = encode_answer(_payload(account, stream, shard, body, position), content_type)
        yield event("SubscribeToShardEvent", payload, content_type)
        if ended or account.now() - subscription.started >= LIFETIME_MILLIS:
            return
        if position >= shard.log.end:
            left = (subscription.started + LIFETIME_MILLIS - account.now()) / 1000
            await account.wait(min(HEARTBEAT_SECONDS, max(left, 0)))


def _payload(account: Account, stream: Stream, shard: Shard, body: bytes, position: int) -> bytes:
    behind = str(millis_behind(shard, position, account.now())).encode()
    parts = [b'{"Records":[', body, b'],"MillisBehindLatest":', behind]
    if shard.closed is not None and position >= shard.log.end:
        parts += [b',"ChildShards":', msgspec.json.encode(child_shards(stream, shard)), b"}"]
    else:
        # AFTER_SEQUENCE_NUMBER with it continues here, also when the shard is empty or was trimmed up to here.
        parts += [b',"ContinuationSequenceNumber":"', str(shard.sequence_before(position)).encode(), b'"}']
    return b"".join(parts)
