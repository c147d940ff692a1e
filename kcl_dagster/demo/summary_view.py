"""The summary for people (rich) and for machines (JSON)."""

from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kcl_dagster.demo.aws_steps import family_tree
from kcl_dagster.demo.summary import LeaseMove, Summary


def summary_json(summary: Summary) -> bytes:
    """Return the summary as one JSON object, with the verdict in ``exactly_once``."""
    facts: dict[str, Any] = msgspec.to_builtins(summary)
    facts |= {
        "exactly_once": summary.exactly_once,
        "misplaced": summary.misplaced,
        "recovery_seconds": summary.recovery_seconds,
    }
    # Hash keys are 128 bits wide, which JSON's readers lose: as text, like Kinesis.
    for shard in facts["stream_shards"]:
        shard["starting_hash_key"] = str(shard["starting_hash_key"])
        shard["ending_hash_key"] = str(shard["ending_hash_key"])
    return msgspec.json.encode(facts)


def summary_picture(summary: Summary) -> RenderableType:
    """Return the summary for a terminal, the verdict last."""
    notes = {shard.shard_id: f"{shard.landed:,} rows" for shard in summary.shards}
    parts: list[RenderableType] = [
        _heading("Rows"),
        _rows(summary),
        _heading("Shards"),
        Padding(family_tree(summary.stream_shards, stream=summary.stream, notes=notes), (0, 2)),
    ]
    if summary.moves or summary.kill:
        parts += [_heading("Leases that moved"), _moves(summary)]
    if summary.windows:
        parts += [_heading("Windows"), _windows(summary)]
    if summary.places:
        parts += [_heading("Where to look next"), _places(summary)]
    return Group(*parts, "", _verdict(summary))


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _rows(summary: Summary) -> RenderableType:
    table = _grid(2)
    aggregated = "" if summary.aggregated is None else f", {summary.aggregated:,} of them in KPL aggregates"
    unsent = ""
    if not summary.ledger_complete:
        unsent = ", and the producer's ledger has no sound end"
    elif summary.planned is not None and summary.planned != summary.sent:
        unsent = f" of {summary.planned:,}"
    table.add_row("sent", f"{summary.sent:,}{unsent}{aggregated}")
    table.add_row("in the table", f"{summary.landed:,}")
    examples = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in summary.missing_ranges)
    table.add_row("missing", _count(summary.missing, f"rows {examples} first" if examples else ""))
    table.add_row("twice or more", _count(summary.duplicates))
    table.add_row("never sent", _count(summary.unexpected))
    table.add_row("not readable", _count(summary.unreadable))
    table.add_row("from a wrong shard", _count(summary.misplaced))
    for shard in summary.shards:
        same = shard.acknowledged == shard.landed
        text = f"{shard.acknowledged:,} sent, {shard.landed:,} in the table"
        table.add_row(shard.shard_id, Text(text, style="" if same else "red"))
    table.add_row("table", f"version {summary.table_version:,}, {summary.commits:,} commits with records")
    return table


def _moves(summary: Summary) -> RenderableType:
    table = _grid(4)
    for move in summary.moves:
        table.add_row(move.lease_key, f"{move.source} -> {move.target}", f"{move.at:%H:%M:%S}", _since_kill(move))
    if summary.kill is None:
        return table
    seconds = summary.recovery_seconds
    outcome = (
        "no other worker has committed a record of its leases since"
        if seconds is None
        else f"first record committed by a new owner {seconds:.1f} s later"
    )
    killed = Text(f"{summary.kill.worker_id} was killed at {summary.kill.at:%H:%M:%S}; {outcome}")
    return Group(table, Padding(killed, (0, 2)))


def _since_kill(move: LeaseMove) -> str:
    return "" if move.seconds_after_kill is None else f"{move.seconds_after_kill:.1f} s after the kill"


def _windows(summary: Summary) -> RenderableType:
    table = _grid(3)
    for window in summary.windows:
        table.add_row(
            window.partition_key,
            f"{window.rows:,} rows",
            "computed downstream" if window.computed else "not computed yet",
        )
    return table


def _places(summary: Summary) -> RenderableType:
    table = _grid(2)
    for what, where in summary.places.items():
        # Not wrapped, so that a terminal can open it.
        table.add_row(what, Text(where, no_wrap=True, overflow="ignore"))
    return table


def _verdict(summary: Summary) -> Text:
    if summary.exactly_once:
        return Text(f"All {summary.sent:,} rows are in the table exactly once.", style="bold green")
    return Text("The table does not hold each row exactly once: see the counts above.", style="bold red")


def _count(number: int, detail: str = "") -> Text:
    return Text(f"{number:,}{f'  ({detail})' if detail else ''}", style="red" if number else "")


def _grid(columns: int) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(columns):
        table.add_column()
    table.pad_edge = True
    return table
