"""Operations on shards: listing and resharding."""

from collections.abc import Callable
from typing import Any

import msgspec

from kcl_core.testing.kinesis import requests
from kcl_core.testing.kinesis.account import Account, find_shard, shard_number
from kcl_core.testing.kinesis.api_streams import MAX_SHARDS
from kcl_core.testing.kinesis.errors import in_use, invalid, limit_exceeded
from kcl_core.testing.kinesis.model import Shard, Stream
from kcl_core.testing.kinesis.sequence import even_ranges
from kcl_core.testing.kinesis.tokens import PageToken, check_age, seal, unseal


def list_shards(account: Account, request: requests.ListShards) -> requests.Answer:
    """List shards by id, in pages; a NextToken carries the filter and stands alone."""
    if request.next_token is not None:
        stream, asked, after = _next_page(account, request)
    else:
        stream, asked = account.readable(request.stream_name, request.stream_arn), request
        after = -1
        if request.exclusive_start_shard_id is not None:
            after = _number_after(request.exclusive_start_shard_id)
    if asked.stream_creation_timestamp is not None and int(asked.stream_creation_timestamp) != stream.created // 1000:
        raise invalid(f"StreamCreationTimestamp is not that of stream {stream.name}.")
    keep = _filter(stream, asked.shard_filter, account.now())
    shards = [s for s in sorted(stream.shards.values(), key=lambda s: s.number) if s.number > after and keep(s)]
    page = shards[: request.max_results]
    answer: dict[str, Any] = {"Shards": [shard.describe() for shard in page]}
    if len(shards) > len(page):
        question = msgspec.json.encode(asked).decode()
        token = PageToken(stream.name, stream.created, str(page[-1].number), question, account.now())
        answer["NextToken"] = seal(token)
    return answer


def split_shard(account: Account, request: requests.SplitShard) -> None:
    """Close a shard and open two in its place."""
    stream = account.changeable(request.stream_name, request.stream_arn)
    shard = _open_shard(stream, request.shard_to_split)
    at = int(request.new_starting_hash_key)
    if not shard.low < at <= shard.high:
        raise invalid(f"NewStartingHashKey {at} is not inside shard {shard.id} ({shard.low} to {shard.high}).")
    if len(stream.open_shards()) >= MAX_SHARDS:
        raise limit_exceeded(f"The account's limit of {MAX_SHARDS} shards is reached.")
    _reshard(account, stream, lambda now: stream.split(shard, at, now))


def merge_shards(account: Account, request: requests.MergeShards) -> None:
    """Close two adjacent shards and open one in their place."""
    stream = account.changeable(request.stream_name, request.stream_arn)
    shard = _open_shard(stream, request.shard_to_merge)
    other = _open_shard(stream, request.adjacent_shard_to_merge)
    if shard.high + 1 != other.low and other.high + 1 != shard.low:
        raise invalid(f"Shards {shard.id} and {other.id} are not adjacent.")
    _reshard(account, stream, lambda now: stream.merge(shard, other, now))


def update_shard_count(account: Account, request: requests.UpdateShardCount) -> requests.Answer:
    """Reshard to ``TargetShardCount`` ranges of equal width, by splits and then merges, as AWS does."""
    stream = account.changeable(request.stream_name, request.stream_arn)
    if stream.mode == "ON_DEMAND":
        raise invalid(f"Stream {stream.name} is ON_DEMAND; its shard count cannot be set.")
    current, target = len(stream.open_shards()), request.target_shard_count
    if target > 2 * current or 2 * target < current:
        raise invalid(
            f"UpdateShardCount cannot scale from {current} to {target} shards: at most double, at least half."
        )
    if target > MAX_SHARDS:
        raise limit_exceeded(f"{target} shards exceed the account's limit of {MAX_SHARDS}.")
    _reshard(account, stream, lambda now: _scale(stream, target, now))
    return {
        "StreamName": stream.name,
        "CurrentShardCount": current,
        "TargetShardCount": target,
        "StreamARN": stream.arn,
    }


def _scale(stream: Stream, target: int, now: int) -> None:
    ranges = even_ranges(target)
    for low, _ in ranges[1:]:
        shard = stream.route(low)
        if shard.low != low:
            stream.split(shard, low, now)
    for low, high in ranges:
        while (shard := stream.route(low)).high < high:
            stream.merge(shard, stream.route(shard.high + 1), now)


def _reshard(account: Account, stream: Stream, change: Callable[[int], None]) -> None:
    stream.begin("UPDATING", account.after(account.durations.update), change)
    stream.settle(account.now())
    account.changed()


def _open_shard(stream: Stream, shard_id: str) -> Shard:
    shard = find_shard(stream, shard_id)
    if shard.closed is not None:
        raise in_use(f"Shard {shard_id} of stream {stream.name} was split or merged already.")
    return shard


def _next_page(account: Account, request: requests.ListShards) -> tuple[Stream, requests.ListShards, int]:
    if (
        request.stream_name is not None
        or request.stream_creation_timestamp is not None
        or request.exclusive_start_shard_id is not None
    ):
        raise invalid("NextToken and StreamName cannot be provided together.")
    token = unseal(request.next_token or "", PageToken, "NextToken")
    check_age(token.issued, account.now(), "ExpiredNextTokenException", "NextToken")
    asked = msgspec.json.decode(token.question, type=requests.ListShards)
    stream = account.readable(token.stream)
    if stream.created != token.stream_created:
        raise invalid("NextToken belongs to an earlier stream of this name.")
    return stream, asked, int(token.after)


def _number_after(shard_id: str) -> int:
    number = shard_number(shard_id)
    if number is None:
        raise invalid(f"{shard_id} is not a shard id.")
    return number


def _filter(stream: Stream, wanted: requests.ShardFilter | None, now: int) -> Callable[[Shard], bool]:
    """Return which shards a ShardFilter lets through (API reference of ShardFilter)."""
    if wanted is None or wanted.type == "FROM_TRIM_HORIZON":
        return lambda _: True
    if wanted.type == "AT_LATEST":
        return lambda s: s.closed is None
    horizon = max(now - stream.horizon_millis, stream.created)
    if wanted.type == "AT_TRIM_HORIZON":
        return lambda s: s.opened <= horizon and (s.closed is None or s.closed > horizon)
    if wanted.type == "AFTER_SHARD_ID":
        if wanted.shard_id is None:
            raise invalid("ShardFilter AFTER_SHARD_ID requires ShardId.")
        number = _number_after(wanted.shard_id)
        return lambda s: s.number > number
    if wanted.timestamp is None:
        raise invalid(f"ShardFilter {wanted.type} requires Timestamp.")
    moment = max(round(wanted.timestamp * 1000), horizon)
    if moment > now:
        raise invalid("ShardFilter's Timestamp is in the future.")
    if wanted.type == "AT_TIMESTAMP":
        return lambda s: s.opened <= moment and (s.closed is None or s.closed >= moment)
    return lambda s: s.closed is None or s.closed >= moment
