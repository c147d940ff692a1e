"""Settings of the data path."""

from collections.abc import Mapping
from datetime import timedelta

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from kcl_core.config import Section
from kcl_dagster.spark.windows import WindowGrid


class SparkPathConfig(Section):
    """From the stream to the table: where it lies, how much one micro-batch takes, what it runs on."""

    table_location: str = "tables/records"
    """Folder, or s3:// or s3a:// address, of the Delta table; a cluster needs one that all its hosts reach."""

    storage_options: Mapping[str, str] = {}
    """For S3 only: AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP. Credentials come from AWS's default chain."""

    window_minutes: int = 60
    """Length of a window of arrival time, which is a partition of the table; divides a day."""

    max_records_per_shard: PositiveInt = 50_000
    """A micro-batch stops reading a shard after so many Kinesis records; the last answer may overshoot it."""

    max_bytes_per_shard: PositiveInt = 32 * 1024 * 1024
    """A micro-batch stops reading a shard after so many bytes; the last answer may overshoot it."""

    max_batch_seconds: PositiveFloat = 5.0
    """How long one micro-batch may read; a shard without a backlog is left as soon as its tip is reached."""

    allowed_lateness_seconds: int = Field(default=60, ge=0)
    """How far past its end every shard must have read before a window closes."""

    master: str = "local[*]"
    """Spark's master: local[*], spark://, yarn, k8s:// or, for Spark Connect, sc://."""

    driver_memory: str = Field(default="1g", pattern=r"^\d+[kmgKMG]$")
    """Heap of the driver's Java process. Records never pass through it, so it need not grow with the stream."""

    spark_options: Mapping[str, str] = {}
    """More of Spark's own settings; they win over ours."""

    @field_validator("window_minutes")
    @classmethod
    def _divides_a_day(cls, minutes: int) -> int:
        return WindowGrid(minutes).minutes

    @property
    def grid(self) -> WindowGrid:
        """The windows."""
        return WindowGrid(self.window_minutes)

    @property
    def allowed_lateness(self) -> timedelta:
        """How far past its end every shard must have read before a window closes."""
        return timedelta(seconds=self.allowed_lateness_seconds)
