"""Schemas of the raw table: one row per user record."""

import pyarrow as pa

from kcl_dagster.spark.windows import PARTITION_COLUMNS

FILE_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("shard_id", pa.string()),
        pa.field("partition_key", pa.string()),
        pa.field("explicit_hash_key", pa.string()),
        pa.field("sequence_number", pa.string()),
        pa.field("sub_sequence_number", pa.int64()),
        pa.field("approximate_arrival_timestamp", pa.timestamp("us", "UTC")),
        pa.field("data", pa.binary()),
    ]
)
"""What a data file holds. (shard_id, sequence_number, sub_sequence_number) is unique in the table."""

TABLE_SCHEMA = pa.schema([*FILE_SCHEMA, *(pa.field(column, pa.string()) for column in PARTITION_COLUMNS)])
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
