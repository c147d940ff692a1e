"""The requests as types: field names, required ones and the limits that hold whatever the state."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

StreamName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")]
ShardId = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")]
HashKey = Annotated[str, Meta(pattern=r"^(0|[1-9]\d{0,38})$")]
SequenceNumber = Annotated[str, Meta(pattern=r"^(0|[1-9]\d{0,128})$")]
PartitionKey = Annotated[str, Meta(min_length=1, max_length=256)]
IteratorType = Literal["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"]


class Addressed(Struct, kw_only=True, rename="pascal"):
    """A request that names a stream, by name, ARN or both."""

    stream_name: StreamName | None = None
    stream_arn: str | None = field(default=None, name="StreamARN")


class StreamModeDetails(Struct, kw_only=True, rename="pascal"):
    """Capacity mode."""

    stream_mode: Literal["PROVISIONED", "ON_DEMAND"]


class CreateStream(Struct, kw_only=True, rename="pascal"):
    """CreateStream."""

    stream_name: StreamName
    shard_count: Annotated[int, Meta(ge=1)] | None = None
    stream_mode_details: StreamModeDetails | None = None
    tags: dict[str, str] = field(default_factory=dict)
    max_record_size: Annotated[int, Meta(ge=1024, le=10240)] = field(default=1024, name="MaxRecordSizeInKiB")


class DeleteStream(Addressed, kw_only=True, rename="pascal"):
    """DeleteStream."""

    enforce_consumer_deletion: bool = False


class DescribeStream(Addressed, kw_only=True, rename="pascal"):
    """DescribeStream."""

    limit: Annotated[int, Meta(ge=1, le=10000)] = 100
    exclusive_start_shard_id: ShardId | None = None


class ListStreams(Struct, kw_only=True, rename="pascal"):
    """ListStreams."""

    limit: Annotated[int, Meta(ge=1, le=10000)] = 100
    exclusive_start_stream_name: StreamName | None = None
    next_token: str | None = None


class ShardFilter(Struct, kw_only=True, rename="pascal"):
    """ListShards' filter."""

    type: Literal[
        "AFTER_SHARD_ID", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST", "AT_TIMESTAMP", "FROM_TIMESTAMP"
    ]
    shard_id: ShardId | None = None
    timestamp: float | None = None


class ListShards(Addressed, kw_only=True, rename="pascal"):
    """ListShards."""

    next_token: str | None = None
    exclusive_start_shard_id: ShardId | None = None
    max_results: Annotated[int, Meta(ge=1, le=10000)] = 1000
    stream_creation_timestamp: float | None = None
    shard_filter: ShardFilter | None = None


class SplitShard(Addressed, kw_only=True, rename="pascal"):
    """SplitShard."""

    shard_to_split: ShardId
    new_starting_hash_key: HashKey


class MergeShards(Addressed, kw_only=True, rename="pascal"):
    """MergeShards."""

    shard_to_merge: ShardId
    adjacent_shard_to_merge: ShardId


class UpdateShardCount(Addressed, kw_only=True, rename="pascal"):
    """UpdateShardCount."""

    target_shard_count: Annotated[int, Meta(ge=1)]
    scaling_type: Literal["UNIFORM_SCALING"]


class UpdateStreamMode(Struct, kw_only=True, rename="pascal"):
    """UpdateStreamMode."""

    stream_arn: str = field(name="StreamARN")
    stream_mode_details: StreamModeDetails


class RetentionPeriod(Addressed, kw_only=True, rename="pascal"):
    """IncreaseStreamRetentionPeriod and DecreaseStreamRetentionPeriod."""

    retention_period_hours: Annotated[int, Meta(ge=24, le=8760)]


class MaxRecordSize(Struct, kw_only=True, rename="pascal"):
    """UpdateMaxRecordSize."""

    stream_arn: str = field(name="StreamARN")
    max_record_size: Annotated[int, Meta(ge=1024, le=10240)] = field(name="MaxRecordSizeInKiB")


class PutRecord(Addressed, kw_only=True, rename="pascal"):
    """PutRecord. The data stays base64, as the answers of GetRecords need it."""

    data: str
    partition_key: PartitionKey
    explicit_hash_key: HashKey | None = None
    sequence_number_for_ordering: SequenceNumber | None = None


class PutRecordsEntry(Struct, rename="pascal"):
    """One record of PutRecords."""

    data: str
    partition_key: PartitionKey
    explicit_hash_key: HashKey | None = None


class PutRecords(Addressed, kw_only=True, rename="pascal"):
    """PutRecords."""

    records: Annotated[list[PutRecordsEntry], Meta(min_length=1, max_length=500)]


class GetShardIterator(Addressed, kw_only=True, rename="pascal"):
    """GetShardIterator."""

    shard_id: ShardId
    shard_iterator_type: IteratorType
    starting_sequence_number: SequenceNumber | None = None
    timestamp: float | None = None


class GetRecords(Struct, kw_only=True, rename="pascal"):
    """GetRecords."""

    shard_iterator: str
    limit: Annotated[int, Meta(ge=1, le=10000)] = 10000
    stream_arn: str | None = field(default=None, name="StreamARN")


class RegisterStreamConsumer(Struct, kw_only=True, rename="pascal"):
    """RegisterStreamConsumer."""

    stream_arn: str = field(name="StreamARN")
    consumer_name: StreamName


class NamedConsumer(Struct, kw_only=True, rename="pascal"):
    """DescribeStreamConsumer and DeregisterStreamConsumer: by ARN, or by stream and name."""

    stream_arn: str | None = field(default=None, name="StreamARN")
    consumer_name: StreamName | None = None
    consumer_arn: str | None = field(default=None, name="ConsumerARN")


class ListStreamConsumers(Struct, kw_only=True, rename="pascal"):
    """ListStreamConsumers."""

    stream_arn: str = field(name="StreamARN")
    next_token: str | None = None
    max_results: Annotated[int, Meta(ge=1, le=10000)] = 100


class StartingPosition(Struct, kw_only=True, rename="pascal"):
    """Where a subscription starts."""

    type: IteratorType
    sequence_number: SequenceNumber | None = None
    timestamp: float | None = None


class SubscribeToShard(Struct, kw_only=True, rename="pascal"):
    """SubscribeToShard."""

    consumer_arn: str = field(name="ConsumerARN")
    shard_id: ShardId
    starting_position: StartingPosition


class AddTags(Addressed, kw_only=True, rename="pascal"):
    """AddTagsToStream."""

    tags: Annotated[dict[str, str], Meta(min_length=1, max_length=200)]


class ListTags(Addressed, kw_only=True, rename="pascal"):
    """ListTagsForStream."""

    exclusive_start_tag_key: str | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 50


class RemoveTags(Addressed, kw_only=True, rename="pascal"):
    """RemoveTagsFromStream."""

    tag_keys: Annotated[list[str], Meta(min_length=1, max_length=50)]


class Nothing(Struct):
    """A request without arguments."""


Answer = dict[str, Any] | bytes | None
"""What an operation returns: a JSON object, one that is encoded already, or nothing (an empty body)."""
