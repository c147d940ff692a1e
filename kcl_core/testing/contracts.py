"""What a consumer relies on, as test cases to run against any Kinesis and any DynamoDB.

Subclass a contract in a test module, name the class ``Test...`` and give it the fixture that its docstring asks for.
Where a server is known to be wrong, override the case and mark it ``xfail`` with the reason.
"""
# ruff: noqa: S101, PLR2004 - these are tests

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from kcl_core.clock import SystemClock
from kcl_core.errors import StreamGoneError
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import (
    MAX_HASH_KEY,
    GetRecordsAnswer,
    IteratorPosition,
    KinesisApi,
    Shard,
    ShardFilter,
    StreamAddress,
)

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

TRIM_HORIZON = IteratorPosition("TRIM_HORIZON")
SETTLED_WITHIN = timedelta(seconds=60)
LEASE_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class KinesisServer:
    """One Kinesis, as both of our clients see it."""

    client: "KinesisClient"
    api: KinesisApi


@dataclass(frozen=True, slots=True)
class ContractStream:
    """A fresh stream of two shards; ``low`` and ``high`` are their ids, by hash keys."""

    name: str
    client: "KinesisClient"
    api: KinesisApi
    low: str = "shardId-000000000000"
    high: str = "shardId-000000000001"

    @property
    def address(self) -> StreamAddress:
        """The stream by its name."""
        return StreamAddress(self.name)

    def settle(self) -> None:
        """Wait until the stream is ACTIVE."""
        clock, pause = SystemClock(), StopSignal()
        deadline = clock.monotonic() + SETTLED_WITHIN.total_seconds()
        while self.api.describe_stream_summary(self.address).status != "ACTIVE":
            assert clock.monotonic() < deadline, f"{self.name} never became ACTIVE"
            pause.wait(timedelta(milliseconds=20))

    def put(self, name: str, count: int) -> None:
        """Put ``name-0``, ``name-1`` and so on, in turn to the lowest and the highest hash key."""
        keys = ("0", str(MAX_HASH_KEY))
        entries: list[Any] = [
            {"Data": f"{name}-{n}".encode(), "PartitionKey": "k", "ExplicitHashKey": keys[n % 2]} for n in range(count)
        ]
        assert self.client.put_records(StreamName=self.name, Records=entries)["FailedRecordCount"] == 0

    def shards(self, shard_filter: ShardFilter | None = None) -> dict[str, Shard]:
        """List shards by id."""
        return {shard.shard_id: shard for shard in self.api.list_shards(self.address, shard_filter)}

    def read(self, shard_id: str, position: IteratorPosition = TRIM_HORIZON) -> Iterator[GetRecordsAnswer]:
        """Yield answers up to the tip, or to the end of a closed shard."""
        iterator: str | None = self.api.get_shard_iterator(self.address, shard_id, position)
        while iterator is not None:
            answer = self.api.get_records(self.address, iterator)
            yield answer
            iterator = answer.next_shard_iterator
            if answer.millis_behind_latest == 0 and not answer.records:
                return

    def data(self, shard_id: str, position: IteratorPosition = TRIM_HORIZON) -> list[bytes]:
        """Return the data of the records that `read` gives."""
        return [record.data for answer in self.read(shard_id, position) for record in answer.records]

    def split(self, shard_id: str, at: int) -> None:
        """Split a shard and wait until that is done."""
        self.client.split_shard(StreamName=self.name, ShardToSplit=shard_id, NewStartingHashKey=str(at))
        self.settle()


class KinesisContract:
    """Needs a fixture ``kinesis`` of type `KinesisServer`; every case gets a stream of its own."""

    @pytest.fixture
    def stream(self, kinesis: KinesisServer, application_name: str) -> Iterator[ContractStream]:
        """A stream of two shards, ACTIVE."""
        name = application_name[-100:].strip("-.")
        kinesis.client.create_stream(StreamName=name, ShardCount=2)
        made = ContractStream(name, kinesis.client, kinesis.api)
        made.settle()
        yield made
        kinesis.client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)

    def test_a_new_stream_covers_all_hash_keys_with_open_shards(self, stream: ContractStream) -> None:
        """Numbered from 0 on, by hash key."""
        found = sorted(stream.shards().values(), key=lambda shard: shard.starting_hash_key)
        assert [shard.shard_id for shard in found] == [stream.low, stream.high]
        assert (found[0].starting_hash_key, found[1].ending_hash_key) == (0, MAX_HASH_KEY)
        assert found[0].ending_hash_key + 1 == found[1].starting_hash_key
        assert all(shard.is_open and not shard.parents for shard in found)
        summary = stream.api.describe_stream_summary(stream.address)
        assert (summary.status, summary.open_shard_count, summary.retention_hours) == ("ACTIVE", 2, 24)
        assert summary.arn.endswith(f":stream/{stream.name}")

    def test_records_come_back_whole_and_in_order(self, stream: ContractStream) -> None:
        """With sequence numbers of 56 digits that grow, and arrival times that do not go back."""
        stream.put("r", 20)
        assert stream.data(stream.low) == [f"r-{n}".encode() for n in range(0, 20, 2)]
        assert stream.data(stream.high) == [f"r-{n}".encode() for n in range(1, 20, 2)]
        records = [record for answer in stream.read(stream.low) for record in answer.records]
        numbers = [record.sequence_number for record in records]
        assert all(re.fullmatch(r"\d{56}", number) for number in numbers)
        assert all(int(before) < int(after) for before, after in pairwise(numbers))
        times = [record.approximate_arrival_timestamp for record in records]
        assert times == sorted(times)
        assert {record.partition_key for record in records} == {"k"}

    def test_every_type_of_iterator_starts_where_it_says(self, stream: ContractStream) -> None:
        """LATEST at what comes after it was asked for."""
        latest = stream.api.get_shard_iterator(stream.address, stream.low, IteratorPosition("LATEST"))
        stream.put("r", 6)
        records = [record for answer in stream.read(stream.low) for record in answer.records]
        second = records[1].sequence_number
        assert stream.data(stream.low, IteratorPosition("AT_SEQUENCE_NUMBER", second)) == [b"r-2", b"r-4"]
        assert stream.data(stream.low, IteratorPosition("AFTER_SEQUENCE_NUMBER", second)) == [b"r-4"]
        after_latest = stream.api.get_records(stream.address, latest)
        assert [record.data for record in after_latest.records] == [b"r-0", b"r-2", b"r-4"]
        created = stream.api.describe_stream_summary(stream.address).created
        from_the_start = IteratorPosition("AT_TIMESTAMP", timestamp=created)
        assert stream.data(stream.low, from_the_start) == [b"r-0", b"r-2", b"r-4"]

    def test_the_tip_is_zero_milliseconds_behind_and_goes_on(self, stream: ContractStream) -> None:
        """Its iterator gives what comes later."""
        stream.put("r", 2)
        tip = list(stream.read(stream.low))[-1]
        assert tip.millis_behind_latest == 0
        assert tip.next_shard_iterator is not None
        stream.put("s", 2)
        more = stream.api.get_records(stream.address, tip.next_shard_iterator)
        assert [record.data for record in more.records] == [b"s-0"]

    def test_an_answer_holds_no_more_than_the_limit(self, stream: ContractStream) -> None:
        """And the next one continues."""
        stream.put("r", 10)
        iterator = stream.api.get_shard_iterator(stream.address, stream.low, TRIM_HORIZON)
        first = stream.api.get_records(stream.address, iterator, limit=3)
        assert [record.data for record in first.records] == [b"r-0", b"r-2", b"r-4"]
        assert first.next_shard_iterator is not None
        second = stream.api.get_records(stream.address, first.next_shard_iterator, limit=3)
        assert [record.data for record in second.records] == [b"r-6", b"r-8"]
        with pytest.raises(ClientError, match=r"10000|10,000|less than or equal"):
            stream.client.get_records(ShardIterator=iterator, Limit=10_001)

    def test_a_split_shard_ends_with_its_children_and_keeps_its_records(self, stream: ContractStream) -> None:
        """What is put later goes to the children."""
        stream.put("before", 4)
        parent = stream.shards()[stream.low]
        middle = (parent.ending_hash_key + 1) // 2
        stream.split(stream.low, middle)
        stream.put("after", 4)
        listed = stream.shards()
        children = [shard for shard in listed.values() if stream.low in shard.parents]
        assert not listed[stream.low].is_open
        assert sorted((c.starting_hash_key, c.ending_hash_key) for c in children) == [
            (0, middle - 1),
            (middle, parent.ending_hash_key),
        ]
        answers = list(stream.read(stream.low))
        assert [record.data for answer in answers for record in answer.records] == [b"before-0", b"before-2"]
        assert answers[-1].at_shard_end
        ended = {child.shard_id: child for child in answers[-1].child_shards}
        assert ended.keys() == {child.shard_id for child in children}
        assert all(child.parent_shards == (stream.low,) for child in ended.values())
        assert stream.data(min(ended)) == [b"after-0", b"after-2"]

    def test_merged_shards_end_with_one_child_of_two_parents(self, stream: ContractStream) -> None:
        """Both parents name it."""
        stream.put("before", 2)
        stream.client.merge_shards(StreamName=stream.name, ShardToMerge=stream.low, AdjacentShardToMerge=stream.high)
        stream.settle()
        (child,) = (shard for shard in stream.shards().values() if shard.is_open)
        assert set(child.parents) == {stream.low, stream.high}
        assert (child.starting_hash_key, child.ending_hash_key) == (0, MAX_HASH_KEY)
        for parent in (stream.low, stream.high):
            last = list(stream.read(parent))[-1]
            assert last.at_shard_end
            assert [(each.shard_id, set(each.parent_shards)) for each in last.child_shards] == [
                (child.shard_id, {stream.low, stream.high})
            ]

    def test_update_shard_count_keeps_what_was_there(self, stream: ContractStream) -> None:
        """The new shards cover all hash keys without a gap."""
        stream.put("before", 4)
        stream.client.update_shard_count(StreamName=stream.name, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
        stream.settle()
        listed = stream.shards()
        opened = sorted((s for s in listed.values() if s.is_open), key=lambda s: s.starting_hash_key)
        assert len(opened) == 4
        assert (opened[0].starting_hash_key, opened[-1].ending_hash_key) == (0, MAX_HASH_KEY)
        assert all(low.ending_hash_key + 1 == high.starting_hash_key for low, high in pairwise(opened))
        closed = [shard_id for shard_id, shard in listed.items() if not shard.is_open]
        assert sorted(each for shard_id in closed for each in stream.data(shard_id)) == [
            f"before-{n}".encode() for n in range(4)
        ]

    def test_listings_are_filtered(self, stream: ContractStream) -> None:
        """By what is open, and by id."""
        stream.split(stream.low, 1000)
        everything = stream.shards()
        assert set(stream.shards(ShardFilter("AT_LATEST"))) == {k for k, s in everything.items() if s.is_open}
        assert set(stream.shards(ShardFilter("FROM_TRIM_HORIZON"))) == set(everything)
        children = {"shardId-000000000002", "shardId-000000000003"}
        assert set(stream.shards(ShardFilter("AFTER_SHARD_ID", shard_id=stream.high))) == children
        after = stream.client.list_shards(StreamName=stream.name, ExclusiveStartShardId=stream.high)
        assert {shard["ShardId"] for shard in after["Shards"]} == children

    def test_a_listing_at_the_trim_horizon_has_only_what_was_there_then(self, stream: ContractStream) -> None:
        """Children of a later split come into being after it."""
        stream.split(stream.low, 1000)
        assert set(stream.shards(ShardFilter("AT_TRIM_HORIZON"))) == {stream.low, stream.high}

    def test_listings_come_in_pages_whose_token_stands_alone(self, stream: ContractStream) -> None:
        """A stream's name beside it is refused."""
        first = stream.client.list_shards(StreamName=stream.name, MaxResults=1)
        with pytest.raises(ClientError):
            stream.client.list_shards(StreamName=stream.name, NextToken=first["NextToken"])
        second = stream.client.list_shards(NextToken=first["NextToken"], MaxResults=1)
        assert [shard["ShardId"] for page in (first, second) for shard in page["Shards"]] == [stream.low, stream.high]
        assert "NextToken" not in second

    def test_a_filter_holds_on_every_page_of_a_listing(self, stream: ContractStream) -> None:
        """Inferred: AWS does not say so, but KCL sends the filter with the first page only."""
        stream.split(stream.high, MAX_HASH_KEY - 1000)
        page = stream.client.list_shards(StreamName=stream.name, MaxResults=1, ShardFilter={"Type": "AT_LATEST"})
        listed = [shard["ShardId"] for shard in page["Shards"]]
        while "NextToken" in page:
            page = stream.client.list_shards(NextToken=page["NextToken"], MaxResults=1)
            listed += [shard["ShardId"] for shard in page["Shards"]]
        assert listed == [stream.low, "shardId-000000000002", "shardId-000000000003"]

    def test_streams_are_addressed_by_name_and_by_arn(self, stream: ContractStream) -> None:
        """Either alone or both; an iterator works with and without the ARN."""
        stream.put("r", 2)
        arn = stream.api.describe_stream_summary(stream.address).arn
        both = StreamAddress(stream.name, arn)
        iterator = stream.api.get_shard_iterator(both, stream.low, TRIM_HORIZON)
        assert [record.data for record in stream.api.get_records(both, iterator).records] == [b"r-0"]
        assert len(stream.api.get_records(stream.address, iterator).records) == 1
        assert len(stream.api.list_shards(both)) == 2
        assert stream.client.describe_stream_summary(StreamARN=arn)["StreamDescriptionSummary"]["OpenShardCount"] == 2

    def test_what_is_not_there_is_said_to_be_gone(self, stream: ContractStream) -> None:
        """A stream, or a shard of one that is there."""
        with pytest.raises(StreamGoneError):
            stream.api.describe_stream_summary(StreamAddress("no-such-stream"))
        with pytest.raises(StreamGoneError):
            stream.api.get_shard_iterator(stream.address, "shardId-000000000099", IteratorPosition("LATEST"))

    def test_an_iterator_that_nobody_gave_is_refused(self, stream: ContractStream) -> None:
        """As the caller's mistake, not the server's."""
        with pytest.raises(stream.client.exceptions.InvalidArgumentException):
            stream.client.get_records(ShardIterator="garbage")

    def test_a_put_holds_at_most_500_records(self, stream: ContractStream) -> None:
        """More are refused as a whole."""
        many: list[Any] = [{"Data": b"x", "PartitionKey": "k"}] * 501
        with pytest.raises(ClientError, match="500"):
            stream.client.put_records(StreamName=stream.name, Records=many)

    def test_consumers_are_registered_once(self, stream: ContractStream) -> None:
        """A second registration of the name is refused; the consumer is found by its ARN."""
        arn = stream.api.describe_stream_summary(stream.address).arn
        made = stream.client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")["Consumer"]
        with pytest.raises(stream.client.exceptions.ResourceInUseException):
            stream.client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")
        found = stream.client.describe_stream_consumer(ConsumerARN=made["ConsumerARN"])["ConsumerDescription"]
        assert (found["ConsumerName"], found["StreamARN"]) == ("reader", arn)
        listed = stream.client.list_stream_consumers(StreamARN=arn)["Consumers"]
        assert [consumer["ConsumerARN"] for consumer in listed] == [made["ConsumerARN"]]


class LeaseTableContract:
    """Of many conditional writes on one state of a row, exactly one happens.

    Needs a fixture ``tables``: one and the same fresh table, through several clients, so that requests really meet in
    the server.
    """

    def test_of_many_takers_of_one_lease_exactly_one_wins_every_time(self, tables: Sequence[LeaseTable]) -> None:
        """And the table holds what the winner wrote."""
        lease = Lease(lease_key="shard", checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
        assert tables[0].create(lease)
        with ThreadPoolExecutor(len(tables)) as pool:
            for number in range(LEASE_ROUNDS):
                owners = [f"worker-{number}-{writer}" for writer in range(len(tables))]
                outcomes = list(pool.map(lambda table, owner, seen=lease: table.assign(seen, owner), tables, owners))
                winners = [outcome for outcome in outcomes if not isinstance(outcome, Refused)]
                assert len(winners) == 1
                assert tables[0].get("shard") == winners[0]
                lease = winners[0]
        assert lease.lease_counter == LEASE_ROUNDS

    def test_of_many_creators_of_one_lease_exactly_one_wins_every_time(self, tables: Sequence[LeaseTable]) -> None:
        """The others are told that it exists."""
        with ThreadPoolExecutor(len(tables)) as pool:
            for number in range(LEASE_ROUNDS):
                lease = Lease(lease_key=f"shard-{number}", checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
                created = list(pool.map(lambda table, new=lease: table.create(new), tables))
                assert created.count(True) == 1

    def test_of_two_writes_decided_on_one_sight_the_second_is_refused(self, tables: Sequence[LeaseTable]) -> None:
        """Whatever the two are; the refusal shows the row as it is."""
        lease = Lease(lease_key="shard", checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
        assert tables[0].create(lease)
        held = tables[0].assign(lease, "first")
        assert isinstance(held, Lease)
        assert isinstance(tables[1].assign(held, "second"), Lease)
        for late in (tables[0].renew(held), tables[0].checkpoint(held, ExtendedSequenceNumber.LATEST)):
            assert isinstance(late, Refused)
            assert late.current is not None
            assert late.current.lease_owner == "second"
