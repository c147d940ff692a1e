"""`python -m kcl_dagster.demo`: the main job on real data; `python -m kcl_dagster.demo dev`: left running."""

import signal
import sys
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from kcl_core.errors import KclError
from kcl_core.runtime import StopSignal
from kcl_dagster.demo.run import run_demo, run_dev
from kcl_dagster.demo.summary_view import summary_json, summary_picture

INTERRUPTED = 130
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON; progress goes to stderr.")
    ] = False,
) -> None:
    """Run the main job on the New York flights of 2013, with everything embedded, to its end.

    Exit status 0 only if every row landed exactly once. DEMO_MONTHS=all replays the whole year.
    """
    if context.invoked_subcommand is not None:
        return
    console = Console(stderr=as_json)
    stop = _stop_on_signals()
    try:
        summary = run_demo(console, stop)
    except KclError as error:
        console.print(f"[bold red]failed:[/] {error}", soft_wrap=True)
        raise typer.Exit(1) from error
    if summary is None:
        console.print("stopped before the end")
        raise typer.Exit(INTERRUPTED)
    if as_json:
        sys.stdout.buffer.write(summary_json(summary) + b"\n")
    else:
        console.print(summary_picture(summary))
    if not summary.exactly_once:
        raise typer.Exit(1)


@app.command()
def dev() -> None:
    """Leave the same system running with a trickle of data; Ctrl-C stops all of it."""
    console = Console()
    try:
        run_dev(console, _stop_on_signals())
    except KclError as error:
        console.print(f"[bold red]failed:[/] {error}", soft_wrap=True)
        raise typer.Exit(1) from error
    console.print("everything is stopped")


def _stop_on_signals() -> StopSignal:
    """Let SIGINT and SIGTERM end things in order; a second one ends this process at once."""
    stop = StopSignal()

    def ask_for_end(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_for_end)
    return stop


if __name__ == "__main__":
    app()
