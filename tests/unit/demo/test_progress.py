import contextlib
import io

from rich.console import Console

from kcl_core.simulation.clock import VirtualClock
from kcl_dagster.demo.progress import Progress


def plain() -> tuple[Progress, VirtualClock, io.StringIO]:
    clock, out = VirtualClock(), io.StringIO()
    return Progress(Console(file=out, width=40), clock), clock, out


def test_without_a_terminal_each_event_is_one_line_however_long() -> None:
    progress, clock, out = plain()
    clock.advance(12.3)
    with progress:
        progress.event("Dagster is up at http://127.0.0.1:3000/and/a/rather/long/address [not markup]")
    assert out.getvalue() == (
        "  12.3 s  Dagster is up at http://127.0.0.1:3000/and/a/rather/long/address [not markup]\n"
    )


def test_without_a_terminal_counts_come_every_five_seconds_and_at_the_end() -> None:
    progress, clock, out = plain()
    with progress:
        for second in range(12):
            progress.counts(sent=second * 10, landed=second, total=1000)
            clock.advance(1)
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        "50 of 1,000 sent, 5 of 1,000 in the table",
        "100 of 1,000 sent, 10 of 1,000 in the table",
        "110 of 1,000 sent, 11 of 1,000 in the table",
    ]


def test_a_step_is_told_once() -> None:
    progress, _, out = plain()
    with progress:
        for step in ("one", "one", "two", "two"):
            progress.step(step)
    assert [line.split("  ")[-1] for line in out.getvalue().splitlines()] == ["one ...", "two ..."]


def test_a_terminal_shows_bars_and_gets_its_cursor_back_after_an_error() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with contextlib.suppress(ZeroDivisionError), Progress(console, VirtualClock()) as progress:
        progress.counts(sent=500, landed=250, total=1000)
        progress.step("replaying")
        progress.event("worker killed")
        progress.counts(sent=1 // 0)
    text = out.getvalue()
    for expected in ("500/1000", "250/1000", "replaying ...", "worker killed"):
        assert expected in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
