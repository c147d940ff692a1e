"""ClosedWindows: which windows of the table nothing can be added to any more, and what they hold."""

from dataclasses import dataclass

from kcl_core.leases.table import LeaseTable
from kcl_dagster.spark.closing import closed_windows
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.ranges import parent_keys
from kcl_dagster.spark.read import reached
from kcl_dagster.spark.table import RecordTable, TransactionNames
from kcl_dagster.spark.windows import Window


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """One closed window that holds something.

    Attributes:
        rows: user records in it, for good.
    """

    window: Window
    rows: int


@dataclass(frozen=True, slots=True)
class ClosedWindowsLook:
    """The outcome of one look.

    Attributes:
        windows: closed since the last look and not empty, oldest first.
        last: the newest window known to be closed, empty or not; where the next look goes on. None if none is.
        version: of the table.
        reason: one sentence for people, of what keeps the next window open.
    """

    windows: tuple[ClosedWindow, ...]
    last: Window | None
    version: int
    reason: str


class ClosedWindows:
    """Compares what every lease has reached with the windows of the table. Writes nothing."""

    def __init__(
        self, leases: LeaseTable, table: RecordTable, names: TransactionNames, config: SparkPathConfig
    ) -> None:
        self._leases = leases
        self._table = table
        self._names = names
        self._config = config

    def look(self, after: Window | None, *, limit: int) -> ClosedWindowsLook:
        """Look from the window behind ``after`` on, or from the first one that holds something.

        Args:
            after: the newest window that was closed before.
            limit: return at most so many windows; the next look goes on behind them.

        Raises:
            TableMissingError: there is no lease table yet.
        """
        # The leases first: whatever is committed in between only moves the table further than what is concluded.
        leases = self._leases.scan().leases
        snapshot = self._table.snapshot()
        rows = snapshot.rows_by_window()
        if after is None and not rows:
            return ClosedWindowsLook((), None, snapshot.version, "the table holds nothing yet")
        keys = {lease.lease_key for lease in leases} | {key for lease in leases for key in parent_keys(lease)}
        closing = closed_windows(
            leases,
            reached(snapshot, self._names, sorted(keys)),
            self._config.grid,
            open_from=min(rows).start if after is None else after.end,
            lateness=self._config.allowed_lateness,
        )
        held = [ClosedWindow(window, rows[window]) for window in closing.windows if window in rows]
        if len(held) > limit:
            held = held[:limit]
            return ClosedWindowsLook(tuple(held), held[-1].window, snapshot.version, closing.reason)
        last = closing.windows[-1] if closing.windows else after
        return ClosedWindowsLook(tuple(held), last, snapshot.version, closing.reason)
