"""``format("kinesis")`` on a real Spark session, against the embedded Kinesis."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kcl_core.streams.kpl import AggregateEntry, aggregate
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import REGION, EmbeddedAws
from kcl_dagster.spark.rows import FILE_SCHEMA, spark_ddl
from kcl_dagster.spark.source import KinesisDataSource

pytestmark = pytest.mark.spark


def load(spark: SparkSession, aws: EmbeddedAws, stream: str, **options: str) -> DataFrame:
    spark.dataSource.register(KinesisDataSource)
    reader = spark.read.format("kinesis").option("stream", stream)
    reader = reader.option("region", REGION).option("endpoint", aws.kinesis_endpoint)
    return reader.options(**options).load()


def put(stream: KinesisStream, payloads: list[bytes]) -> None:
    entries = [{"Data": data, "PartitionKey": f"key-{data!r}"} for data in payloads]
    answer = stream.client.put_records(StreamName=stream.name, Records=entries)  # type: ignore[arg-type]
    assert answer["FailedRecordCount"] == 0


def test_every_shard_is_read_once_with_its_parents(
    spark: SparkSession, embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream
) -> None:
    """Shards closed by a reshard hold the records from before it."""
    before, after = [b"before-%d" % n for n in range(50)], [b"after-%d" % n for n in range(50)]
    put(kinesis_stream, before)
    kinesis_stream.client.split_shard(
        StreamName=kinesis_stream.name, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
    )
    kinesis_stream.client.get_waiter("stream_exists").wait(StreamName=kinesis_stream.name)
    put(kinesis_stream, after)
    frame = load(spark, embedded_aws, kinesis_stream.name)
    assert ", ".join(f"{name} {kind}" for name, kind in frame.dtypes) == spark_ddl(FILE_SCHEMA)
    rows = frame.collect()
    assert sorted(bytes(row["data"]) for row in rows) == sorted(before + after)
    assert {row["shard_id"] for row in rows if bytes(row["data"]).startswith(b"before")} == {"shardId-000000000000"}
    assert {row["shard_id"] for row in rows} == {f"shardId-{n:012d}" for n in range(3)}
    assert {row["stream"] for row in rows} == {kinesis_stream.name}
    assert frame.rdd.getNumPartitions() == 3


def test_aggregates_are_taken_apart(
    spark: SparkSession, embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream
) -> None:
    packed = aggregate(AggregateEntry(f"k{n}", b"%d" % n) for n in range(5))
    kinesis_stream.client.put_record(StreamName=kinesis_stream.name, PartitionKey="a", Data=packed)
    rows = load(spark, embedded_aws, kinesis_stream.name).orderBy("sub_sequence_number").collect()
    assert [(row["sub_sequence_number"], row["partition_key"], bytes(row["data"])) for row in rows] == [
        (n, f"k{n}", b"%d" % n) for n in range(5)
    ]
    assert len({row["sequence_number"] for row in rows}) == 1


def test_a_read_at_a_timestamp_leaves_out_what_arrived_before(
    spark: SparkSession, embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream
) -> None:
    put(kinesis_stream, [b"first"])
    (arrival,) = (
        row["millis"]
        for row in load(spark, embedded_aws, kinesis_stream.name)
        .selectExpr("unix_millis(approximate_arrival_timestamp) AS millis")
        .collect()
    )
    moment = datetime.fromtimestamp(arrival / 1000, UTC)

    def rows_from(start: datetime) -> int:
        options = {"startingPosition": "AT_TIMESTAMP", "startingTimestamp": start.isoformat()}
        return load(spark, embedded_aws, kinesis_stream.name, **options).count()

    assert rows_from(moment) == 1
    assert rows_from(moment + timedelta(milliseconds=1)) == 0


def test_an_empty_stream_has_no_rows(
    spark: SparkSession, embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream
) -> None:
    assert load(spark, embedded_aws, kinesis_stream.name).count() == 0


def test_a_stream_that_does_not_exist_is_named(spark: SparkSession, embedded_aws: EmbeddedAws) -> None:
    with pytest.raises(PySparkException, match="'nowhere' does not exist"):
        load(spark, embedded_aws, "nowhere").count()


def test_a_wrong_option_is_named(spark: SparkSession, embedded_aws: EmbeddedAws) -> None:
    with pytest.raises(PySparkException, match="startingPosition"):
        load(spark, embedded_aws, "any", startingPosition="LATEST").count()


@pytest.mark.parametrize("module", ["source", "read", "table_commit"])
def test_executors_do_not_need_dagster(module: str) -> None:
    code = f"import sys, kcl_dagster.spark.{module}; sys.exit('dagster' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
