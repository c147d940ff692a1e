"""The raw table: one row per user record."""

from collections.abc import Sequence

import pyarrow as pa

from kcl_core.streams.kpl import UserRecord
from kcl_dagster.spark.windows import PARTITION_COLUMNS

_FILE_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("stream", pa.string()),
    ("shard_id", pa.string()),
    ("partition_key", pa.string()),
    ("explicit_hash_key", pa.string()),
    ("sequence_number", pa.string()),
    ("sub_sequence_number", pa.int64()),
    ("approximate_arrival_timestamp", pa.timestamp("us", "UTC")),
    ("data", pa.binary()),
]
FILE_SCHEMA = pa.schema(_FILE_COLUMNS)
"""What a data file holds. (shard_id, sequence_number, sub_sequence_number) is unique in the table."""

TABLE_SCHEMA = pa.unify_schemas([FILE_SCHEMA, pa.schema([(column, pa.string()) for column in PARTITION_COLUMNS])])
"""What the table shows: the partition columns come from the files' places, not from the files."""

_SPARK_TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.binary(): "binary",
}


def spark_ddl(schema: pa.Schema) -> str:
    """Return ``schema`` in Spark's notation."""
    return ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in schema)


def record_batch(stream: str, shard_id: str, users: Sequence[UserRecord]) -> pa.RecordBatch:
    """Return user records of one shard as rows of `FILE_SCHEMA`, in the same order."""
    # Kinesis gives milliseconds, as a float of seconds; rounding keeps them exact.
    arrivals = [round(user.approximate_arrival_timestamp * 1000) * 1000 for user in users]
    columns = (
        pa.repeat(stream, len(users)),
        pa.repeat(shard_id, len(users)),
        pa.array([user.partition_key for user in users], pa.string()),
        pa.array([user.explicit_hash_key for user in users], pa.string()),
        pa.array([user.sequence_number for user in users], pa.string()),
        pa.array([user.sub_sequence_number for user in users], pa.int64()),
        pa.array(arrivals, pa.timestamp("us", "UTC")),
        pa.array([user.data for user in users], pa.binary()),
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=FILE_SCHEMA)
