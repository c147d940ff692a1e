"""Windows of arrival time as Dagster partitions."""

from datetime import datetime

import dagster as dg

from kcl_dagster.spark.windows import PARTITION_KEY_FORMAT, WindowGrid

MINUTES_PER_HOUR = 60
MINUTES_PER_DAY = 24 * MINUTES_PER_HOUR


def window_partitions(window_minutes: int, first_window: datetime) -> dg.TimeWindowPartitionsDefinition:
    """Return one partition per window, the one under way included.

    Args:
        window_minutes: length of a window; divides a day, as `WindowGrid` demands.
        first_window: aware moment in the earliest window.
    """
    return dg.TimeWindowPartitionsDefinition(
        # Dagster drops the offset of a time that is not UTC, and begins with the first whole window behind it.
        start=WindowGrid(window_minutes).window_at(first_window).start,
        cron_schedule=window_cron(window_minutes),
        timezone="UTC",
        fmt=PARTITION_KEY_FORMAT,
        end_offset=1,
    )


def window_cron(window_minutes: int) -> str:
    """Return the cron line whose ticks are the windows' starts.

    Raises:
        ValueError: cron cannot say it, because a window of more than an hour is no whole number of hours
            or one of less than an hour does not divide an hour.
    """
    if window_minutes == MINUTES_PER_DAY:
        return "0 0 * * *"
    hours, minutes = divmod(window_minutes, MINUTES_PER_HOUR)
    if minutes == 0:
        return f"0 */{hours} * * *" if hours > 1 else "0 * * * *"
    if hours or MINUTES_PER_HOUR % minutes:
        message = f"window_minutes={window_minutes} neither divides an hour nor is a whole number of hours"
        raise ValueError(message)
    return f"*/{minutes} * * * *" if minutes > 1 else "* * * * *"
