"""What Dagster is given for one application, and under which names."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from kcl_dagster.application import build_kinesis_definitions
from kcl_dagster.names import raw_table_key, stream_key
from kcl_dagster.settings import load_settings

pytestmark = [
    pytest.mark.dagster,
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]


def definitions(**overrides: Any) -> dg.RepositoryDefinition:
    settings = load_settings(None, **{"application_name": "app", "stream_name": "orders", **overrides})
    return build_kinesis_definitions(settings).get_repository_def()


def test_the_table_stands_below_its_stream_and_two_streams_never_share_a_name() -> None:
    graph = definitions().asset_graph
    assert graph.get(raw_table_key("orders")).parent_keys == {stream_key("orders")}
    keys = [make(name) for make in (stream_key, raw_table_key) for name in ("orders", "returns", "orders.v2")]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("application", "stream"), [("a" * 240, "s" * 128), ("a.b-c_d", "1.2-3_4"), ("-..", "-"), ("__x", "_")]
)
def test_every_name_that_aws_allows_is_one_that_dagster_takes(application: str, stream: str) -> None:
    found = definitions(application_name=application, stream_name=stream)
    assert set(found.asset_graph.get_all_asset_keys()) == {stream_key(stream), raw_table_key(stream)}
    for spec in (found.asset_graph.get(key) for key in found.asset_graph.get_all_asset_keys()):
        assert spec.metadata["kcl/application"] == application


@pytest.mark.parametrize("written", [datetime(2026, 3, 1, 12), "2026-03-01T12:00:00", "2026-03-01T13:00:00+01:00"])  # noqa: DTZ001
def test_first_window_is_utc_unless_it_says_otherwise(written: object) -> None:
    """TOML's dates need no offset."""
    settings = load_settings(None, application_name="app", stream_name="orders", pipeline={"first_window": written})
    assert settings.pipeline.first_window == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert settings.pipeline.first_window.tzinfo is UTC


def test_without_downstream_assets_nothing_looks_for_closed_windows() -> None:
    assert {sensor.name for sensor in definitions().sensor_defs} == {
        "shard_sync_sensor",
        "rebalance_sensor",
        "fleet_sensor",
    }
