"""Sensors: a run is requested only when there is something to do, else the reason is told."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from kcl_core.election import evidence
from kcl_core.election.lock import Lock
from kcl_core.metrics.model import WorkerMetrics
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.names import REASON_TAG, SLOT_TAG, WORKER_TAG
from kcl_dagster.resources import KclApplication
from kcl_dagster.sensors import look_for_empty_places, look_for_missing_leases, look_for_moves
from kcl_dagster.workers import ended_workers

pytestmark = [
    pytest.mark.dagster,
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]

Look = Callable[[dg.SensorEvaluationContext, KclApplication], dg.SensorResult]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def application(embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream) -> KclApplication:
    overrides: dict[str, Any] = {
        "application_name": kinesis_stream.name,
        "stream_name": kinesis_stream.name,
        "initial_position": {"position": "TRIM_HORIZON"},
        "aws": embedded_aws.config().model_dump(),
    }
    return KclApplication(overrides=overrides)


def evaluate(
    look: Look, instance: dg.DagsterInstance, application: KclApplication, cursor: str | None = None
) -> tuple[dg.SensorResult, list[dg.RunRequest], str]:
    result = look(dg.build_sensor_context(instance=instance, cursor=cursor), application)
    reason = result.skip_reason
    text = reason.skip_message if isinstance(reason, dg.SkipReason) else reason
    return result, list(result.run_requests or ()), text or ""


def test_shard_sync_is_asked_for_until_every_shard_has_its_lease(
    instance: dg.DagsterInstance, application: KclApplication
) -> None:
    _, (missing_table,), _ = evaluate(look_for_missing_leases, instance, application)
    assert "is to be created" in missing_table.tags[REASON_TAG]
    application.tables().create(application.clock(), "test")
    _, (missing_lease,), _ = evaluate(look_for_missing_leases, instance, application)
    assert "shardId-000000000000" in missing_lease.tags[REASON_TAG]
    application.sync_shards().run_once()
    _, requests, reason = evaluate(look_for_missing_leases, instance, application)
    assert requests == []
    assert "every shard that needs a lease has one" in reason


def test_an_endpoint_that_is_down_is_a_reason_and_not_a_failure(
    instance: dg.DagsterInstance, application: KclApplication, embedded_aws: EmbeddedAws
) -> None:
    application.tables().create(application.clock(), "test")
    embedded_aws.kinesis_control.inject("ListShards", error="InternalFailure")
    _, requests, reason = evaluate(look_for_missing_leases, instance, application)
    assert requests == []
    assert "Kinesis did not answer ListShards" in reason


def test_a_rebalance_is_asked_for_when_a_lease_should_move_and_the_cursor_remembers(
    instance: dg.DagsterInstance, application: KclApplication
) -> None:
    _, requests, reason = evaluate(look_for_moves, instance, application)
    assert requests == []
    assert "does not exist yet" in reason
    application.tables().create(application.clock(), "test")
    application.sync_shards().run_once()
    result, requests, reason = evaluate(look_for_moves, instance, application)
    assert requests == []
    assert reason == "nothing to move: 1 leases, 0 workers"
    now = int(application.clock().wall().timestamp())
    application.tables().worker_metrics.write(WorkerMetrics(worker_id="w", last_update=now))
    result, (request,), _ = evaluate(look_for_moves, instance, application, cursor=result.cursor)
    assert request.tags["kcl/moves"] == "1"
    assert "no owner" in request.tags[REASON_TAG]
    cursor = json.loads(result.cursor or "")
    assert cursor["turn"] == 2
    assert "shardId-000000000000" in cursor["seen"]
    assert cursor["leader"] == ""


def test_the_cursor_remembers_whose_lock_stands_still_and_the_run_is_told(
    instance: dg.DagsterInstance, application: KclApplication
) -> None:
    application.tables().create(application.clock(), "test")
    application.sync_shards().run_once()
    now = int(application.clock().wall().timestamp())
    application.tables().worker_metrics.write(WorkerMetrics(worker_id="w", last_update=now))
    application.tables().lock.create(Lock("dead java worker", "version", 120.0))
    first, _, _ = evaluate(look_for_moves, instance, application)
    _, (request,), _ = evaluate(look_for_moves, instance, application, cursor=first.cursor)
    told = request.run_config["ops"]["assign_leases"]["config"]["leader"]
    seen = [evidence.load(text) for text in (json.loads(first.cursor or "")["leader"], told)]
    assert seen[0] is not None
    assert seen[0].lock.owner_name == "dead java worker"
    assert seen[0] == seen[1]


def test_each_empty_place_gets_one_run(instance: dg.DagsterInstance, application: KclApplication) -> None:
    _, requests, _ = evaluate(look_for_empty_places, instance, application)
    assert [request.tags[SLOT_TAG] for request in requests] == ["0", "1"]
    assert len({request.run_key for request in requests}) == 2


def test_places_that_are_taken_are_told_and_failures_make_a_pause(
    instance: dg.DagsterInstance, application: KclApplication
) -> None:
    for slot in ("0", "1"):
        instance.create_run_for_job(running_job(), tags={SLOT_TAG: slot}, status=dg.DagsterRunStatus.STARTED)
    _, requests, reason = evaluate(look_for_empty_places, instance, application)
    assert (requests, reason) == ([], "all 2 workers are there")


def test_workers_whose_runs_ended_are_known(instance: dg.DagsterInstance) -> None:
    for status, worker in (
        (dg.DagsterRunStatus.FAILURE, "killed"),
        (dg.DagsterRunStatus.CANCELED, "stopped"),
        (dg.DagsterRunStatus.STARTED, "alive"),
    ):
        instance.create_run_for_job(running_job(), tags={WORKER_TAG: worker}, status=status)
    assert ended_workers(instance) == {"killed", "stopped"}


def running_job() -> dg.JobDefinition:
    @dg.op
    def nothing() -> None:
        """Stands for the worker's op."""

    @dg.job(name="worker")
    def worker() -> None:
        nothing()

    return worker
