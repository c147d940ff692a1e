"""LeaseManagementConfig: how leases are kept, lost and found again."""

from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import PositiveInt, model_validator

from kcl_core.config.section import Section


class LeaseManagementConfig(Section):
    """How leases are kept, lost and found again. Names and defaults: KCL 3.5, LeaseManagementConfig."""

    table_name: str | None = None
    """Lease table. Default: the application name."""

    failover_time_millis: PositiveInt = 10_000
    """A lease whose counter stands still for this long is expired. Longer costs less and fails over later."""

    epsilon_millis: PositiveInt = 25
    """Subtracted from renewal and discovery intervals so that they end before their deadline."""

    lease_assignment_interval_millis: PositiveInt | None = None
    """Pause between two assignment runs of the leader. Default: twice the failover time."""

    lease_assignment_strategy: Literal["WORKER_UTILIZATION_AWARE", "LEASE_COUNT_BASED"] = "WORKER_UTILIZATION_AWARE"
    """Whether leases go where utilisation is lowest, or each worker gets an equal number of them."""

    max_leases_for_worker: PositiveInt | None = None
    """Most leases one worker may hold; leases beyond the fleet's capacity stay unassigned and are reported."""

    shard_sync_interval_millis: PositiveInt = 60_000
    """Pause between two comparisons of the leases with the stream's shards."""

    cleanup_leases_upon_shard_completion: bool = True
    """Whether the lease of a finished shard goes once its children are being read."""

    ignore_unexpected_child_shards: bool = False
    """Whether open parents with children are tolerated in a listing, rather than an error to retry."""

    billing_mode: Literal["PAY_PER_REQUEST", "PROVISIONED"] = "PAY_PER_REQUEST"
    """Billing of the tables that this application creates."""

    initial_lease_table_read_capacity: PositiveInt = 10
    """Read capacity units, if provisioned."""

    initial_lease_table_write_capacity: PositiveInt = 10
    """Write capacity units, if provisioned."""

    dynamo_db_lock_based_leader_lease_duration_in_millis: PositiveInt = 120_000
    """How long a leader that has fallen silent keeps the lock."""

    dynamo_db_lock_based_leader_heartbeat_period_in_millis: PositiveInt = 30_000
    """Pause between two heartbeats of the leader; at most half of its lease duration (amazon-dynamodb-lock-client)."""

    @model_validator(mode="after")
    def _leader_survives_one_lost_heartbeat(self) -> Self:
        lease = self.dynamo_db_lock_based_leader_lease_duration_in_millis
        heartbeat = self.dynamo_db_lock_based_leader_heartbeat_period_in_millis
        if 2 * heartbeat > lease:
            message = (
                f"the leader's heartbeat period ({heartbeat} ms) must be at most half of its lease duration "
                f"({lease} ms), or one lost heartbeat costs it the lock"
            )
            raise ValueError(message)
        return self

    @property
    def failover_time(self) -> timedelta:
        """How long a counter may stand still."""
        return timedelta(milliseconds=self.failover_time_millis)

    @property
    def renewal_interval(self) -> timedelta:
        """A third of the failover time, less epsilon (KCL: DynamoDBLeaseCoordinator)."""
        return timedelta(milliseconds=self.failover_time_millis // 3 - self.epsilon_millis)

    @property
    def lease_assignment_interval(self) -> timedelta:
        """Pause between two assignment runs."""
        return timedelta(milliseconds=self.lease_assignment_interval_millis or 2 * self.failover_time_millis)

    @property
    def discovery_interval(self) -> timedelta:
        """Half of the assignment interval, less epsilon (KCL: DynamoDBLeaseCoordinator)."""
        return timedelta(milliseconds=self.lease_assignment_interval // timedelta(milliseconds=2) - self.epsilon_millis)

    @property
    def leader_lease_duration(self) -> timedelta:
        """How long a silent leader keeps the lock."""
        return timedelta(milliseconds=self.dynamo_db_lock_based_leader_lease_duration_in_millis)


class InitialPosition(Section):
    """Where a stream that was never read before is read from (KCL: InitialPositionInStreamExtended)."""

    position: Literal["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"] = "LATEST"
    """KCL's default is LATEST: only records that arrive from now on."""

    timestamp: datetime | None = None
    """For AT_TIMESTAMP: an aware time."""

    @model_validator(mode="after")
    def _timestamp_belongs_to_at_timestamp(self) -> Self:
        if (self.position == "AT_TIMESTAMP") != (self.timestamp is not None):
            message = "AT_TIMESTAMP needs a timestamp, and only AT_TIMESTAMP does"
            raise ValueError(message)
        if self.timestamp is not None and self.timestamp.tzinfo is None:
            message = f"timestamp {self.timestamp.isoformat()} needs a time zone, such as a trailing Z"
            raise ValueError(message)
        return self
