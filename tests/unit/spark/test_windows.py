"""Windows of arrival time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_dagster.spark.windows import MINUTES_PER_DAY, WindowGrid

LENGTHS = st.sampled_from([minutes for minutes in range(1, MINUTES_PER_DAY + 1) if MINUTES_PER_DAY % minutes == 0])
TIMES = st.datetimes(datetime(2013, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(LENGTHS, TIMES)
def test_every_moment_is_in_exactly_one_window_that_is_found_by_all_its_names(minutes: int, moment: datetime) -> None:
    grid = WindowGrid(minutes)
    window = grid.window_at(moment)
    assert window.start <= moment < window.end
    assert window.end - window.start == timedelta(minutes=minutes)
    assert grid.window_at(window.start) == window
    assert grid.window_at(window.end) != window
    assert grid.window_of_partition(window.arrival_date, window.arrival_time) == window
    assert grid.window_of_key(window.partition_key) == window
    assert window.folder == f"arrival_date={window.arrival_date}/arrival_time={window.arrival_time}"


@given(LENGTHS, TIMES, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_the_windows_that_ended_between_two_times_follow_each_other(
    minutes: int, start: datetime, span: timedelta
) -> None:
    grid = WindowGrid(minutes)
    ended = grid.ended_between(start, start + span)
    assert all(window.end <= start + span for window in ended)
    assert [window.start for window in ended] == [
        grid.window_at(start).start + n * grid.length for n in range(len(ended))
    ]
    following = ended[-1].end if ended else grid.window_at(start).start
    assert following + grid.length > start + span


@pytest.mark.parametrize("minutes", [0, -60, 7, 1441, 2880])
def test_windows_that_do_not_divide_a_day_are_refused(minutes: int) -> None:
    with pytest.raises(ValueError, match="does not divide a day"):
        WindowGrid(minutes)


@pytest.mark.parametrize("name", ["2026-01-01", "2026-01-01-10:30", "yesterday"])
def test_names_of_no_window_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"window|match"):
        WindowGrid(60).window_of_key(name)
