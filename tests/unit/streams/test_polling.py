"""Reading a shard against the embedded Kinesis: nothing twice, nothing left out, and an end to every read."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.errors import StreamGoneError, StreamThrottledError
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.api import GetRecordsAnswer, KinesisRecord, StreamAddress
from kcl_core.streams.kpl import AggregateEntry, UserRecord, aggregate, deaggregate
from kcl_core.streams.polling import ReadLimits, behind, read_pages
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws

SHARD = "shardId-000000000000"
TRIM_HORIZON = ExtendedSequenceNumber.TRIM_HORIZON
AMPLE = ReadLimits(max_records=10**6, max_bytes=10**9, deadline=60.0)
ONE_BY_ONE = replace(AMPLE, records_per_call=1)


class Shard:
    """One shard of one stream, to be written and read."""

    def __init__(self, stream: KinesisStream, kinesis: KinesisHttp, clock: VirtualClock) -> None:
        self.stream = stream
        self.kinesis = kinesis
        self.clock = clock
        self.address = StreamAddress(stream.name)

    def put(self, *data: bytes) -> list[str]:
        put = self.stream.client.put_record
        return [put(StreamName=self.stream.name, PartitionKey="k", Data=each)["SequenceNumber"] for each in data]

    def pages(
        self,
        start: ExtendedSequenceNumber = TRIM_HORIZON,
        limits: ReadLimits = AMPLE,
        *,
        timestamp: datetime | None = None,
        shard_iterator: str | None = None,
    ) -> "Pages":
        read = read_pages(
            self.kinesis,
            self.address,
            SHARD,
            start,
            limits=limits,
            clock=self.clock,
            timestamp=timestamp,
            shard_iterator=shard_iterator,
        )
        return Pages(list(read), start)


class Pages:
    """What a read gave."""

    def __init__(self, answers: list[GetRecordsAnswer], start: ExtendedSequenceNumber) -> None:
        self.answers = answers
        self.raw = [[record.data for record in answer.records] for answer in answers]
        self.users = [user for answer in answers for user in behind(deaggregate(answer.records), start)]
        self.data = [user.data for user in self.users]


@pytest.fixture
def shard(kinesis_stream: KinesisStream, embedded_aws: EmbeddedAws, virtual_clock: VirtualClock) -> Shard:
    return Shard(kinesis_stream, KinesisHttp(embedded_aws.config()), virtual_clock)


def test_a_shard_is_read_from_its_horizon_to_its_tip(shard: Shard) -> None:
    shard.put(b"1", b"2", b"3")
    pages = shard.pages(limits=ONE_BY_ONE)
    assert pages.raw == [[b"1"], [b"2"], [b"3"]]
    assert [answer.millis_behind_latest == 0 for answer in pages.answers] == [False, False, True]


def test_an_idle_shard_gives_one_empty_answer_with_the_time(shard: Shard) -> None:
    (answer,) = shard.pages().answers
    assert (answer.records, answer.millis_behind_latest, answer.at_shard_end) == ((), 0, False)


def test_the_next_read_continues_by_iterator_or_by_position(shard: Shard) -> None:
    (last,) = shard.put(b"1")
    (answer,) = shard.pages().answers
    shard.put(b"2", b"3")
    start = ExtendedSequenceNumber(last)
    assert shard.pages(start, shard_iterator=answer.next_shard_iterator).raw == [[b"2", b"3"]]
    by_position = shard.pages(start)
    assert by_position.raw == [[b"1", b"2", b"3"]]
    assert by_position.data == [b"2", b"3"]


def test_a_25_a_position_within_an_aggregate_is_gone_on_from(shard: Shard) -> None:
    (number,) = shard.put(aggregate(AggregateEntry("k", each) for each in (b"a", b"b", b"c")))
    shard.put(b"next")
    users = shard.pages(ExtendedSequenceNumber(number, 1)).users
    assert [(user.data, user.sub_sequence_number) for user in users] == [(b"c", 2), (b"next", 0)]


def test_latest_begins_with_what_comes(shard: Shard) -> None:
    shard.put(b"before")
    (answer,) = shard.pages(ExtendedSequenceNumber.LATEST).answers
    assert answer.records == ()
    shard.put(b"after")
    assert shard.pages(ExtendedSequenceNumber.LATEST, shard_iterator=answer.next_shard_iterator).data == [b"after"]


def test_at_timestamp_begins_with_that_moment(shard: Shard, embedded_aws: EmbeddedAws) -> None:
    shard.put(b"before")
    moment = datetime.fromtimestamp(embedded_aws.kinesis_control.advance(10).now - 5, UTC)
    shard.put(b"after")
    assert shard.pages(ExtendedSequenceNumber.AT_TIMESTAMP, timestamp=moment).data == [b"after"]


@pytest.mark.parametrize("start", [ExtendedSequenceNumber.AT_TIMESTAMP, ExtendedSequenceNumber.SHARD_END])
def test_a_start_that_says_too_little_is_refused(shard: Shard, start: ExtendedSequenceNumber) -> None:
    with pytest.raises(ValueError, match=start.sequence_number):
        shard.pages(start)


def test_an_iterator_that_expired_before_the_read_is_renewed_at_the_start(
    shard: Shard, embedded_aws: EmbeddedAws
) -> None:
    (last,) = shard.put(b"1")
    (answer,) = shard.pages().answers
    shard.put(b"2")
    embedded_aws.kinesis_control.advance(301)
    assert shard.pages(ExtendedSequenceNumber(last), shard_iterator=answer.next_shard_iterator).data == [b"2"]


def test_an_iterator_that_is_not_one_is_renewed(shard: Shard) -> None:
    shard.put(b"1")
    assert shard.pages(shard_iterator="no iterator").data == [b"1"]


def test_an_iterator_that_expires_during_the_read_is_renewed_behind_the_last_record(
    shard: Shard, embedded_aws: EmbeddedAws
) -> None:
    shard.put(b"1", b"2", b"3", b"4")
    limits = replace(AMPLE, records_per_call=2)
    read = read_pages(shard.kinesis, shard.address, SHARD, TRIM_HORIZON, limits=limits, clock=shard.clock)
    assert [record.data for record in next(read).records] == [b"1", b"2"]
    embedded_aws.kinesis_control.advance(301)
    assert [record.data for answer in read for record in answer.records] == [b"3", b"4"]


@pytest.mark.parametrize(
    ("limits", "read"),
    [
        pytest.param(replace(ONE_BY_ONE, max_records=2), 2, id="records"),
        pytest.param(replace(ONE_BY_ONE, max_bytes=250), 3, id="bytes, overshot by one answer"),
        pytest.param(replace(ONE_BY_ONE, deadline=0.0), 1, id="deadline: the first answer is always read"),
    ],
)
def test_a_read_ends_at_its_limits_and_can_be_continued(shard: Shard, limits: ReadLimits, read: int) -> None:
    data = [bytes([i]) * 100 for i in range(5)]
    shard.put(*data)
    pages = shard.pages(limits=limits)
    assert pages.data == data[:read]
    end = ExtendedSequenceNumber(pages.users[-1].sequence_number)
    assert shard.pages(end).data == data[read:]


@pytest.mark.parametrize("limits", [replace(ONE_BY_ONE, max_records=1), replace(ONE_BY_ONE, deadline=0.0)])
def test_the_smallest_limits_still_get_ahead(shard: Shard, limits: ReadLimits) -> None:
    """The record at the start comes again; if it counted, a read that ends after one record would never pass it."""
    shard.put(b"1", b"2", b"3")
    start, seen = TRIM_HORIZON, []
    for _ in range(3):
        users = shard.pages(start, limits).users
        seen += [user.data for user in users]
        start = ExtendedSequenceNumber(users[-1].sequence_number)
    assert seen == [b"1", b"2", b"3"]


def test_a_closed_shard_is_read_to_its_end_and_names_its_children(shard: Shard) -> None:
    shard.put(b"1", b"2")
    shard.stream.client.split_shard(StreamName=shard.stream.name, ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
    pages = shard.pages(limits=ONE_BY_ONE)
    assert pages.data == [b"1", b"2"]
    assert [answer.at_shard_end for answer in pages.answers][-1]
    assert [child.parent_shards for child in pages.answers[-1].child_shards] == [(SHARD,), (SHARD,)]


def test_a_throttle_ends_the_read_and_leaves_what_was_read(shard: Shard, embedded_aws: EmbeddedAws) -> None:
    shard.put(b"1", b"2")
    read = read_pages(shard.kinesis, shard.address, SHARD, TRIM_HORIZON, limits=ONE_BY_ONE, clock=shard.clock)
    first = next(read)
    embedded_aws.kinesis_control.inject("GetRecords", error="ProvisionedThroughputExceededException")
    with pytest.raises(StreamThrottledError):
        next(read)
    end = ExtendedSequenceNumber(first.records[-1].sequence_number)
    assert shard.pages(end, shard_iterator=first.next_shard_iterator).data == [b"2"]


def test_a_shard_that_does_not_exist_is_gone(shard: Shard) -> None:
    with pytest.raises(StreamGoneError):
        next(
            read_pages(
                shard.kinesis, shard.address, "shardId-000000000007", TRIM_HORIZON, limits=AMPLE, clock=shard.clock
            )
        )


def user(number: int, sub: int = 0) -> UserRecord:
    return UserRecord(str(number), sub, "k", None, 0.0, b"")


def test_a_26_plain_records_behind_the_position_all_pass() -> None:
    users = [user(100 + i) for i in range(10, 114)]
    assert behind(users, ExtendedSequenceNumber("100")) == users


def test_a_28_a_plain_record_that_is_read_again_is_left_out() -> None:
    assert behind([user(100), user(101)], ExtendedSequenceNumber("100")) == [user(101)]


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"])
def test_a_29_behind_a_sentinel_is_everything(start: str) -> None:
    assert behind([user(0), user(1)], ExtendedSequenceNumber(start)) == [user(0), user(1)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), unique=True), st.integers(0, 30), st.integers(0, 3))
def test_behind_agrees_with_the_order_of_positions(places: list[tuple[int, int]], number: int, sub: int) -> None:
    users, start = [user(*place) for place in sorted(places)], ExtendedSequenceNumber(str(number), sub)
    expected = [
        each for each in users if ExtendedSequenceNumber(each.sequence_number, each.sub_sequence_number) > start
    ]
    assert behind(users, start) == expected


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.data())
def test_reads_cut_anywhere_join_without_gap_or_repetition(sizes: list[int], data: st.DataObject) -> None:
    """Whatever user record a read ended with, the next one from there gives exactly the rest."""
    batch = [
        KinesisRecord(
            sequence_number=str(i),
            approximate_arrival_timestamp=0.0,
            data=aggregate(AggregateEntry("k", b"%d/%d" % (i, j)) for j in range(size)),
            partition_key="k",
        )
        for i, size in enumerate(sizes)
    ]
    users = deaggregate(batch)
    cut = data.draw(st.integers(1, len(users)))
    last = users[cut - 1]
    start = ExtendedSequenceNumber(last.sequence_number, last.sub_sequence_number)
    again = deaggregate(batch[int(last.sequence_number) :])
    assert users[:cut] + behind(again, start) == users
