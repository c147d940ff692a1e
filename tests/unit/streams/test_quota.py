"""Who waits as the quota says is not throttled, and loses no more time than he must."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.streams.api import IteratorPosition, StreamAddress
from kcl_core.streams.quota import BYTES_PER_SECOND, CALLS_PER_SECOND, ReadQuota, TokenBucket
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import EmbeddedAws

MIB = 1024 * 1024

sizes = st.integers(0, 10 * MIB)
pauses = st.floats(0, 3)


def test_five_calls_are_free_and_the_sixth_waits_its_fifth_of_a_second() -> None:
    quota = ReadQuota.full(0.0)
    for _ in range(5):
        assert quota.wait(0.0) == 0.0
        quota = quota.read(0, 0.0)
    assert quota.wait(0.0) == pytest.approx(0.2)
    assert quota.wait(0.2) == pytest.approx(0.0)


def test_ten_mebibytes_at_once_are_made_up_for_in_four_seconds() -> None:
    quota = ReadQuota.full(0.0).read(10 * MIB, 0.0)
    assert quota.wait(0.0) == pytest.approx(4.0, abs=1e-5)
    assert quota.wait(3.0) == pytest.approx(1.0, abs=1e-5)
    assert quota.wait(4.1) == 0.0


def test_a_refusal_costs_a_second() -> None:
    assert ReadQuota.full(0.0).refused(0.0).wait(0.0) == pytest.approx(1.0)


def test_a_refusal_does_not_forget_an_overdraft() -> None:
    quota = ReadQuota.full(0.0).read(10 * MIB, 0.0)
    assert quota.refused(1.0).wait(1.0) == pytest.approx(quota.wait(1.0))


@given(st.lists(st.tuples(sizes, pauses), max_size=30))
def test_within_any_time_no_more_is_read_than_the_quota_and_one_answer(reads: list[tuple[int, float]]) -> None:
    quota, now, history = ReadQuota.full(0.0), 0.0, list[tuple[float, int]]()
    for size, pause in reads:
        now += quota.wait(now) + 1e-6 + pause
        assert quota.wait(now) == 0.0
        history.append((now, size))
        quota = quota.read(size, now)
    for first, (began, _) in enumerate(history):
        for last, (ended, _) in enumerate(history[first:], first):
            seconds = ended - began + 1.0
            assert last - first + 1 <= seconds * CALLS_PER_SECOND + 1e-3
            before_the_last = sum(size for _, size in history[first:last])
            assert before_the_last <= seconds * BYTES_PER_SECOND + 1


@given(st.lists(st.tuples(sizes, pauses), max_size=10), st.floats(0.001, 0.9))
def test_a_moment_before_the_wait_is_over_it_is_not(reads: list[tuple[int, float]], share: float) -> None:
    quota, now = ReadQuota.full(0.0), 0.0
    for size, pause in reads:
        quota, now = quota.read(size, now), now + pause
    wait = quota.wait(now)
    assert quota.wait(now + wait * share) == pytest.approx(wait * (1 - share), abs=1e-6)


@given(st.floats(-100, 100), st.floats(-100, 100), st.floats(-50, 5))
def test_a_bucket_never_holds_more_than_a_second_and_time_never_goes_back(then: float, now: float, has: float) -> None:
    bucket = TokenBucket(5.0, has, then).at(now)
    assert has <= bucket.tokens <= 5.0
    assert bucket.since == max(then, now)


def test_who_waits_is_not_throttled_by_a_server_with_these_quotas(
    kinesis_stream: KinesisStream, embedded_aws: EmbeddedAws
) -> None:
    """Seven times a mebibyte and some empty reads: StreamThrottledError would end the test."""
    put = kinesis_stream.client.put_record
    for _ in range(7):
        put(StreamName=kinesis_stream.name, PartitionKey="k", Data=bytes(MIB - 1))
    kinesis, control = KinesisHttp(embedded_aws.config()), embedded_aws.kinesis_control
    stream = StreamAddress(kinesis_stream.name)
    start = kinesis.get_shard_iterator(stream, "shardId-000000000000", IteratorPosition("TRIM_HORIZON"))
    iterator: str | None = start
    control.quotas(on=True)
    try:
        quota, now, waited = ReadQuota.full(0.0), 0.0, 0.0
        for _ in range(20):
            pause = quota.wait(now) + 0.002
            control.advance(pause)
            now, waited = now + pause, waited + pause
            answer = kinesis.get_records(stream, iterator or start, limit=1)
            quota = quota.read(sum(len(each.data) + len(each.partition_key) for each in answer.records), now)
            iterator = answer.next_shard_iterator
    finally:
        control.quotas(on=False)
    assert waited < 20 / CALLS_PER_SECOND + 7 * MIB / BYTES_PER_SECOND
