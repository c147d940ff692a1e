"""From settings to `dg.Definitions`: everything that Dagster needs to run one KCL application."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from kcl_dagster.assets import raw_table_spec, stream_spec
from kcl_dagster.jobs import lease_cleanup_job, rebalance_job, shard_sync_job
from kcl_dagster.resources import KclApplication
from kcl_dagster.schedules import build_schedules
from kcl_dagster.sensors import build_sensors
from kcl_dagster.settings import Settings
from kcl_dagster.workers import worker_job


def build_kinesis_definitions(
    settings: Settings,
    *,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    downstream: Sequence[dg.AssetsDefinition] = (),
) -> dg.Definitions:
    """Return assets, jobs, sensors, schedules and resources for one stream.

    Args:
        settings: the settings as read now; names and partitions are made from them.
        file: the settings file, read again by the processes that run.
        overrides: top-level settings that win over file and environment there too.
        downstream: assets partitioned as the raw table, to run on each window once it is closed.
    """
    pipeline = settings.pipeline
    return dg.Definitions(
        assets=[stream_spec(settings), raw_table_spec(settings), *downstream],
        jobs=[worker_job, shard_sync_job, rebalance_job, lease_cleanup_job],
        sensors=build_sensors(pipeline.sensor_interval_seconds, downstream),
        schedules=build_schedules(pipeline.cleanup_cron, pipeline.safety_net_cron),
        resources={
            "application": KclApplication(
                config_file=str(file.resolve()) if file else None, overrides=dict(overrides or {})
            )
        },
    )
