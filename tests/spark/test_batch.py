"""The data path, end to end: whoever dies or sleeps wherever, the table has each record exactly once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipeline import Killed, Pipeline, Worker, kill_at

from kcl_core.errors import ShardReadError
from kcl_core.leases.model import Lease
from kcl_core.leases.table import Refused
from kcl_core.streams.kpl import AggregateEntry, aggregate
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.spark.batch import Step
from kcl_dagster.spark.read import reached

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]


@pytest.fixture
def pipeline(embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, spark: SparkSession, tmp_path: Path) -> Pipeline:
    """An application on a stream of two open shards, which hold 30 plain records and 12 in aggregates."""
    made = Pipeline(embedded_aws.config(), kinesis_stream.name, tmp_path / "table")
    split(kinesis_stream, "shardId-000000000000", 2**127)
    made.create()
    first = Worker(made, spark, "first")
    first.take_all()
    assert first.batch.run_once().finished == ("shardId-000000000000",)
    put(kinesis_stream, "first", 30)
    for shard, key in (("low", "0"), ("high", str(2**128 - 1))):
        entries = [AggregateEntry(f"{shard}-{n}", b"aggregated-%s-%d" % (shard.encode(), n), key) for n in range(6)]
        kinesis_stream.client.put_record(
            StreamName=kinesis_stream.name, PartitionKey="a", ExplicitHashKey=key, Data=aggregate(entries)
        )
    return made


def put(stream: KinesisStream, name: str, count: int) -> None:
    entries = [{"Data": f"{name}-{n}".encode(), "PartitionKey": f"{name}-{n}"} for n in range(count)]
    answer = stream.client.put_records(StreamName=stream.name, Records=entries)  # type: ignore[arg-type]
    assert answer["FailedRecordCount"] == 0


def split(stream: KinesisStream, shard_id: str, at: int) -> None:
    stream.client.split_shard(StreamName=stream.name, ShardToSplit=shard_id, NewStartingHashKey=str(at))
    stream.client.get_waiter("stream_exists").wait(StreamName=stream.name)


def sent(*names: tuple[str, int]) -> Counter[bytes]:
    expected = Counter(f"{name}-{n}".encode() for name, count in names for n in range(count))
    return expected + Counter(b"aggregated-%s-%d" % (shard, n) for shard in (b"low", b"high") for n in range(6))


def test_records_land_once_in_their_windows_with_their_places(pipeline: Pipeline, spark: SparkSession) -> None:
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    worker.drain()
    assert pipeline.payloads() == sent(("first", 30))
    places = [row[:3] for row in pipeline.rows()]
    assert len(set(places)) == len(places)
    subs = sorted(sub for _, _, sub, data in pipeline.rows() if data.startswith(b"aggregated-low"))
    assert subs == list(range(6))
    assert sum(pipeline.table.snapshot().rows_by_window().values()) == 42
    for lease in pipeline.leases.scan().leases:
        assert lease.pending_checkpoint is None
        assert lease.checkpoint.is_shard_end == (lease.lease_key == "shardId-000000000000")


def test_the_end_of_a_shard_leads_to_its_children(
    pipeline: Pipeline, spark: SparkSession, kinesis_stream: KinesisStream
) -> None:
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    worker.drain()
    split(kinesis_stream, "shardId-000000000001", 2**126)
    put(kinesis_stream, "second", 20)
    worker.drain()
    assert pipeline.payloads() == sent(("first", 30), ("second", 20))
    leases = {lease.lease_key: lease for lease in pipeline.leases.scan().leases}
    parent = leases["shardId-000000000001"]
    assert parent.is_finished
    assert parent.child_shard_ids == {"shardId-000000000003", "shardId-000000000004"}
    assert leases["shardId-000000000003"].parent_shard_ids == {"shardId-000000000001"}


def test_a_batch_without_records_commits_nothing_and_keeps_the_positions(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    worker.drain()
    before = {lease.lease_key: lease.checkpoint for lease in worker.held.all()}
    report = worker.batch.run_once()
    assert (report.version, report.rows, report.left_out) == (None, 0, ())
    assert {lease.lease_key: lease.checkpoint for lease in worker.held.all()} == before


def test_idle_shards_tell_the_table_how_far_they_are_without_touching_their_positions(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    """Otherwise a shard without records would keep every window open."""
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    worker.drain()
    keys = [lease.lease_key for lease in worker.held.all() if not lease.is_finished]
    before = pipeline.leases.scan().leases
    watermarks = reached(pipeline.table.snapshot(), pipeline.names, keys)
    idle = Worker(pipeline, spark, "w1")
    for lease in before:
        idle.held.acquire(lease)
    rows = pipeline.rows()
    assert idle.batch.run_once().committed == ()
    moved = reached(pipeline.table.snapshot(), pipeline.names, keys)
    assert len(moved) == len(keys) == 2
    assert all(moved[key] >= at for key, at in watermarks.items())
    assert (pipeline.leases.scan().leases, pipeline.rows()) == (before, rows)
    version = pipeline.table.snapshot().version
    idle.batch.run_once()
    window = pipeline.path.grid.window_at
    again = reached(pipeline.table.snapshot(), pipeline.names, keys)
    same_windows = all(window(again[key]) == window(moved[key]) for key in keys)
    assert (pipeline.table.snapshot().version == version) == same_windows


def test_a_lease_that_is_asked_for_is_handed_over_between_batches(pipeline: Pipeline, spark: SparkSession) -> None:
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    worker.batch.run_once()
    lease = worker.held.get("shardId-000000000001")
    assert lease is not None
    asked = pipeline.leases.initiate_graceful_handoff(lease, "next")
    assert not isinstance(asked, Refused)
    worker.held.update(asked)
    report = worker.batch.run_once()
    assert report.transferred == ("shardId-000000000001",)
    row = pipeline.leases.get("shardId-000000000001")
    assert row is not None
    assert (row.lease_owner, row.checkpoint_owner, row.checkpoint) == ("next", None, lease.checkpoint)
    assert worker.held.get("shardId-000000000001") is None


def test_iterators_last_from_batch_to_batch(
    pipeline: Pipeline, spark: SparkSession, kinesis_stream: KinesisStream, embedded_aws: EmbeddedAws
) -> None:
    """Kinesis allows five GetShardIterator calls per second and shard; a batch needs none."""
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    worker.drain()
    asked = embedded_aws.kinesis_control.status().calls["GetShardIterator"]
    put(kinesis_stream, "second", 10)
    worker.drain()
    assert embedded_aws.kinesis_control.status().calls["GetShardIterator"] == asked
    assert pipeline.payloads() == sent(("first", 30), ("second", 10))


def test_a_shard_that_may_not_be_read_is_told_loudly_after_the_others_are_committed(
    pipeline: Pipeline, spark: SparkSession, embedded_aws: EmbeddedAws
) -> None:
    worker = Worker(pipeline, spark, "w1")
    worker.take_all()
    embedded_aws.kinesis_control.inject("GetRecords", error="AccessDeniedException")
    report = worker.batch.run_once()
    ((refused, other),) = [
        (each.lease_key, lease.lease_key) for each in report.problems for lease, _ in report.committed
    ]
    assert {refused, other} == {"shardId-000000000001", "shardId-000000000002"}
    with pytest.raises(ShardReadError, match=refused):
        report.raise_hopeless()
    worker.drain()
    assert pipeline.payloads() == sent(("first", 30))


@pytest.mark.parametrize("step", list(Step))
def test_a_worker_that_dies_at_any_step_loses_and_doubles_nothing(
    pipeline: Pipeline, spark: SparkSession, kinesis_stream: KinesisStream, step: Step
) -> None:
    doomed = Worker(pipeline, spark, "doomed", kill_at(step))
    doomed.take_all()
    with pytest.raises(Killed):
        doomed.drain()
    put(kinesis_stream, "second", 10)
    heir = Worker(pipeline, spark, "heir")
    heir.take_all()
    heir.drain()
    assert pipeline.payloads() == sent(("first", 30), ("second", 10))


@pytest.mark.parametrize("step", list(Step))
def test_a_process_killed_at_any_step_loses_and_doubles_nothing(
    pipeline: Pipeline, spark: SparkSession, embedded_aws: EmbeddedAws, step: Step
) -> None:
    """With a real SIGKILL: no handler runs, and what was in memory is gone."""
    command = [
        sys.executable,
        "-m",
        "support.pipeline",
        pipeline.stream.name,
        pipeline.table.location,
        step.value,
        embedded_aws.kinesis_endpoint,
        embedded_aws.dynamodb_endpoint,
    ]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]
    heir = Worker(pipeline, spark, "heir")
    heir.take_all()
    heir.drain()
    assert pipeline.payloads() == sent(("first", 30))


@pytest.mark.parametrize("method", ["prepare", "checkpoint"])
def test_a_worker_that_dies_between_two_leases_loses_and_doubles_nothing(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """One lease is prepared (or checkpointed), the other is not."""
    doomed = Worker(pipeline, spark, "doomed")
    doomed.take_all()
    monkeypatch.setattr(doomed.checkpointer, method, die_at_second_call(getattr(doomed.checkpointer, method)))
    with pytest.raises(Killed):
        doomed.drain()
    heir = Worker(pipeline, spark, "heir")
    heir.take_all()
    heir.drain()
    assert pipeline.payloads() == sent(("first", 30))


def die_at_second_call(method: Callable[..., object]) -> Callable[..., object]:
    calls: list[Sequence[object]] = []

    def call(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise Killed
        return method(*arguments, **options)

    return call


@pytest.mark.parametrize("step", list(Step))
def test_a_stale_owner_that_wakes_up_at_any_step_adds_nothing(
    pipeline: Pipeline, spark: SparkSession, step: Step
) -> None:
    """It was suspended, its leases went to another worker, which read everything; then it goes on as if nothing was."""
    heir = Worker(pipeline, spark, "heir")
    slept: list[Step] = []

    def sleep(reached: Step) -> None:
        if reached is step and not slept:
            slept.append(reached)
            heir.take_all()
            heir.drain()

    stale = Worker(pipeline, spark, "stale", sleep)
    stale.take_all()
    report = stale.batch.run_once()
    assert slept == [step]
    assert pipeline.payloads() == sent(("first", 30))
    owners = {lease.lease_key: lease.lease_owner for lease in pipeline.leases.scan().leases}
    assert set(owners.values()) == {"heir"}
    if step in (Step.FETCHED, Step.PREPARED):
        assert report.rows == 0
        assert len(report.left_out) == 2
    heir.drain()
    assert pipeline.payloads() == sent(("first", 30))


def test_a_lease_lost_on_the_way_is_left_out_and_the_rest_is_committed(pipeline: Pipeline, spark: SparkSession) -> None:
    taken: list[Lease] = []

    def steal(reached: Step) -> None:
        if reached is Step.FETCHED and not taken:
            lease = pipeline.leases.get("shardId-000000000001")
            assert lease is not None
            outcome = pipeline.leases.assign(lease, "thief")
            assert not isinstance(outcome, Refused)
            taken.append(outcome)

    worker = Worker(pipeline, spark, "w1", steal)
    worker.take_all()
    report = worker.batch.run_once()
    assert report.left_out == ("shardId-000000000001",)
    assert [lease.lease_key for lease, _ in report.committed] == ["shardId-000000000002"]
    assert {row[0] for row in pipeline.rows()} == {"shardId-000000000002"}
    thief = Worker(pipeline, spark, "thief")
    thief.take_all()
    thief.drain()
    assert pipeline.payloads() == sent(("first", 30))
