"""Settings of the orchestration, in section `pipeline` of `kcl.toml` or `KCL_PIPELINE__*` in the environment."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import PositiveInt, ValidationError, field_validator

from kcl_core.config import KclConfig, Section, load_config
from kcl_core.errors import ConfigurationError
from kcl_dagster.spark.config import SparkPathConfig

CONFIG_FILE_VARIABLE = "KCL_CONFIG_FILE"
DEFAULT_CONFIG_FILE = "kcl.toml"


class PipelineConfig(SparkPathConfig):
    """What `kcl_dagster` adds to the settings of `kcl_core`."""

    first_window: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    """Start of the earliest window that Dagster shows and runs what is downstream for; UTC unless it says otherwise.

    Not long before the table's first record is best: Dagster lists every window since."""

    workers: PositiveInt = 2
    """Worker runs that the fleet sensor keeps alive."""

    materialization_interval_seconds: PositiveInt = 60
    """Shortest pause between two materializations of one partition by one worker."""

    sensor_interval_seconds: PositiveInt = 15
    """Shortest pause between two looks of a sensor."""

    cleanup_cron: str = "*/5 * * * *"
    """When leases of finished shards are looked for (KCL: every 5 minutes)."""

    safety_net_cron: str = "*/10 * * * *"
    """When shard sync and rebalance run even though no sensor asked for them."""

    @field_validator("first_window")
    @classmethod
    def _in_utc(cls, moment: datetime) -> datetime:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class Settings(Section):
    """Everything: the library's settings and the orchestration's."""

    kcl: KclConfig
    pipeline: PipelineConfig


def config_file() -> Path | None:
    """Return the settings file: the one named by KCL_CONFIG_FILE, else `kcl.toml` here if there is one."""
    named = os.environ.get(CONFIG_FILE_VARIABLE)
    if named:
        return Path(named)
    default = Path(DEFAULT_CONFIG_FILE)
    return default if default.is_file() else None


def load_settings(file: Path | None = None, /, **overrides: Any) -> Settings:
    """Read the settings from ``overrides``, the environment and ``file``, the first that has a value winning.

    Raises:
        ConfigurationError: names the setting and where it was looked for.
    """
    kcl = load_config(file, **overrides)
    try:
        pipeline = PipelineConfig.model_validate(dict(kcl.pipeline))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{first['msg']} (section 'pipeline' of the settings file, or KCL_PIPELINE__{name.upper()})",
            setting=f"pipeline.{name}",
            next_step="set it there, or correct the value",
        ) from error
    return Settings(kcl=kcl, pipeline=pipeline)
