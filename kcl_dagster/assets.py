"""What the stream and its raw table look like as Dagster assets."""

import dagster as dg

from kcl_dagster.names import raw_table_key, stream_key
from kcl_dagster.partitions import window_partitions
from kcl_dagster.settings import Settings

GROUP = "kinesis"

RAW_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("stream", "string", description="Kinesis data stream"),
        dg.TableColumn("shard_id", "string", description="shard that the record was read from"),
        dg.TableColumn("partition_key", "string", description="the producer's partition key"),
        dg.TableColumn("explicit_hash_key", "string", description="of KPL user records, where the producer set one"),
        dg.TableColumn("sequence_number", "string", description="of the Kinesis record; decimal digits"),
        dg.TableColumn("sub_sequence_number", "bigint", description="place within a KPL aggregate, from 0"),
        dg.TableColumn("approximate_arrival_timestamp", "timestamp", description="when Kinesis took the record, UTC"),
        dg.TableColumn("data", "binary", description="the record's bytes"),
        dg.TableColumn("arrival_date", "string", description="partition: UTC day of the window's start"),
        dg.TableColumn("arrival_time", "string", description="partition: HH-MM of the window's start, UTC"),
    ],
    constraints=dg.TableConstraints(other=["one row per (shard_id, sequence_number, sub_sequence_number)"]),
)


def stream_spec(settings: Settings) -> dg.AssetSpec:
    """Return the stream as an asset that others make."""
    name = settings.kcl.stream_name
    return dg.AssetSpec(
        stream_key(name),
        group_name=GROUP,
        kinds={"kinesis"},
        description=f"Kinesis data stream `{name}`.",
        # Not a tag: those end at 63 characters, names of applications at 240.
        metadata={
            "dagster/uri": settings.kcl.stream_arn or f"kinesis://{name}",
            "kcl/application": settings.kcl.application_name,
        },
    )


def raw_table_spec(settings: Settings) -> dg.AssetSpec:
    """Return the raw table: appended to by the workers, one partition per window of arrival time."""
    pipeline, name = settings.pipeline, settings.kcl.stream_name
    return dg.AssetSpec(
        raw_table_key(name),
        deps=[stream_key(name)],
        group_name=GROUP,
        kinds={"spark", "deltalake"},
        partitions_def=window_partitions(pipeline.window_minutes, pipeline.first_window),
        description=(
            f"Every record of stream `{name}`, each exactly once, by arrival time.\n\n"
            "Workers append to it as long as they run; a window is closed, and what depends on it runs, "
            "when every shard has been read past the window's end."
        ),
        metadata={
            "dagster/uri": pipeline.table_location,
            "dagster/table_name": name,
            "dagster/storage_kind": "deltalake",
            "dagster/column_schema": RAW_COLUMNS,
            "kcl/window minutes": pipeline.window_minutes,
            "kcl/application": settings.kcl.application_name,
        },
    )
