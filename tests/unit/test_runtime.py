"""The only threads: what they do with errors, and that they end."""

from datetime import timedelta

import pytest

from kcl_core.clock import SystemClock
from kcl_core.errors import EndpointUnavailableError, InvariantViolatedError, KclError
from kcl_core.runtime import Runtime, StopSignal

CLOCK = SystemClock()
SOON = timedelta(milliseconds=5)


class Component:
    """Counts its runs; raises ``error`` at the first; says when it has run ``enough`` times."""

    def __init__(self, enough: int, error: BaseException | None = None) -> None:
        self.runs = 0
        self.done = StopSignal()
        self._enough = enough
        self._error = error

    def run_once(self) -> None:
        self.runs += 1
        if self.runs >= self._enough:
            self.done.set()
        if self._error is not None and self.runs == 1:
            raise self._error


def test_a_component_runs_at_its_rate_until_it_is_stopped() -> None:
    runtime, component = Runtime(CLOCK), Component(3)
    runtime.start("component", component.run_once, SOON)
    assert component.done.wait(timedelta(seconds=10))
    runtime.stop()
    runs = component.runs
    StopSignal().wait(10 * SOON)
    assert component.runs == runs
    runtime.raise_failure()


def test_an_error_that_may_pass_is_survived() -> None:
    runtime = Runtime(CLOCK)
    component = Component(2, EndpointUnavailableError(service="DynamoDB", operation="Scan", cause="refused"))
    runtime.start("component", component.run_once, SOON)
    assert component.done.wait(timedelta(seconds=10))
    runtime.stop()
    runtime.raise_failure()


@pytest.mark.parametrize("error", [InvariantViolatedError("one owner"), ValueError("bug")])
def test_any_other_error_ends_the_component_and_reaches_its_owner(error: BaseException) -> None:
    runtime, component = Runtime(CLOCK), Component(1, error)
    runtime.start("component", component.run_once, SOON)
    assert component.done.wait(timedelta(seconds=10))
    runtime.stop()
    with pytest.raises((KclError, ValueError), match=r"one owner|bug"):
        runtime.raise_failure()
    assert component.runs == 1


def test_stopping_does_not_wait_for_the_next_turn() -> None:
    runtime = Runtime(CLOCK)
    first, second = Component(1), Component(1)
    runtime.start("first", first.run_once, timedelta(seconds=60))
    runtime.start("second", second.run_once, timedelta(seconds=60))
    assert first.done.wait(timedelta(seconds=10))
    assert second.done.wait(timedelta(seconds=10))
    began = CLOCK.monotonic()
    runtime.stop()
    assert CLOCK.monotonic() - began < 5
