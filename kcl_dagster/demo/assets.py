"""The demo's downstream asset: delays per carrier, computed by Spark on each closed window."""

import base64

import dagster as dg
import pyarrow as pa
from deltalake import write_deltalake

from kcl_dagster.demo.delays import carrier_delays as compute_delays
from kcl_dagster.demo.delays import delays_markdown, plot_delays
from kcl_dagster.demo.flights import load_airlines
from kcl_dagster.names import raw_table_key
from kcl_dagster.partitions import window_partitions
from kcl_dagster.resources import KclApplication
from kcl_dagster.settings import Settings
from kcl_dagster.spark.read import read_records
from kcl_dagster.spark.session import open_session
from kcl_dagster.spark.windows import PARTITION_COLUMNS, Window

GROUP = "statistics"


def carrier_delays(settings: Settings) -> dg.AssetsDefinition:
    """Return the asset for the raw table that ``settings`` describe."""
    pipeline = settings.pipeline
    raw = raw_table_key(settings.kcl.stream_name)

    @dg.asset(
        key=[settings.kcl.stream_name, "carrier_delays"],
        deps=[raw],
        partitions_def=window_partitions(pipeline.window_minutes, pipeline.first_window),
        group_name=GROUP,
        kinds={"spark", "deltalake"},
        metadata={"dagster/uri": f"{pipeline.table_location}_carrier_delays"},
        description="Departure and arrival delays per carrier, of the flights that arrived in one window.",
    )
    def delays(context: dg.AssetExecutionContext, application: KclApplication) -> dg.MaterializeResult[None]:
        """Compute one window from the table's present snapshot and replace the window in the result."""
        window = application.pipeline().grid.window_of_key(context.partition_key)
        snapshot = application.record_table().snapshot()
        spark = open_session(application.pipeline(), f"{context.run_id[:8]} carrier_delays")
        try:
            records = read_records(spark, snapshot, [window])
            statistics = compute_delays(records, load_airlines()).toArrow()
        finally:
            spark.stop()
        _replace(f"{application.pipeline().table_location}_carrier_delays", statistics, window)
        rows = statistics.to_pylist()
        plot = base64.b64encode(plot_delays(rows)).decode()
        return dg.MaterializeResult(
            metadata={
                "delays": dg.MetadataValue.md(f"![delays per carrier](data:image/png;base64,{plot})"),
                "table": dg.MetadataValue.md(delays_markdown(rows)),
                "dagster/row_count": len(rows),
                "flights": sum(row["flights"] for row in rows),
                "raw table version": snapshot.version,
            }
        )

    return delays


def _replace(location: str, statistics: pa.Table, window: Window) -> None:
    """Replace the window's rows, so that a repeated run changes nothing."""
    for column, value in window.partition_values.items():
        statistics = statistics.append_column(column, pa.repeat(pa.scalar(value), statistics.num_rows))
    write_deltalake(
        location,
        statistics,
        mode="overwrite",
        partition_by=list(PARTITION_COLUMNS),
        predicate=" AND ".join(f"{column} = '{value}'" for column, value in window.partition_values.items()),
    )
