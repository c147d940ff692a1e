"""The only threads of this library: each component's `run_once()` at its interval, and their end."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from kcl_core.clock import Clock
from kcl_core.errors import KclError

_log = logging.getLogger(__name__)


def new_mutex() -> "threading.RLock":
    """Return a re-entrant lock, for state that two components of one worker share."""
    return threading.RLock()


class StopSignal:
    """Set once, by whoever wants the process to end; everything that waits, waits on it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask for the end; safe in a signal handler."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()

    def wait(self, pause: timedelta) -> bool:
        """Wait for ``pause`` or for the end, whichever is first; return whether it is the end."""
        return self._event.wait(max(0.0, pause.total_seconds()))


class Runtime:
    """Runs components in threads at a fixed rate, and stops them in the reverse order of their start.

    A retryable `KclError` is logged, and the component runs again at its next turn. Any other
    exception ends this component and is raised by `raise_failure`, which the owner calls in its loop.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads: list[tuple[threading.Thread, StopSignal]] = []
        self._failure: BaseException | None = None

    def start(self, name: str, run_once: Callable[[], object], every: timedelta) -> None:
        """Call ``run_once`` now and then at the rate ``every``, in a thread called ``name``."""
        stop = StopSignal()
        thread = threading.Thread(target=self._loop, args=(name, run_once, every, stop), name=name, daemon=True)
        self._threads.append((thread, stop))
        thread.start()

    def raise_failure(self) -> None:
        """Raise what ended a component, if anything did."""
        if self._failure is not None:
            raise self._failure

    def stop(self, timeout: timedelta = timedelta(seconds=10)) -> None:
        """Stop all components, the last one started first; return when they have ended or ``timeout`` has passed."""
        deadline = self._clock.monotonic() + timeout.total_seconds()
        while self._threads:
            thread, stop = self._threads.pop()
            stop.set()
            thread.join(max(0.0, deadline - self._clock.monotonic()))
            if thread.is_alive():
                _log.warning("component %s did not stop within %s", thread.name, timeout)

    def _loop(self, name: str, run_once: Callable[[], object], every: timedelta, stop: StopSignal) -> None:
        due = self._clock.monotonic()
        while not stop.is_set():
            try:
                run_once()
            except KclError as error:
                if not error.retryable:
                    self._fail(name, error)
                    return
                _log.warning("%s: %s", name, error)
            except BaseException as error:  # noqa: BLE001 - handed to the owner by raise_failure
                self._fail(name, error)
                return
            due = max(due + every.total_seconds(), self._clock.monotonic())
            stop.wait(timedelta(seconds=due - self._clock.monotonic()))

    def _fail(self, name: str, error: BaseException) -> None:
        _log.error("component %s ended: %s", name, error, exc_info=error)
        self._failure = self._failure or error
