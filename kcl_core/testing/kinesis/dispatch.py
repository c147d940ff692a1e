"""From an operation's name to the function that does it."""

from collections.abc import Callable
from typing import Any

from kcl_core.testing.kinesis import (
    api_consumers,
    api_records,
    api_shards,
    api_streams,
    requests,
)
from kcl_core.testing.kinesis.account import Account
from kcl_core.testing.kinesis.errors import ApiError
from kcl_core.testing.kinesis.fan_out import Subscription
from kcl_core.testing.kinesis.faults import Fault
from kcl_core.testing.kinesis.protocol import decode_request

TARGET_PREFIX = "Kinesis_20131202."

OPERATIONS: dict[str, tuple[type[Any], Callable[[Account, Any], Any]]] = {
    "AddTagsToStream": (requests.AddTags, api_streams.add_tags),
    "CreateStream": (requests.CreateStream, api_streams.create_stream),
    "DecreaseStreamRetentionPeriod": (requests.RetentionPeriod, api_streams.decrease_retention),
    "DeleteStream": (requests.DeleteStream, api_streams.delete_stream),
    "DeregisterStreamConsumer": (requests.NamedConsumer, api_consumers.deregister),
    "DescribeLimits": (requests.Nothing, api_streams.describe_limits),
    "DescribeStream": (requests.DescribeStream, api_streams.describe_stream),
    "DescribeStreamConsumer": (requests.NamedConsumer, api_consumers.describe),
    "DescribeStreamSummary": (requests.Addressed, api_streams.describe_stream_summary),
    "GetRecords": (requests.GetRecords, api_records.get_records),
    "GetShardIterator": (requests.GetShardIterator, api_records.get_shard_iterator),
    "IncreaseStreamRetentionPeriod": (requests.RetentionPeriod, api_streams.increase_retention),
    "ListShards": (requests.ListShards, api_shards.list_shards),
    "ListStreamConsumers": (requests.ListStreamConsumers, api_consumers.list_consumers),
    "ListStreams": (requests.ListStreams, api_streams.list_streams),
    "ListTagsForStream": (requests.ListTags, api_streams.list_tags),
    "MergeShards": (requests.MergeShards, api_shards.merge_shards),
    "PutRecord": (requests.PutRecord, api_records.put_record),
    "PutRecords": (requests.PutRecords, api_records.put_records),
    "RegisterStreamConsumer": (requests.RegisterStreamConsumer, api_consumers.register),
    "RemoveTagsFromStream": (requests.RemoveTags, api_streams.remove_tags),
    "SplitShard": (requests.SplitShard, api_shards.split_shard),
    "SubscribeToShard": (requests.SubscribeToShard, api_consumers.subscribe),
    "UpdateMaxRecordSize": (requests.MaxRecordSize, api_streams.update_max_record_size),
    "UpdateShardCount": (requests.UpdateShardCount, api_shards.update_shard_count),
    "UpdateStreamMode": (requests.UpdateStreamMode, api_streams.update_stream_mode),
}


def perform(
    account: Account, operation: str, body: bytes, content_type: str, fault: Fault | None
) -> requests.Answer | Subscription:
    """Do one request, unless ``fault`` says otherwise.

    Raises:
        ApiError: what to answer instead.
    """
    if operation not in OPERATIONS:
        raise ApiError("UnknownOperationException", f"{operation!r} is not an operation of the embedded Kinesis.")
    if fault is not None and fault.error is not None:
        raise ApiError(fault.error, fault.message, status=fault.http_status())
    kind, do = OPERATIONS[operation]
    request = decode_request(body, content_type, kind)
    if fault is not None and fault.fail_share is not None and isinstance(request, requests.PutRecords):
        return api_records.put_records(account, request, fault.fail_share)
    answer: requests.Answer | Subscription = do(account, request)
    return answer
