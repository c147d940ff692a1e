from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from kcl_dagster.demo.delays import UNREADABLE, carrier_delays
from kcl_dagster.demo.flights import load_airlines, load_flights, numbered
from kcl_dagster.spark.rows import FILE_SCHEMA, spark_ddl

pytestmark = pytest.mark.spark


def raw_table(spark: SparkSession, payloads: Iterable[bytes]) -> DataFrame:
    arrival = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        ("flights", "shardId-000000000000", "N1", None, str(number), 0, arrival, bytearray(payload))
        for number, payload in enumerate(payloads)
    ]
    return spark.createDataFrame(rows, spark_ddl(FILE_SCHEMA))


def by_carrier(frame: DataFrame) -> dict[str, dict[str, Any]]:
    return {row["carrier"]: row.asDict() for row in frame.collect()}


def flight(carrier: str, departure: float | None, arrival: float | None) -> bytes:
    return msgspec.json.encode({"carrier": carrier, "dep_delay": departure, "arr_delay": arrival})


def test_late_means_more_than_fifteen_minutes_on_arrival_of_the_flights_that_arrived(spark: SparkSession) -> None:
    flights = [flight("AA", 0, 15), flight("AA", 4, 16), flight("AA", 5, None), flight("AA", None, None)]
    row = by_carrier(carrier_delays(raw_table(spark, flights), {"AA": "American"}))["AA"]
    assert row == {
        "carrier": "AA",
        "name": "American",
        "flights": 4,
        "mean_departure_delay": 3.0,
        "mean_arrival_delay": 15.5,
        "share_late": 0.5,
        "cancelled": 1,
        "malformed": 0,
    }


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"no json",
        b"[1, 2]",
        b"null",
        b'{"dep_delay": 1}',
        b'{"carrier": "AA", "dep_delay": "late"}',
        b"\xff\xfe\x00",
        b'{"carrier": "AA"',
    ],
)
def test_a_payload_that_is_no_flight_is_counted_and_falsifies_nothing(spark: SparkSession, payload: bytes) -> None:
    rows = by_carrier(carrier_delays(raw_table(spark, [flight("AA", 1, 2), payload]), {}))
    assert rows["AA"]["flights"] == 1
    assert rows["AA"]["cancelled"] == 0
    assert (rows[UNREADABLE]["flights"], rows[UNREADABLE]["cancelled"], rows[UNREADABLE]["malformed"]) == (0, 0, 1)


def test_an_empty_window_gives_an_empty_result(spark: SparkSession) -> None:
    assert carrier_delays(raw_table(spark, []), load_airlines()).collect() == []


def test_the_real_flights_agree_with_a_count_without_spark(spark: SparkSession) -> None:
    flights = load_flights()[:3000]
    payloads = [row.data for row in islice(numbered(iter(flights)), len(flights))]
    rows = by_carrier(carrier_delays(raw_table(spark, payloads), load_airlines()))
    assert set(rows) == {each["carrier"] for each in flights}
    for carrier, row in rows.items():
        own = [each for each in flights if each["carrier"] == carrier]
        departures = [each["dep_delay"] for each in own if each["dep_delay"] is not None]
        arrivals = [each["arr_delay"] for each in own if each["arr_delay"] is not None]
        assert row["name"] == load_airlines()[carrier]
        assert (row["flights"], row["malformed"]) == (len(own), 0)
        assert row["cancelled"] == sum(each["dep_time"] is None for each in own)
        assert row["mean_departure_delay"] == pytest.approx(sum(departures) / len(departures))
        assert row["mean_arrival_delay"] == pytest.approx(sum(arrivals) / len(arrivals))
        assert row["share_late"] == pytest.approx(sum(delay > 15 for delay in arrivals) / len(arrivals))
