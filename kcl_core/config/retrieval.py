"""PollingConfig: how records are fetched."""

from datetime import timedelta

from pydantic import Field, PositiveInt

from kcl_core.config.section import Section


class PollingConfig(Section):
    """GetRecords. Names and defaults: KCL 3.5, PollingConfig."""

    max_records: int = Field(default=10_000, gt=0, le=10_000)
    """Most records per GetRecords call."""

    idle_time_between_reads_in_millis: int = Field(default=1_500, ge=200)
    """Pause between two reads of one shard; five reads a second and shard is Kinesis's limit, so at least 200."""

    kinesis_request_timeout_millis: PositiveInt = 30_000
    """How long one request may take."""

    @property
    def idle_time_between_reads(self) -> timedelta:
        """Pause between two reads of one shard."""
        return timedelta(milliseconds=self.idle_time_between_reads_in_millis)

    @property
    def kinesis_request_timeout(self) -> timedelta:
        """How long one request may take."""
        return timedelta(milliseconds=self.kinesis_request_timeout_millis)
