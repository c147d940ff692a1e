"""Settings of the data path: what is wrong is refused before anything runs."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.windows import WindowGrid


def test_what_is_not_set_works() -> None:
    config = SparkPathConfig()
    assert config.grid == WindowGrid(60)
    assert config.allowed_lateness == timedelta(minutes=1)


@pytest.mark.parametrize("minutes", [1, 15, 60, 1440])
def test_the_grid_has_the_length_that_was_set(minutes: int) -> None:
    assert SparkPathConfig(window_minutes=minutes).grid.length == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("window_minutes", 7),
        ("window_minutes", 0),
        ("window_minutes", 2880),
        ("max_records_per_shard", 0),
        ("max_bytes_per_shard", -1),
        ("max_batch_seconds", 0.0),
        ("allowed_lateness_seconds", -1),
        ("driver_memory", "1 GB"),
        ("driver_memory", "1"),
        ("table_locatoin", "x"),
    ],
)
def test_a_wrong_value_or_name_is_refused_and_named(setting: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        SparkPathConfig.model_validate({setting: value})
    assert [error["loc"] for error in caught.value.errors()] == [(setting,)]


def test_settings_travel_to_the_executors_and_back() -> None:
    config = SparkPathConfig(window_minutes=15, storage_options={"AWS_REGION": "eu-west-1"}, max_batch_seconds=0.5)
    assert SparkPathConfig.model_validate_json(config.model_dump_json()) == config
