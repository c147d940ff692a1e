"""What the demo shows while it runs: bars and the step under way on a terminal, plain lines elsewhere."""

from datetime import timedelta
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column
from rich.text import Text

from kcl_core.clock import Clock

PLAIN_INTERVAL = timedelta(seconds=5)
"""Without a terminal, counts are told this often at most."""

_LABELS = {"sent": "sent", "landed": "in the table"}


class Progress:
    """Shows steps, events and two counts; also a context manager, which restores the terminal at its end.

    On a terminal, the counts are bars below the events, with the step under way; elsewhere every step and event is
    one line, and counts are lines of their own every few seconds. It is drawn when it is told something and has no
    thread, so it should be told the counts a few times a second.
    """

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._began = clock.monotonic()
        self._step = ""
        self._counts = dict.fromkeys(_LABELS, 0)
        self._told = dict(self._counts)
        self._told_at = self._began
        self._total: int | None = None
        self._bars = _bars(console, clock)
        self._tasks = {name: self._bars.add_task(label, total=None) for name, label in _LABELS.items()}
        # Redrawn by whoever tells us something; by itself, rich would start a thread.
        self._live = Live(self._picture(), console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._step = ""
            self._draw()
            self._live.stop()
        elif self._counts != self._told:
            self._tell_counts()

    def step(self, text: str) -> None:
        """Say what is done from now on; the same step again says nothing."""
        if text == self._step:
            return
        self._step = text
        if self._live is None:
            self._line(f"{text} ...")
        else:
            self._draw()

    def event(self, text: str | Text) -> None:
        """Say what happened, with the time since the start."""
        self._line(text)

    def counts(self, *, sent: int | None = None, landed: int | None = None, total: int | None = None) -> None:
        """Show how many rows were sent, are in the table, and are expected in all; None keeps what was said last."""
        self._counts |= {name: count for name, count in (("sent", sent), ("landed", landed)) if count is not None}
        self._total = self._total if total is None else total
        if self._live is not None:
            self._draw()
        elif self._counts != self._told:
            self._tell_counts(at_most_every=PLAIN_INTERVAL)

    def _draw(self) -> None:
        if self._live is None:
            return
        for name, count in self._counts.items():
            self._bars.update(self._tasks[name], total=self._total, completed=count)
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        step = [Text(f"{self._step} ...", style="dim", no_wrap=True, overflow="ellipsis")] if self._step else []
        return Group(self._bars, *step)

    def _tell_counts(self, at_most_every: timedelta = timedelta(0)) -> None:
        now = self._clock.monotonic()
        if now - self._told_at < at_most_every.total_seconds():
            return
        self._told, self._told_at = dict(self._counts), now
        of_all = f" of {self._total:,}" if self._total is not None else ""
        self._line(", ".join(f"{count:,}{of_all} {_LABELS[name]}" for name, count in self._counts.items()))

    def _line(self, text: str | Text) -> None:
        elapsed = f"{self._clock.monotonic() - self._began:6.1f} s  "
        self._console.print(Text.assemble((elapsed, "dim"), text), soft_wrap=self._live is None)


def _bars(console: Console, clock: Clock) -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("{task.description}", table_column=Column(justify="right")),
        bars.BarColumn(bar_width=40),
        bars.MofNCompleteColumn(),
        console=console,
        get_time=clock.monotonic,
        auto_refresh=False,
    )
