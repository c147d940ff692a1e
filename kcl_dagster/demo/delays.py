"""Delays per carrier, from the raw table's payloads."""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATE_MINUTES = 15
"""A flight is late when it arrives later than that (US DOT's on-time definition)."""

UNREADABLE = "?"
"""Stands for the carrier of payloads that are not a flight."""

_PROBLEM = "_problem"
_PAYLOAD = f"carrier string, dep_delay double, arr_delay double, {_PROBLEM} string"

_DEPARTURE_COLOUR = "#4c78a8"
_ARRIVAL_COLOUR = "#f58518"
_BAR_HEIGHT = 0.38


def carrier_delays(records: DataFrame, airlines: Mapping[str, str]) -> DataFrame:
    """Return one row per carrier, by carrier code.

    Columns: ``carrier``, ``name``, ``flights``, ``mean_departure_delay`` and ``mean_arrival_delay`` (minutes, of the
    flights that departed or arrived; null without any), ``share_late`` (of the flights that arrived, 0 to 1; null
    without any), ``cancelled`` (flights that never departed), ``malformed``. Payloads that are not a flight make a row
    of their own, with carrier ``?``: ``malformed`` counts them, ``flights`` does not.

    Args:
        records: rows of the raw table; ``data`` is JSON in UTF-8.
        airlines: names by carrier code; a carrier that is not there is called by its code.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _PROBLEM}
    payload = F.from_json(F.col("data").cast("string"), _PAYLOAD, options)
    flights = records.select(payload.alias("flight")).select("flight.*")
    readable = F.col(_PROBLEM).isNull() & F.col("carrier").isNotNull()
    flights = flights.select(
        F.when(readable, F.col("carrier")).otherwise(UNREADABLE).alias("carrier"),
        F.when(readable, F.col("dep_delay")).alias("dep_delay"),
        F.when(readable, F.col("arr_delay")).alias("arr_delay"),
        readable.alias("readable"),
    )
    late = F.when(F.col("arr_delay").isNotNull(), (F.col("arr_delay") > LATE_MINUTES).cast("double"))
    statistics = flights.groupBy("carrier").agg(
        F.count_if("readable").alias("flights"),
        F.avg("dep_delay").alias("mean_departure_delay"),
        F.avg("arr_delay").alias("mean_arrival_delay"),
        F.avg(late).alias("share_late"),
        F.count_if(F.col("readable") & F.col("dep_delay").isNull()).alias("cancelled"),
        F.count_if(~F.col("readable")).alias("malformed"),
    )
    name = F.col("carrier")
    for code, full in {**airlines, UNREADABLE: "payload not readable"}.items():
        name = F.when(F.col("carrier") == code, full).otherwise(name)
    first = statistics.select("carrier", name.alias("name"), *statistics.columns[1:])
    return first.orderBy("carrier")


def plot_delays(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a PNG with two bars per carrier, the carrier with the longest departure delay on top.

    Args:
        rows: of `carrier_delays`. Carriers none of whose flights departed are left out.
    """
    # Here and not above: Dagster's code server imports this module, and draws nothing.
    from matplotlib.figure import Figure  # noqa: PLC0415

    shown = sorted(
        (row for row in rows if row["mean_departure_delay"] is not None), key=lambda row: row["mean_departure_delay"]
    )
    figure = Figure(figsize=(9, 1.7 + 0.42 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    _draw_bars(axes, shown)
    flights = sum(row["flights"] for row in rows)
    cancelled = sum(row["cancelled"] for row in rows)
    axes.set_title(f"Mean delay per carrier: {flights:,} flights, {cancelled:,} cancelled", loc="left", fontsize=12)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    return png.getvalue()


def delays_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of `carrier_delays` as a table in Markdown, longest departure delay first."""
    order = sorted(rows, key=lambda row: (-(row["mean_departure_delay"] or 0.0), row["carrier"]))
    lines = [
        "| carrier | | flights | departure delay (min) | arrival delay (min) | late | cancelled | malformed |",
        "|:--|:--|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['carrier']} | {row['name']} | {row['flights']:,} | {_minutes(row['mean_departure_delay'])} "
        f"| {_minutes(row['mean_arrival_delay'])} | {_percent(row['share_late'])} | {row['cancelled']:,} "
        f"| {row['malformed']:,} |"
        for row in order
    ]
    return "\n".join(lines)


def _draw_bars(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        axes.text(0.5, 0.5, "no flight departed in this window", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    places = range(len(rows))
    for column, label, colour, shift in (
        ("mean_departure_delay", "departure", _DEPARTURE_COLOUR, _BAR_HEIGHT / 2),
        ("mean_arrival_delay", "arrival", _ARRIVAL_COLOUR, -_BAR_HEIGHT / 2),
    ):
        values = [row[column] or 0.0 for row in rows]
        labels = ["" if row[column] is None else f"{row[column]:.1f}" for row in rows]
        bars = axes.barh([place + shift for place in places], values, height=_BAR_HEIGHT, label=label, color=colour)
        axes.bar_label(bars, labels=labels, padding=3, fontsize=8, color="#444444")
    axes.set_yticks(places, [f"{row['name']} ({row['carrier']}, {row['flights']:,})" for row in rows], fontsize=9)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.margins(x=0.08, y=0.02)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("minutes; below zero is ahead of schedule")
    axes.legend(loc="lower right", frameon=False, fontsize=9)


def _minutes(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
