"""Settings: KCL's names in snake_case with KCL's defaults, one class per KCL configuration class."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from kcl_core.config.assignment import GracefulLeaseHandoffConfig, WorkerUtilizationAwareAssignmentConfig
from kcl_core.config.aws import AwsConfig
from kcl_core.config.leases import InitialPosition, LeaseManagementConfig
from kcl_core.config.retrieval import PollingConfig
from kcl_core.config.section import Section
from kcl_core.errors import ConfigurationError

__all__ = [
    "AwsConfig",
    "GracefulLeaseHandoffConfig",
    "InitialPosition",
    "KclConfig",
    "LeaseManagementConfig",
    "PollingConfig",
    "Section",
    "WorkerUtilizationAwareAssignmentConfig",
    "load_config",
]


class KclConfig(BaseSettings):
    """All settings of one application.

    Sources, the first that has a value wins: arguments, environment (``KCL_STREAM_NAME``,
    ``KCL_AWS__REGION_NAME``: two underscores between section and setting), ``kcl.toml``, defaults.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        env_prefix="KCL_",
        env_nested_delimiter="__",
    )

    application_name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{3,240}$")
    """Name of the fleet; also of its lease table."""

    stream_name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")
    """Kinesis data stream."""

    stream_arn: str | None = None
    """ARN of the stream, for streams of another account."""

    initial_position: InitialPosition = InitialPosition()
    metadata_tables: Literal["three", "single"] = "three"
    """New applications: KCL 3.0's three tables, or 3.5's single one. Existing tables decide otherwise."""

    aws: AwsConfig = AwsConfig()
    leases: LeaseManagementConfig = LeaseManagementConfig()
    assignment: WorkerUtilizationAwareAssignmentConfig = WorkerUtilizationAwareAssignmentConfig()
    handoff: GracefulLeaseHandoffConfig = GracefulLeaseHandoffConfig()
    polling: PollingConfig = PollingConfig()
    pipeline: Mapping[str, Any] = {}
    """Settings of `kcl_dagster`, which checks them; the library itself reads none of them."""

    @property
    def lease_table_name(self) -> str:
        """Lease table (KCL: the application's name unless overridden)."""
        return self.leases.table_name or self.application_name

    @property
    def worker_metrics_table_name(self) -> str:
        """Worker metrics table of the three-table layout (KCL: WorkerMetricsTableConfig)."""
        return f"{self.application_name}-WorkerMetricStats"

    @property
    def coordinator_state_table_name(self) -> str:
        """Coordinator state table of the three-table layout (KCL: CoordinatorStateTableConfig)."""
        return f"{self.application_name}-CoordinatorState"


def load_config(file: Path | None = None, /, **overrides: object) -> KclConfig:
    """Read the settings from ``overrides``, the environment and ``file``.

    Args:
        file: a TOML file; None reads no file.
        overrides: top-level settings that win over everything else.

    Raises:
        ConfigurationError: a setting is missing, unknown or invalid; names it and where it came from.
    """

    class Sourced(KclConfig):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
            return (*sources, TomlConfigSettingsSource(settings_cls, file)) if file else sources

    if file is not None and not file.is_file():
        raise ConfigurationError(
            f"file {str(file)!r} does not exist", setting="kcl.toml", next_step="create it or leave the option out"
        )
    try:
        sourced = Sourced(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{first['msg']} (looked in arguments, environment KCL_{name.upper().replace('.', '__')}"
            + (f", {file})" if file else ")"),
            setting=name,
            next_step="set it there, or correct the value",
        ) from error
    return KclConfig.model_construct(**{name: getattr(sourced, name) for name in KclConfig.model_fields})
