"""The DynamoDB tables of one application: which there are, and their creation."""

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from kcl_core.clock import Clock
from kcl_core.config import KclConfig
from kcl_core.coordinator.state_table import (
    TABLES_MERGED,
    TABLES_MERGING,
    VERSION_3X,
    VERSION_3X_WITH_ROLLBACK,
    CoordinatorStateTable,
)
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.schema import Capacity, create_table, describe_table
from kcl_core.election.lock_table import LockTable
from kcl_core.errors import ConfigurationError, TableMissingError
from kcl_core.leases.table import LeaseTable
from kcl_core.metrics.table import WorkerMetricsTable
from kcl_core.runtime import StopSignal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_log = logging.getLogger(__name__)

Layout = Literal["three", "single"]

LEASE_KEY = "leaseKey"


class ApplicationTables:
    """Where one application keeps its rows: KCL 3.0's three tables, or 3.5's single one.

    Tables that exist decide which: with a coordinator state table it is three, unless KCL 3.5 has moved the fleet to
    the single one and the old tables are left over; with only a lease table it is the single one. For a new
    application the settings decide. We take no part in such a move: it waits until our last worker has left, because
    each reports to the table that Java wants to see empty.
    """

    def __init__(self, config: KclConfig, client: "DynamoDBClient") -> None:
        self._config = config
        self._client = client
        self._known_layout: Layout | None = None
        self._is_merging = False

    @cached_property
    def leases(self) -> LeaseTable:
        """The leases. Same table in both layouts."""
        return LeaseTable(self._client, self._lease_location("LEASE"))

    @property
    def worker_metrics(self) -> WorkerMetricsTable:
        """The workers' metrics. Looks up which tables there are, until some are."""
        location = self._metrics_location(self.layout())
        also_read = self._metrics_location("single") if self._is_merging else None
        return WorkerMetricsTable(self._client, location, also_read)

    @property
    def lock(self) -> LockTable:
        """The leader's lock. Looks up which tables there are, until some are."""
        return LockTable(self._client, self._state_location(self.layout(), "LEADER"))

    @property
    def coordinator_state(self) -> CoordinatorStateTable:
        """The coordinator state. Looks up which tables there are, until some are."""
        return CoordinatorStateTable(self._client, self._state_location(self.layout(), "CLIENT_VERSION_MIGRATION"))

    def layout(self) -> Layout:
        """Return which tables the application has, or would be given.

        Raises:
            EndpointUnavailableError: retry.
        """
        if self._known_layout is not None:
            return self._known_layout
        if describe_table(self._client, self._state_location("three", "")) is not None:
            status = self._table_migration()
            self._is_merging = status in TABLES_MERGING
            self._known_layout = "single" if status == TABLES_MERGED else "three"
        elif describe_table(self._client, self._lease_location("")) is not None:
            self._known_layout = "single"
        return self._known_layout or self._config.metadata_tables

    def create(self, clock: Clock, modified_by: str, stop: StopSignal | None = None) -> tuple[str, ...]:
        """Create what is missing, and mark a new application as one of KCL 3.x; return the names of what was created.

        Tables that all exist need no right to create any.

        Args:
            clock: for time-outs and the mark.
            modified_by: worker id, for the mark.
            stop: ends the wait for tables early.

        Raises:
            TableSchemaError: a table of one of these names is not KCL's.
            ConfigurationError: the fleet speaks the protocol of KCL 2.x, or is being migrated from it.
            AccessDeniedError: a table is missing and may not be created.
            EndpointUnavailableError: retry.
        """
        wait = (stop or StopSignal()).wait
        created = []
        layout = self.layout()
        # The coordinator state first: its table is what tells the layouts apart, for whoever starts meanwhile.
        for location, indexed in self._locations(layout):
            if create_table(self._client, location, clock, wait, owner_index=indexed, capacity=self._capacity):
                created.append(location.table_name)
        if created:
            _log.info("created tables %s", ", ".join(created))
        state = CoordinatorStateTable(self._client, self._state_location(layout, "CLIENT_VERSION_MIGRATION"))
        if not state.start_at_3x(modified_by, clock.wall()):
            self._check_version(state.client_version())
        return tuple(created)

    def _table_migration(self) -> str | None:
        """Return the status that KCL 3.5 goes by: of the coordinator state table, else of the lease table."""
        for layout in ("three", "single"):
            state = CoordinatorStateTable(self._client, self._state_location(layout, "TABLE_MIGRATION"))
            try:
                status = state.table_migration()
            except TableMissingError:
                continue  # of the two, the coordinator state table is created first
            if status is not None:
                return status
        return None

    def _check_version(self, version: str | None) -> None:
        if version not in (VERSION_3X, VERSION_3X_WITH_ROLLBACK):
            raise ConfigurationError(
                f"its fleet is at {version or 'an unknown version'}, not yet at {VERSION_3X}",
                setting="application_name",
                next_step="finish the fleet's migration from KCL 2.x first, or choose another application name",
            )

    def _locations(self, layout: Layout) -> list[tuple[TableLocation, bool]]:
        """Return the tables in order of creation; True for the one with the owner index."""
        if layout == "single":
            return [(self._lease_location(""), True)]
        return [
            (self._state_location("three", ""), False),
            (self._metrics_location("three"), False),
            (self._lease_location(""), True),
        ]

    @property
    def _capacity(self) -> Capacity | None:
        leases = self._config.leases
        if leases.billing_mode == "PAY_PER_REQUEST":
            return None
        return Capacity(leases.initial_lease_table_read_capacity, leases.initial_lease_table_write_capacity)

    def _lease_location(self, entity_type: str) -> TableLocation:
        return TableLocation(self._config.lease_table_name, LEASE_KEY, entity_type or None)

    def _metrics_location(self, layout: Layout) -> TableLocation:
        if layout == "single":
            return self._lease_location("WORKER_METRIC_STATS")
        return TableLocation(self._config.worker_metrics_table_name, "wid")

    def _state_location(self, layout: Layout, entity_type: str) -> TableLocation:
        if layout == "single":
            return self._lease_location(entity_type)
        return TableLocation(self._config.coordinator_state_table_name, "key")
