"""Operations on streams as a whole: their life, modes, retention and tags."""

from collections.abc import Callable
from typing import Any

from kcl_core.testing.kinesis import requests
from kcl_core.testing.kinesis.account import Account, stream_name
from kcl_core.testing.kinesis.errors import in_use, invalid, limit_exceeded
from kcl_core.testing.kinesis.model import Stream
from kcl_core.testing.kinesis.sequence import even_ranges
from kcl_core.testing.kinesis.tokens import PageToken, check_age, seal, unseal

MAX_SHARDS = 10_000
ON_DEMAND_SHARDS = 4
_MAX_TAGS = 50
_MONITORING: list[dict[str, Any]] = [{"ShardLevelMetrics": []}]


def create_stream(account: Account, request: requests.CreateStream) -> None:
    """Create a stream: ON_DEMAND with 4 shards, or PROVISIONED with the number asked for."""
    if request.stream_name in account.streams:
        account.streams[request.stream_name].settle(account.now())
    if request.stream_name in account.streams:
        raise in_use(f"Stream {request.stream_name} already exists.")
    mode = request.stream_mode_details.stream_mode if request.stream_mode_details else "PROVISIONED"
    if mode == "ON_DEMAND" and request.shard_count is not None:
        raise invalid("ShardCount is not allowed for a stream of mode ON_DEMAND.")
    if mode == "PROVISIONED" and request.shard_count is None:
        raise invalid("ShardCount is required for a stream of mode PROVISIONED.")
    count = request.shard_count or ON_DEMAND_SHARDS
    if count > MAX_SHARDS:
        raise limit_exceeded(f"{count} shards exceed the account's limit of {MAX_SHARDS}.")
    now = account.now()
    stream = Stream(
        name=request.stream_name,
        arn=account.stream_arn(request.stream_name),
        created=now,
        mode=mode,
        record_kib=request.max_record_size,
        tags=dict(request.tags),
    )

    def open_shards(_now: int) -> None:
        for low, high in even_ranges(count):
            stream.add_shard(now, low, high)
        stream.index()

    stream.begin("CREATING", account.after(account.durations.create), open_shards)
    stream.settle(now)
    account.streams[stream.name] = stream


def delete_stream(account: Account, request: requests.DeleteStream) -> None:
    """Delete a stream; refused while it has consumers, unless EnforceConsumerDeletion."""
    stream = account.stream(request.stream_name, request.stream_arn)
    if stream.consumers and not request.enforce_consumer_deletion:
        raise in_use(f"Stream {stream.name} has {len(stream.consumers)} registered consumers.")

    def forget(_now: int) -> None:
        account.streams.pop(stream.name, None)
        stream.shards.clear()

    stream.begin("DELETING", account.after(account.durations.create), forget)
    stream.settle(account.now())
    account.changed()


def describe_stream(account: Account, request: requests.DescribeStream) -> requests.Answer:
    """Describe a stream with a page of its shards."""
    stream = account.stream(request.stream_name, request.stream_arn)
    after = request.exclusive_start_shard_id or ""
    shards = [s for s in stream.shards.values() if s.id > after]
    return {
        "StreamDescription": _common(stream)
        | {
            "Shards": [shard.describe() for shard in shards[: request.limit]],
            "HasMoreShards": len(shards) > request.limit,
        }
    }


def describe_stream_summary(account: Account, request: requests.Addressed) -> requests.Answer:
    """Describe a stream without its shards."""
    stream = account.stream(request.stream_name, request.stream_arn)
    return {
        "StreamDescriptionSummary": _common(stream)
        | {
            "OpenShardCount": len(stream.open_shards()),
            "ConsumerCount": len(stream.consumers),
            "MaxRecordSizeInKiB": stream.record_kib,
        }
    }


def list_streams(account: Account, request: requests.ListStreams) -> requests.Answer:
    """List streams by name, in pages."""
    after = request.exclusive_start_stream_name or ""
    if request.next_token is not None:
        token = unseal(request.next_token, PageToken, "NextToken")
        check_age(token.issued, account.now(), "ExpiredNextTokenException", "NextToken")
        after = token.after
    for stream in list(account.streams.values()):
        stream.settle(account.now())
    names = sorted(name for name in account.streams if name > after)
    page = names[: request.limit]
    answer: dict[str, Any] = {
        "StreamNames": page,
        "HasMoreStreams": len(names) > len(page),
        "StreamSummaries": [
            {
                "StreamName": s.name,
                "StreamARN": s.arn,
                "StreamStatus": s.status,
                "StreamModeDetails": {"StreamMode": s.mode},
                "StreamCreationTimestamp": s.created / 1000,
            }
            for s in map(account.streams.__getitem__, page)
        ],
    }
    if len(names) > len(page):
        answer["NextToken"] = seal(PageToken("", 0, page[-1], "", account.now()))
    return answer


def update_stream_mode(account: Account, request: requests.UpdateStreamMode) -> None:
    """Change between ON_DEMAND and PROVISIONED; the shards stay as they are."""
    stream = account.changeable(None, request.stream_arn)

    def change(_now: int) -> None:
        stream.mode = request.stream_mode_details.stream_mode

    _update(account, stream, change)


def update_max_record_size(account: Account, request: requests.MaxRecordSize) -> None:
    """Change the largest record that the stream takes."""
    stream = account.changeable(None, request.stream_arn)

    def change(_now: int) -> None:
        stream.record_kib = request.max_record_size

    _update(account, stream, change)


def increase_retention(account: Account, request: requests.RetentionPeriod) -> None:
    """Keep records longer; those dropped already do not come back."""
    stream = account.changeable(request.stream_name, request.stream_arn)
    if request.retention_period_hours < stream.retention_hours:
        raise invalid(f"{request.retention_period_hours} hours are less than the present {stream.retention_hours}.")
    _update(account, stream, _retention(stream, request.retention_period_hours))


def decrease_retention(account: Account, request: requests.RetentionPeriod) -> None:
    """Keep records for a shorter time; older ones are dropped at once."""
    stream = account.changeable(request.stream_name, request.stream_arn)
    if request.retention_period_hours > stream.retention_hours:
        raise invalid(f"{request.retention_period_hours} hours are more than the present {stream.retention_hours}.")
    _update(account, stream, _retention(stream, request.retention_period_hours))


def add_tags(account: Account, request: requests.AddTags) -> None:
    """Add or replace tags."""
    stream = account.stream(request.stream_name, request.stream_arn)
    tags = stream.tags | request.tags
    if len(tags) > _MAX_TAGS:
        raise limit_exceeded(f"{len(tags)} tags exceed the limit of {_MAX_TAGS}.")
    stream.tags = tags


def list_tags(account: Account, request: requests.ListTags) -> requests.Answer:
    """List tags by key, in pages."""
    stream = account.stream(request.stream_name, request.stream_arn)
    keys = sorted(key for key in stream.tags if key > (request.exclusive_start_tag_key or ""))
    page = keys[: request.limit]
    return {
        "Tags": [{"Key": key, "Value": stream.tags[key]} for key in page],
        "HasMoreTags": len(keys) > len(page),
    }


def remove_tags(account: Account, request: requests.RemoveTags) -> None:
    """Remove tags; unknown keys are ignored."""
    stream = account.stream(request.stream_name, request.stream_arn)
    stream.tags = {key: value for key, value in stream.tags.items() if key not in request.tag_keys}


def describe_limits(account: Account, request: requests.Nothing) -> requests.Answer:
    """Say how many shards and on-demand streams there may be."""
    del request
    streams = [account.stream(stream_name(name, None)) for name in list(account.streams)]
    return {
        "ShardLimit": MAX_SHARDS,
        "OpenShardCount": sum(len(s.open_shards()) for s in streams if s.mode == "PROVISIONED"),
        "OnDemandStreamCount": sum(s.mode == "ON_DEMAND" for s in streams),
        "OnDemandStreamCountLimit": MAX_SHARDS,
    }


def _update(account: Account, stream: Stream, change: Callable[[int], None]) -> None:
    stream.begin("UPDATING", account.after(account.durations.update), change)
    stream.settle(account.now())
    account.changed()


def _retention(stream: Stream, hours: int) -> Callable[[int], None]:
    def change(_now: int) -> None:
        stream.retention_hours = hours

    return change


def _common(stream: Stream) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": stream.status,
        "StreamModeDetails": {"StreamMode": stream.mode},
        "RetentionPeriodHours": stream.retention_hours,
        "StreamCreationTimestamp": stream.created / 1000,
        "EnhancedMonitoring": _MONITORING,
        "EncryptionType": "NONE",
    }
