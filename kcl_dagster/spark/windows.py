"""Windows of arrival time: the partitions of the table. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

PARTITION_KEY_FORMAT = "%Y-%m-%d-%H:%M"
"""How a window is called outside of the table (Dagster's partition key): its start, UTC."""

DATE_COLUMN = "arrival_date"
TIME_COLUMN = "arrival_time"
PARTITION_COLUMNS = (DATE_COLUMN, TIME_COLUMN)

MINUTES_PER_DAY = 24 * 60
_DATE_FORMAT = "%Y-%m-%d"
_TIME_FORMAT = "%H-%M"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A span of arrival time.

    Attributes:
        start: aware UTC, included.
        end: aware UTC, excluded.
    """

    start: datetime
    end: datetime

    @property
    def arrival_date(self) -> str:
        """Partition value: day of the start, ``YYYY-MM-DD``."""
        return self.start.strftime(_DATE_FORMAT)

    @property
    def arrival_time(self) -> str:
        """Partition value: time of the start, ``HH-MM`` (a colon would be escaped in folder names)."""
        return self.start.strftime(_TIME_FORMAT)

    @property
    def partition_values(self) -> dict[str, str]:
        """Partition values by column, in the table's order."""
        return {DATE_COLUMN: self.arrival_date, TIME_COLUMN: self.arrival_time}

    @property
    def folder(self) -> str:
        """Hive path below the table's root."""
        return "/".join(f"{column}={value}" for column, value in self.partition_values.items())

    @property
    def partition_key(self) -> str:
        """The window's name outside of the table, ``YYYY-MM-DD-HH:MM``."""
        return self.start.strftime(PARTITION_KEY_FORMAT)


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """Windows of equal length, counted from midnight UTC.

    Attributes:
        minutes: length of a window; divides a day.
    """

    minutes: int = 60

    def __post_init__(self) -> None:
        if not 1 <= self.minutes <= MINUTES_PER_DAY or MINUTES_PER_DAY % self.minutes:
            message = f"a window of {self.minutes} minutes does not divide a day"
            raise ValueError(message)

    @property
    def length(self) -> timedelta:
        """Length of a window."""
        return timedelta(minutes=self.minutes)

    def window_at(self, moment: datetime) -> Window:
        """Return the window that holds ``moment`` (aware)."""
        return self._window(self.index_at(moment))

    def index_at(self, moment: datetime) -> int:
        """Return the number of whole windows between the epoch and ``moment`` (aware)."""
        return (moment - _EPOCH) // self.length

    def window_of_partition(self, arrival_date: str, arrival_time: str) -> Window:
        """Return the window of a pair of partition values.

        Raises:
            ValueError: the values are malformed or do not start a window of this grid.
        """
        return self._starting_at(f"{arrival_date} {arrival_time}", f"{_DATE_FORMAT} {_TIME_FORMAT}")

    def window_of_key(self, partition_key: str) -> Window:
        """Return the window called ``partition_key``.

        Raises:
            ValueError: the name is malformed or does not start a window of this grid.
        """
        return self._starting_at(partition_key, PARTITION_KEY_FORMAT)

    def ended_between(self, first_start: datetime, reached: datetime) -> tuple[Window, ...]:
        """Return the windows that start at ``first_start``'s window or later and end at ``reached`` or before."""
        return tuple(self._window(index) for index in range(self.index_at(first_start), self.index_at(reached)))

    def _starting_at(self, text: str, form: str) -> Window:
        start = datetime.strptime(text, form).replace(tzinfo=UTC)
        window = self.window_at(start)
        if window.start != start:
            message = f"{text!r} does not start a window of {self.minutes} minutes"
            raise ValueError(message)
        return window

    def _window(self, index: int) -> Window:
        start = _EPOCH + index * self.length
        return Window(start, start + self.length)
