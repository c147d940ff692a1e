"""The raw table: a Delta table of user records, and what each lease has committed to it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from kcl_core.errors import ConfigurationError, InvariantViolatedError, TableMissingError, TableSchemaError
from kcl_dagster.spark.commit_log import LOG_KEY, CommitLog, CommitNote, TableCommit, encode_note
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.rows import TABLE_SCHEMA
from kcl_dagster.spark.windows import DATE_COLUMN, PARTITION_COLUMNS, TIME_COLUMN, Window, WindowGrid

WINDOW_MINUTES_PROPERTY = "kcl.window_minutes"
"""Table property: the length of the windows that the table was created with."""

# Commits of other leases do not conflict, but each one that comes first costs a repetition within `deltalake`; its
# default of 15 was used up by eight writers that did nothing else.
_REBASES_PER_ATTEMPT = 100


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """Names of Delta's application transactions, under which the table keeps each lease's place.

    Attributes:
        application: the KCL application.
        stream: name of the stream.
        stream_created: aware; tells the stream from an earlier one of the same name, whose leases had the same keys.
    """

    application: str
    stream: str
    stream_created: datetime

    def lease(self, lease_key: str) -> str:
        """Return the name of the transaction that counts the lease's batches, from 1."""
        return f"kcl/{self.application}/{self.stream}:{int(self.stream_created.timestamp())}/{lease_key}"

    def reached(self, lease_key: str) -> str:
        """Return the name of the transaction whose version is the arrival time reached, epoch milliseconds."""
        return f"{self.lease(lease_key)}/reached"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A commit that was not made, because another one of the same lease came first."""

    reason: str


class TableSnapshot:
    """One version of the table. Does not change, whatever is committed later."""

    def __init__(self, location: str, delta: DeltaTable, log: CommitLog, grid: WindowGrid) -> None:
        self.location = location
        self._delta = delta
        self._log = log
        self._grid = grid

    @property
    def version(self) -> int:
        """Number of the last commit in it; 0 is the table's creation."""
        return self._delta.version()

    def transaction(self, app_id: str) -> int | None:
        """Return the version last committed for an application transaction; None if there is none."""
        return self._delta.transaction_version(app_id)

    def files(self, windows: Iterable[Window] | None = None) -> tuple[str, ...]:
        """Return the absolute paths of the data files, sorted; only those of ``windows`` if given."""
        wanted = None if windows is None else {(w.arrival_date, w.arrival_time) for w in windows}
        return tuple(
            sorted(
                f"{self.location}/{unquote(path)}"
                for path, place, _ in self._added()
                if wanted is None or place in wanted
            )
        )

    def rows_by_window(self) -> dict[Window, int]:
        """Return how many user records each window holds, from the files' statistics; empty windows are left out."""
        rows: Counter[tuple[str, str]] = Counter()
        for _, place, count in self._added():
            rows[place] += count
        return {self._grid.window_of_partition(*place): count for place, count in sorted(rows.items())}

    def history(self, after: int | None = None) -> tuple[TableCommit, ...]:
        """Return the commits behind version ``after``, oldest first; without it all that the log still has.

        Delta keeps a commit's own entry for 30 days (table property ``delta.logRetentionDuration``).
        """
        first = self._log.first_version() if after is None else after + 1
        return tuple(takewhile(lambda commit: commit.version <= self.version, self._log.read_from(first)))

    def commit(self, files: Iterable[AddAction], transactions: Mapping[str, int], note: CommitNote) -> int | Conflict:
        """Add files and record transactions on top of this snapshot, all or nothing.

        Commits of others that came in between are no obstacle, unless they recorded one of these transactions too:
        `deltalake` compares their names only, so the caller has compared the numbers with this same snapshot.

        Returns:
            The version of the table that this commit is.

        Raises:
            InvariantViolatedError: it was accepted, but the log does not show it.
        """
        properties = CommitProperties(
            custom_metadata={LOG_KEY: encode_note(note)},
            max_commit_retries=_REBASES_PER_ATTEMPT,
            app_transactions=[Transaction(name, version) for name, version in transactions.items()],
        )
        conflict = None
        try:
            self._delta.create_write_transaction(
                list(files),
                "append",
                self._delta.schema(),
                partition_by=list(PARTITION_COLUMNS),
                commit_properties=properties,
            )
        except CommitFailedError as error:
            conflict = Conflict(str(error))
        # Looked up even after a conflict: if the answer to a write is lost, its repetition conflicts with itself.
        for commit in self._log.read_from(self.version + 1):
            if commit.note is not None and commit.note.fingerprint == note.fingerprint:
                return commit.version
        if conflict is None:
            raise InvariantViolatedError("a commit shows in the log", table=self.location, behind=self.version)
        return conflict

    def _added(self) -> list[tuple[str, tuple[str, str], int]]:
        """Return each file's encoded path, partition values and number of rows."""
        actions: list[dict[str, Any]] = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        date, time = f"partition.{DATE_COLUMN}", f"partition.{TIME_COLUMN}"
        return [(action["path"], (action[date], action[time]), action["num_records"]) for action in actions]


class RecordTable:
    """Where the raw table lies. Holds no connection; every `snapshot` reads the log anew.

    Not for forked processes: `deltalake` refuses to work in them.
    """

    def __init__(self, config: SparkPathConfig) -> None:
        location = config.table_location.rstrip("/")
        self.location = location if "://" in location else str(Path(location).absolute())
        self._storage_options = dict(config.storage_options)
        self._grid = config.grid

    @cached_property
    def _log(self) -> CommitLog:
        return CommitLog(self.location, self._storage_options)

    def create_if_missing(self) -> None:
        """Create the table, unless it exists; several may try at once.

        Raises:
            TableSchemaError: something else is at that place.
            ConfigurationError: the table was created with windows of another length; mixed ones never close right.
        """
        if not DeltaTable.is_deltatable(self.location, self._storage_options):
            try:
                DeltaTable.create(
                    self.location,
                    Schema.from_arrow(TABLE_SCHEMA),
                    mode="error",
                    partition_by=list(PARTITION_COLUMNS),
                    configuration={WINDOW_MINUTES_PROPERTY: str(self._grid.minutes)},
                    storage_options=self._storage_options,
                    raise_if_key_not_exists=False,
                    # Otherwise the slower of two creates it again, as version 1.
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except DeltaError:
                # Another one was faster; anything else went wrong if there is still no table.
                if not DeltaTable.is_deltatable(self.location, self._storage_options):
                    raise
        self._check(self._load())

    def snapshot(self) -> TableSnapshot:
        """Return the table's present version.

        Raises:
            TableMissingError: it was not created yet.
        """
        return TableSnapshot(self.location, self._load(), self._log, self._grid)

    def _load(self) -> DeltaTable:
        try:
            return DeltaTable(self.location, storage_options=self._storage_options)
        except TableNotFoundError as error:
            raise TableMissingError(table=self.location) from error

    def _check(self, delta: DeltaTable) -> None:
        metadata = delta.metadata()
        parted_by = metadata.partition_columns
        found = {field.name: field.type for field in delta.schema().fields}
        expected = {field.name: field.type for field in Schema.from_arrow(TABLE_SCHEMA).fields}
        if not expected.items() <= found.items() or parted_by != list(PARTITION_COLUMNS):
            raise TableSchemaError(
                table=self.location,
                expected=f"columns {', '.join(expected)}, partitioned by {', '.join(PARTITION_COLUMNS)}",
                found=f"columns {', '.join(found)}, partitioned by {', '.join(parted_by) or 'nothing'}",
            )
        minutes = metadata.configuration.get(WINDOW_MINUTES_PROPERTY)
        if minutes != str(self._grid.minutes):
            raise ConfigurationError(
                f"table {self.location!r} has windows of {minutes} minutes, not of {self._grid.minutes}",
                setting="window_minutes",
                next_step="set it to the table's length, or choose another table_location",
            )
