"""Reading the raw table with Spark: always by the list of files that the table's log gives, never by its folder.

The folder also holds files of batches that were never committed, and those that a compaction replaced.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from kcl_dagster.spark.rows import TABLE_SCHEMA, spark_ddl
from kcl_dagster.spark.table import TableSnapshot, TransactionNames
from kcl_dagster.spark.windows import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_records(spark: SparkSession, snapshot: TableSnapshot, windows: Iterable[Window] | None = None) -> DataFrame:
    """Return the user records of the snapshot, with `kcl_dagster.spark.rows.TABLE_SCHEMA`'s columns.

    Nothing is read before an action; the same snapshot gives the same rows, until its files are vacuumed.

    Args:
        spark: classic or Connect.
        snapshot: which version of the table.
        windows: only these; filters on the partition columns prune files as well.
    """
    schema = spark_ddl(TABLE_SCHEMA)
    files = [_for_spark(path) for path in snapshot.files(windows)]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", _for_spark(snapshot.location)).parquet(*files)


def reached(snapshot: TableSnapshot, names: TransactionNames, lease_keys: Iterable[str]) -> dict[str, datetime]:
    """Return the arrival time reached by each lease, aware UTC; leases that have reached none are left out."""
    known = ((key, snapshot.transaction(names.reached(key))) for key in lease_keys)
    return {key: _EPOCH + timedelta(milliseconds=millis) for key, millis in known if millis is not None}


def _for_spark(path: str) -> str:
    """Return an address with the name that Hadoop has for S3's file system."""
    return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path
