"""The `kcl` command."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from kcl_core.cli.local_aws import local_aws
from kcl_core.errors import KclError

app = typer.Typer(name="kcl", help="Kinesis Client Library in Python.", no_args_is_help=True, add_completion=False)
app.command("local-aws")(local_aws)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("kcl-dagster"))
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del show_version


def main() -> None:
    """Run the command; an error of this library is one line on standard error and exit status 1."""
    try:
        app()
    except KclError as error:
        typer.echo(f"kcl: {error}", err=True)
        sys.exit(1)
