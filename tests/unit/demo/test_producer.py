import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.runtime import StopSignal
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.api import MAX_HASH_KEY, KinesisRecord, Shard
from kcl_core.streams.kpl import deaggregate, hash_key, read_aggregate
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.demo.aws_steps import Split, list_shards, plan_split
from kcl_dagster.demo.ledger import LedgerWriter, read_ledger
from kcl_dagster.demo.producer import (
    MAX_AGGREGATE_BYTES,
    MAX_PUT_BYTES,
    MAX_PUT_RECORDS,
    Envelope,
    Pace,
    Producer,
    Row,
    ShardMap,
    pack,
    puts_of,
    replay,
)

if TYPE_CHECKING:
    from mypy_boto3_kinesis.type_defs import RecordTypeDef

row_lists = st.lists(st.tuples(st.text(min_size=1, max_size=8), st.booleans(), st.integers(0, 4000)), max_size=60)


def rows_of(drawn: list[tuple[str, bool, int]]) -> list[Row]:
    return [Row(number, key, b"x" * size, kpl) for number, (key, kpl, size) in enumerate(drawn)]


def flights(count: int) -> Iterator[Row]:
    for number in range(count):
        yield Row(number, f"N{number % 97}", json.dumps({"row": number}).encode(), number % 3 == 0)


def four_shards() -> list[Shard]:
    quarter = (MAX_HASH_KEY + 1) // 4
    return [
        Shard(
            shard_id=f"shard-{n}",
            starting_hash_key=n * quarter,
            ending_hash_key=(n + 1) * quarter - 1,
            starting_sequence_number=str(n),
        )
        for n in range(4)
    ]


@given(row_lists)
def test_every_row_is_packed_once_and_no_aggregate_straddles_two_shards(drawn: list[tuple[str, bool, int]]) -> None:
    rows, shards = rows_of(drawn), four_shards()
    envelopes = pack(rows, ShardMap(shards))
    assert sorted(row.number for each in envelopes for row in each.rows) == list(range(len(rows)))
    for envelope in envelopes:
        if envelope.expected_shard is None:
            assert [row.through_kpl for row in envelope.rows] == [False]
            assert envelope.data == envelope.rows[0].data
            continue
        shard = next(each for each in shards if each.shard_id == envelope.expected_shard)
        keys = [envelope.partition_key, *(row.partition_key for row in envelope.rows)]
        assert all(shard.starting_hash_key <= hash_key(key) <= shard.ending_hash_key for key in keys)
        entries = read_aggregate(envelope.data) or []
        assert [entry.data for entry in entries] == [row.data for row in envelope.rows]
        assert sum(len(row.data) for row in envelope.rows) <= MAX_AGGREGATE_BYTES
        assert [row.number for row in envelope.rows] == sorted(row.number for row in envelope.rows)


@given(st.lists(st.sampled_from([1, 1000, 400_000, 1_000_000]), max_size=40), st.integers(0, 1100))
def test_puts_keep_to_the_limits_of_kinesis_and_to_the_order(sizes: list[int], small: int) -> None:
    envelopes = [Envelope((), "k", bytes(size)) for size in [*sizes, *[1] * small]]
    puts = list(puts_of(envelopes))
    assert [each for put in puts for each in put] == envelopes
    assert all(0 < len(put) <= MAX_PUT_RECORDS for put in puts)
    assert all(sum(each.size for each in put) <= MAX_PUT_BYTES for put in puts)


@dataclass
class Setup:
    stream: KinesisStream
    clock: VirtualClock
    stop: StopSignal
    ledger: Path
    producer: Producer

    def landed(self) -> dict[str, list[int]]:
        """Row numbers by shard, as a consumer of the whole stream sees them."""
        rows: dict[str, list[int]] = {}
        for shard in list_shards(self.stream.client, self.stream.name):
            users = deaggregate(
                [
                    KinesisRecord(each["SequenceNumber"], 0.0, each["Data"], each["PartitionKey"])
                    for each in self._records(shard)
                ],
                starting_hash_key=shard.starting_hash_key,
                ending_hash_key=shard.ending_hash_key,
            )
            rows[shard.shard_id] = sorted(json.loads(user.data)["row"] for user in users)
        return rows

    def stored_records(self) -> int:
        """Kinesis records in the stream, an aggregate counted once."""
        return sum(len(self._records(shard)) for shard in list_shards(self.stream.client, self.stream.name))

    def _records(self, shard: Shard) -> "list[RecordTypeDef]":
        answer = self.stream.client.get_shard_iterator(
            StreamName=self.stream.name, ShardId=shard.shard_id, ShardIteratorType="TRIM_HORIZON"
        )
        return self.stream.client.get_records(ShardIterator=answer["ShardIterator"])["Records"]

    def assert_ledger_is_the_stream(self, rows: int) -> None:
        landed = {shard: numbers for shard, numbers in self.landed().items() if numbers}
        ledger = read_ledger(self.ledger)
        assert {shard: sorted(numbers) for shard, numbers in ledger.rows.items()} == landed
        assert sorted(number for numbers in landed.values() for number in numbers) == list(range(rows))
        assert ledger.is_complete


class VirtualStop(StopSignal):
    """Waiting lets virtual time pass instead of real one."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, pause: timedelta) -> bool:
        self._clock.advance(pause.total_seconds())
        return self.is_set()


@pytest.fixture
def setup(kinesis_stream: KinesisStream, tmp_path: Path) -> Iterator[Setup]:
    clock = VirtualClock()
    stop = VirtualStop(clock)
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path) as ledger:
        producer = Producer(kinesis_stream.client, kinesis_stream.name, ledger, clock, stop)
        yield Setup(kinesis_stream, clock, stop, path, producer)


def test_a_replay_keeps_its_pace_splits_on_the_way_and_sends_every_row_once(setup: Setup) -> None:
    steps = list(replay(setup.producer, flights(2000), Pace(2000, 200.0), setup.clock, setup.stop, split_at=600))
    totals = setup.producer.finish(2000)
    assert 10.0 <= setup.clock.monotonic() < 12.0
    splits = [place for place, step in enumerate(steps) if isinstance(step, Split)]
    assert len(splits) == 1
    assert steps[splits[0] - 1] == 600
    assert steps[-1] == 2000
    setup.assert_ledger_is_the_stream(2000)
    assert (totals.rows, totals.aggregated_rows, totals.repeated) == (2000, 667, 0)
    assert 0 < totals.aggregates < 667
    # Nothing had to be sent again: aggregates followed the split at once.
    assert setup.stored_records() == totals.records
    by_shard = setup.landed()
    closed = next(each for each in list_shards(setup.stream.client, setup.stream.name) if not each.is_open)
    assert by_shard[closed.shard_id] == list(range(600))


def test_only_what_kinesis_refused_is_sent_again(setup: Setup, embedded_aws: EmbeddedAws) -> None:
    embedded_aws.kinesis_control.inject("PutRecords", count=3, fail_share=0.5)
    setup.producer.send(list(flights(400)))
    totals = setup.producer.finish(400)
    setup.assert_ledger_is_the_stream(400)
    assert totals.repeated > 0


def test_aggregates_that_a_foreign_split_tore_apart_are_sent_again_and_not_counted_before(setup: Setup) -> None:
    setup.producer.send(list(flights(30)))
    split = plan_split(list_shards(setup.stream.client, setup.stream.name), stream=setup.stream.name)
    setup.stream.client.split_shard(
        StreamName=setup.stream.name,
        ShardToSplit=split.shard_id,
        NewStartingHashKey=str(split.new_starting_hash_key),
    )
    setup.stream.client.get_waiter("stream_exists").wait(
        StreamName=setup.stream.name, WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )
    setup.producer.send(list(flights(200))[30:])
    setup.producer.finish(200)
    setup.assert_ledger_is_the_stream(200)


def test_a_stopped_replay_says_that_it_is_not_complete(setup: Setup) -> None:
    for step in replay(setup.producer, flights(2000), Pace(2000, 200.0), setup.clock, setup.stop):
        if isinstance(step, int) and step >= 500:
            setup.stop.set()
    totals = setup.producer.finish(2000)
    ledger = read_ledger(setup.ledger)
    assert 500 <= totals.rows < 2000
    assert not ledger.is_complete


def test_a_trickle_runs_as_a_process_until_terminated_and_ends_its_ledger(
    embedded_aws: EmbeddedAws, kinesis_stream: KinesisStream, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.jsonl"
    arguments = ["--stream", kinesis_stream.name, "--ledger", str(path), "--trickle"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kcl_dagster.demo.flights", *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, **embedded_aws.environment()},
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if json.loads(line)["sent"] >= 3:
                break
        process.send_signal(signal.SIGTERM)
        last = process.stdout.read().splitlines()[-1]
        assert process.wait(timeout=30) == 0
    facts = json.loads(last)
    assert (facts["event"], facts["total"]) == ("done", None)
    ledger = read_ledger(path)
    assert ledger.is_complete
    assert ledger.totals is not None
    assert set().union(*ledger.rows.values()) == set(range(facts["sent"]))
