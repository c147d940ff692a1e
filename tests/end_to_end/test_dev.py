"""The system of `make dev`, seen from outside: GraphQL, the UI in a browser, and the end of a worker run."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kcl_core.clock import SystemClock
from kcl_core.runtime import StopSignal
from kcl_dagster.demo.replay_process import ReplayProcess
from kcl_dagster.demo.run import CARRIER_DELAYS, DemoSystem, running_system
from kcl_dagster.demo.system import STREAM
from kcl_dagster.names import SLOT_TAG, WORKER_TAG

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.timeout(400)]

RAW_TABLE = [STREAM, "records"]
LINEAGE = """
query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  dependencyKeys { path } dependedByKeys { path }
  assetMaterializations(limit: 50) { partition runId metadataEntries { label __typename
    ... on TextMetadataEntry { text } ... on IntMetadataEntry { intValue }
    ... on TableMetadataEntry { table { records } } } }
  assetObservations(limit: 50) { partition metadataEntries { label ... on TextMetadataEntry { text } } }
} } }
"""
TERMINATE = "mutation ($runId: String!) { terminateRun(runId: $runId) { __typename } }"
SKIPS = """
query ($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) { ... on Sensor {
  sensorState { ticks(limit: 3) { status skipReason error { message } } } } } }
"""


@pytest.fixture(scope="module")
def system() -> Iterator[DemoSystem]:
    """A running system with a trickle of flights."""
    stop = StopSignal()
    with running_system(Console(), stop) as running:
        assert running is not None
        wait_for(lambda: len(running.look()) >= 2, "the first leases")
        ledger, log = running.state.ledger, running.state.logs / "producer.log"
        with ReplayProcess(ledger, log, [f"--stream={STREAM}", "--trickle"]) as replay:
            wait_for(lambda: replay.news() is not None and running.landed() > 0, "the first row in the table")
            yield running


def wait_for(condition: Callable[[], object], what: str, seconds: float = 150) -> None:
    clock, pause = SystemClock(), StopSignal()
    deadline = clock.monotonic() + seconds
    while not condition():
        assert clock.monotonic() < deadline, f"waited {seconds} s for {what}"
        pause.wait(timedelta(milliseconds=500))


def asset(system: DemoSystem, key: list[str]) -> dict[str, Any]:
    node: dict[str, Any] = system.dagster.ask(LINEAGE, key={"path": key})["assetNodeOrError"]
    return node


def entries(event: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["label"]: entry for entry in event["metadataEntries"]}


def test_graphql_shows_materializations_with_their_lineage(system: DemoSystem) -> None:
    wait_for(lambda: asset(system, RAW_TABLE)["assetMaterializations"], "a materialization of the raw table")
    node = asset(system, RAW_TABLE)
    assert [key["path"] for key in node["dependencyKeys"]] == [["kinesis", STREAM]]
    assert [key["path"] for key in node["dependedByKeys"]] == [CARRIER_DELAYS]
    event = node["assetMaterializations"][0]
    facts = entries(event)
    assert facts["kcl/stream"]["text"] == STREAM
    assert facts["kcl/worker"]["text"] in {run.tags.get(WORKER_TAG) for run in system.observer.runs()}
    assert facts["kcl/table version"]["intValue"] <= system.table.snapshot().version
    shards = [json.loads(record) for record in facts["kcl/shards"]["table"]["records"]]
    assert sum(shard["rows"] for shard in shards) == facts["kcl/rows"]["intValue"] > 0
    for shard in shards:
        assert shard["shard"].startswith("shardId-")
        assert int(shard["first sequence number"]) <= int(shard["last sequence number"])
        assert shard["lease counter"] > 0


def test_a_closed_window_is_observed_and_computed_downstream(system: DemoSystem) -> None:
    wait_for(lambda: system.observer.materialized(CARRIER_DELAYS), "the statistics of a closed window")
    computed = system.observer.materialized(CARRIER_DELAYS)
    observed = {
        event["partition"]
        for event in asset(system, RAW_TABLE)["assetObservations"]
        if entries(event)["kcl/window"]["text"] == "closed"
    }
    assert computed <= observed


def test_sensors_say_why_they_do_nothing(system: DemoSystem) -> None:
    def reason(sensor: str) -> str:
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": "kcl_dagster",
            "sensorName": sensor,
        }
        state = system.dagster.ask(SKIPS, selector=selector)["sensorOrError"]["sensorState"]
        assert all(tick["error"] is None for tick in state["ticks"])
        return next((tick["skipReason"] for tick in state["ticks"] if tick["skipReason"]), "")

    wait_for(lambda: "2 workers are there" in reason("fleet_sensor"), "a full fleet")
    wait_for(lambda: "every shard that needs a lease has one" in reason("shard_sync_sensor"), "a complete lease table")


@pytest.mark.browser
def test_the_asset_page_shows_the_partitions_and_the_lineage(system: DemoSystem, tmp_path: Path) -> None:
    """The page in headless Chromium, as text; the picture is kept for whoever wants to look."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium is not None, "install Chromium: apt install chromium"
    wait_for(lambda: asset(system, RAW_TABLE)["assetMaterializations"], "a materialization of the raw table")
    url = f"{system.dagster.url}/assets/{STREAM}/records?view=events"
    page = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    picture = tmp_path / "asset.png"
    subprocess.run(
        [*page, "--window-size=1500,1100", f"--screenshot={picture}", url], check=True, capture_output=True, timeout=90
    )
    assert picture.stat().st_size > 20_000
    shown = subprocess.run([*page, "--dump-dom", url], check=True, capture_output=True, timeout=90)
    for text in (b"kcl/shards", b"kcl/worker", b"shardId-000000000000"):
        assert text in shown.stdout


def test_a_worker_run_that_is_terminated_leaves_its_leases_to_the_other(system: DemoSystem) -> None:
    """The run ends CANCELED, its leases move at once, its place is filled again."""
    runs = {
        run.tags[WORKER_TAG]: run
        for run in system.observer.runs()
        if run.status == "STARTED" and WORKER_TAG in run.tags
    }
    owners = {lease.lease_owner for lease in system.observer.leases()} - {None}
    leaver = min(owner for owner in owners if owner in runs)
    run = runs[leaver]
    system.dagster.ask(TERMINATE, runId=run.run_id)
    wait_for(
        lambda: {each.run_id: each.status for each in system.observer.runs()}[run.run_id] == "CANCELED",
        "the end of the run",
    )
    wait_for(
        lambda: all(lease.lease_owner not in (leaver, None) for lease in system.observer.leases()),
        "leases with a live owner",
    )
    wait_for(
        lambda: any(
            each.status == "STARTED" and each.run_id != run.run_id and each.tags.get(SLOT_TAG) == run.tags[SLOT_TAG]
            for each in system.observer.runs()
        ),
        "another run in its place",
    )
    before = system.landed()
    wait_for(lambda: system.landed() > before, "more rows in the table")
