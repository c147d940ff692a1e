"""From settings to definitions, without calling anybody."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcl_core.errors import ConfigurationError
from kcl_dagster.demo.run import process_of, replay_duration
from kcl_dagster.partitions import window_cron, window_partitions
from kcl_dagster.settings import load_settings
from kcl_dagster.spark.windows import WindowGrid

ROOT = Path(__file__).parents[3]
FILE = """
application_name = "orders-lake"
stream_name = "orders"

[initial_position]
position = "TRIM_HORIZON"

[pipeline]
table_location = "/data/lake/orders"
first_window = 2026-01-01T00:00:00Z
window_minutes = 30
"""


def test_the_file_is_read_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kcl.toml"
    file.write_text(FILE)
    monkeypatch.setenv("KCL_PIPELINE__WORKERS", "7")
    monkeypatch.setenv("KCL_STREAM_NAME", "other")
    settings = load_settings(file)
    assert (settings.kcl.application_name, settings.kcl.stream_name) == ("orders-lake", "other")
    assert (settings.pipeline.window_minutes, settings.pipeline.workers) == (30, 7)
    assert settings.pipeline.first_window == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "setting"),
    [("window_minutes = 7", "pipeline.window_minutes"), ("colour = 1", "pipeline.colour"), ("workers = 0", "workers")],
)
def test_a_wrong_setting_is_named_with_where_to_correct_it(tmp_path: Path, line: str, setting: str) -> None:
    file = tmp_path / "kcl.toml"
    kept = [each for each in FILE.splitlines() if not each.startswith(line.split(" ", maxsplit=1)[0])]
    file.write_text("\n".join([*kept, line]))
    with pytest.raises(ConfigurationError, match=setting):
        load_settings(file)


@pytest.mark.parametrize(
    ("minutes", "cron"),
    [(1, "* * * * *"), (15, "*/15 * * * *"), (60, "0 * * * *"), (360, "0 */6 * * *"), (1440, "0 0 * * *")],
)
def test_partitions_are_the_windows(minutes: int, cron: str) -> None:
    assert window_cron(minutes) == cron
    first, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    keys = window_partitions(minutes, first).get_partition_keys(current_time=now)
    windows = WindowGrid(minutes).ended_between(first, now)
    assert keys == [*(window.partition_key for window in windows), WindowGrid(minutes).window_at(now).partition_key]


def test_windows_that_cron_cannot_say_are_refused() -> None:
    with pytest.raises(ValueError, match="window_minutes=90"):
        window_cron(90)


def load_definitions(environment: dict[str, str]) -> dict[str, list[str]]:
    """Load `definitions.py` in a fresh interpreter; return the names of what is in it."""
    script = """
import json, definitions
repository = definitions.defs.get_repository_def()
print(json.dumps({
    "jobs": sorted(job.name for job in repository.get_all_jobs()),
    "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
    "assets": sorted(key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()),
}))
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, list[str]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_definitions_load_in_an_empty_environment() -> None:
    """Neither region nor credentials nor network is needed to load a code location."""
    found = load_definitions({})
    assert found["jobs"] == ["__ASSET_JOB", "closed_window", "lease_cleanup", "rebalance", "shard_sync", "worker"]
    assert found["sensors"] == ["closed_window_sensor", "fleet_sensor", "rebalance_sensor", "shard_sync_sensor"]
    assert found["assets"] == ["flights/carrier_delays", "flights/records", "kinesis/flights"]


def test_definitions_load_for_a_users_own_stream(tmp_path: Path) -> None:
    (tmp_path / "kcl.toml").write_text(FILE)
    found = load_definitions({"KCL_CONFIG_FILE": str(tmp_path / "kcl.toml")})
    assert found["assets"] == ["kinesis/orders", "orders/records"]


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_the_replay_ends_just_before_a_window_does(second: int) -> None:
    now = datetime(2026, 1, 1, 23, 59, second, tzinfo=UTC)
    duration = replay_duration(now, WindowGrid(1).length)
    assert 50 <= duration.total_seconds() <= 120
    assert (now + duration).second == 50


def test_a_worker_id_tells_its_process() -> None:
    assert process_of("my-host-name-4711-0a1b2c3d") == 4711
