"""Enhanced fan-out: registering consumers and subscribing to shards."""

from typing import Any

from kcl_core.testing.kinesis import requests
from kcl_core.testing.kinesis.account import Account, find_shard
from kcl_core.testing.kinesis.api_records import starting_position
from kcl_core.testing.kinesis.errors import in_use, invalid, limit_exceeded, not_found
from kcl_core.testing.kinesis.fan_out import TAKEOVER_MILLIS, Subscription
from kcl_core.testing.kinesis.model import Consumer, Stream
from kcl_core.testing.kinesis.tokens import PageToken, check_age, seal, unseal

MAX_CONSUMERS = 20


def register(account: Account, request: requests.RegisterStreamConsumer) -> requests.Answer:
    """Register a consumer; its name is unique in the stream."""
    stream = account.readable(None, request.stream_arn)
    name = request.consumer_name
    if name in stream.consumers:
        raise in_use(f"Consumer {name} of stream {stream.name} already exists.")
    if len(stream.consumers) >= MAX_CONSUMERS:
        raise limit_exceeded(f"Stream {stream.name} has {MAX_CONSUMERS} consumers already.")
    now = account.now()
    consumer = Consumer(
        name=name,
        arn=f"{stream.arn}/consumer/{name}:{now // 1000}",
        stream_arn=stream.arn,
        created=now,
        active_at=account.after(account.durations.create),
    )
    stream.consumers[name] = consumer
    return {"Consumer": consumer.describe(-1)}


def describe(account: Account, request: requests.NamedConsumer) -> requests.Answer:
    """Describe a consumer."""
    _, consumer = _find(account, request)
    return {"ConsumerDescription": consumer.describe(account.now()) | {"StreamARN": consumer.stream_arn}}


def deregister(account: Account, request: requests.NamedConsumer) -> None:
    """Forget a consumer; its subscriptions end."""
    stream, consumer = _find(account, request)
    del stream.consumers[consumer.name]
    for key in [key for key in account.subscriptions if key[0] == consumer.arn]:
        del account.subscriptions[key]
    account.changed()


def list_consumers(account: Account, request: requests.ListStreamConsumers) -> requests.Answer:
    """List a stream's consumers by name, in pages."""
    stream = account.stream(None, request.stream_arn)
    after = ""
    if request.next_token is not None:
        token = unseal(request.next_token, PageToken, "NextToken")
        check_age(token.issued, account.now(), "ExpiredNextTokenException", "NextToken")
        after = token.after
    names = sorted(name for name in stream.consumers if name > after)
    page = names[: request.max_results]
    answer: dict[str, Any] = {"Consumers": [stream.consumers[name].describe(account.now()) for name in page]}
    if len(names) > len(page):
        answer["NextToken"] = seal(PageToken(stream.name, stream.created, page[-1], "", account.now()))
    return answer


def subscribe(account: Account, request: requests.SubscribeToShard) -> Subscription:
    """Begin to push a shard's records to a consumer."""
    stream, consumer = account.consumer(request.consumer_arn)
    now = account.now()
    if consumer.status(now) != "ACTIVE":
        raise in_use(f"Consumer {consumer.name} is {consumer.status(now)}, not ACTIVE.")
    shard = find_shard(stream, request.shard_id)
    start = request.starting_position
    position = starting_position(account, shard, start.type, start.sequence_number, start.timestamp)
    key = (consumer.arn, shard.number)
    serial, started = account.subscriptions.get(key, (0, -TAKEOVER_MILLIS))
    if now - started < TAKEOVER_MILLIS:
        raise in_use(f"Consumer {consumer.name} subscribed to {shard.id} less than 5 seconds ago.")
    account.subscriptions[key] = (serial + 1, now)
    account.changed()
    return Subscription(stream, shard, consumer.arn, position, serial + 1, now)


def _find(account: Account, request: requests.NamedConsumer) -> tuple[Stream, Consumer]:
    if request.consumer_arn is not None:
        return account.consumer(request.consumer_arn)
    if request.stream_arn is None or request.consumer_name is None:
        raise invalid("Either ConsumerARN, or StreamARN and ConsumerName, must be provided.")
    stream = account.stream(None, request.stream_arn)
    found = stream.consumers.get(request.consumer_name)
    if found is None:
        raise not_found(f"Consumer {request.consumer_name} of stream {stream.name}")
    return stream, found
