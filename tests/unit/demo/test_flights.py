import msgspec
import pytest

from kcl_core.errors import ConfigurationError
from kcl_dagster.demo import flights
from kcl_dagster.demo.flights import load_airlines, load_flights, months_wanted, numbered, partition_key


@pytest.fixture(scope="module")
def january() -> list[flights.Flight]:
    return load_flights()


def test_january_has_27004_flights_in_order_of_departure(january: list[flights.Flight]) -> None:
    assert len(january) == 27_004
    times = [(flight["time_hour"], flight["minute"]) for flight in january]
    assert times == sorted(times)
    assert {flight["month"] for flight in january} == {1}


def test_a_year_has_336776_flights() -> None:
    assert len(load_flights(flights.ALL_MONTHS)) == 336_776


def test_each_payload_is_the_flight_with_its_row_number(january: list[flights.Flight]) -> None:
    rows = list(numbered(iter(january)))
    assert [row.number for row in rows] == list(range(len(january)))
    for row, flight in zip(rows[::1000], january[::1000], strict=True):
        assert msgspec.json.decode(row.data) == {"row": row.number, **flight}


def test_about_a_third_goes_through_kpl(january: list[flights.Flight]) -> None:
    share = sum(row.through_kpl for row in numbered(iter(january))) / len(january)
    assert 0.3 < share < 0.37


def test_missing_values_are_null_and_never_text(january: list[flights.Flight]) -> None:
    cancelled = [flight for flight in january if flight["dep_time"] is None]
    assert len(cancelled) == 521
    assert all(flight["dep_delay"] is None for flight in cancelled)
    assert not any("NA" in flight.values() for flight in january)


def test_the_key_is_the_tail_number_or_else_the_flight(january: list[flights.Flight]) -> None:
    without = [flight for flight in january if flight["tailnum"] is None]
    assert len(without) == 155
    assert partition_key({"tailnum": "N14228", "carrier": "UA", "flight": 1545}) == "N14228"
    assert partition_key({"tailnum": None, "carrier": "UA", "flight": 1545}) == "UA1545"
    assert all(partition_key(flight) for flight in january)


def test_every_carrier_has_a_name(january: list[flights.Flight]) -> None:
    assert {flight["carrier"] for flight in january} <= load_airlines().keys()


@pytest.mark.parametrize(
    ("text", "months"), [(None, {1}), ("all", set(range(1, 13))), ("2", {2}), ("1, 12", {1, 12})], ids=str
)
def test_months_come_from_the_environment(text: str | None, months: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flights.MONTHS_VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(flights.MONTHS_VARIABLE, text)
    assert months_wanted() == months


@pytest.mark.parametrize("text", ["", "0", "13", "January", "1,", "-1"])
def test_a_month_that_does_not_exist_is_refused_by_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flights.MONTHS_VARIABLE, text)
    with pytest.raises(ConfigurationError, match=flights.MONTHS_VARIABLE):
        months_wanted()
