"""Rows in KCL's format: the vectors, and that no row whatever raises."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.codec import BrokenRow, decode_lease, encode_lease, encode_throughput
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber

D13 = {
    "leaseKey": {"S": "shard-001"},
    "leaseCounter": {"N": "0"},
    "ownerSwitchesSinceCheckpoint": {"N": "0"},
    "checkpoint": {"S": "TRIM_HORIZON"},
    "checkpointSubSequenceNumber": {"N": "0"},
    "entityType": {"S": "LEASE"},
}
D14 = {
    **D13,
    "leaseOwner": {"S": "w1"},
    "parentShardId": {"SS": ["shardId-1", "shardId-2"]},
    "childShardIds": {"SS": ["shardId-5"]},
    "startingHashKey": {"S": "0"},
    "endingHashKey": {"S": "340282366920938463463374607431768211455"},
    "throughputKBps": {"N": "12.5"},
    "checkpointOwner": {"S": "w0"},
}
D15 = {
    **D13,
    "leaseKey": {"S": "123456789012:test-stream:1:shardId-000000000000"},
    "streamName": {"S": "123456789012:test-stream:1"},
    "shardId": {"S": "shardId-000000000000"},
}


def without(item: dict[str, Any], *attributes: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in attributes}


def as_numbers(item: dict[str, Any]) -> dict[str, Any]:
    return {name: {"N": float(value["N"])} if "N" in value else value for name, value in item.items()}


@pytest.mark.parametrize("item", [D13, D14, D15], ids=["D13", "D14", "D15"])
def test_rows_of_java_are_read_and_written_unchanged(item: dict[str, Any]) -> None:
    lease = decode_lease(item)
    assert isinstance(lease, Lease)
    assert as_numbers(encode_lease(lease)) == as_numbers(item)


def test_d14_means_what_it_says() -> None:
    assert decode_lease(D14) == Lease(
        lease_key="shard-001",
        lease_owner="w1",
        checkpoint_owner="w0",
        checkpoint=ExtendedSequenceNumber.TRIM_HORIZON,
        parent_shard_ids=frozenset({"shardId-1", "shardId-2"}),
        child_shard_ids=frozenset({"shardId-5"}),
        hash_key_range=HashKeyRange(0, 2**128 - 1),
        throughput_kbps=12.5,
    )


def test_the_shard_of_a_lease_of_several_streams_is_its_own_attribute() -> None:
    lease = decode_lease(D15)
    assert isinstance(lease, Lease)
    assert lease.shard_id == "shardId-000000000000"


@pytest.mark.parametrize(
    ("item", "key", "reason"),
    [
        pytest.param({"leaseKey": {"S": "badLeaseKey"}}, "badLeaseKey", "leaseCounter is missing", id="D17"),
        ({}, None, "leaseKey is missing"),
        ({**D13, "leaseKey": {"N": "3"}}, None, "leaseKey is of type N"),
        ({**D13, "leaseCounter": {"N": "1.5"}}, "shard-001", "not a whole number"),
        ({**D13, "leaseCounter": {"S": "1"}}, "shard-001", "leaseCounter is of type S"),
        (without(D13, "ownerSwitchesSinceCheckpoint"), "shard-001", "ownerSwitchesSinceCheckpoint is missing"),
        (without(D13, "checkpoint"), "shard-001", "checkpoint is missing"),
        ({**D13, "checkpoint": {"S": "bogus"}}, "shard-001", "bogus"),
        ({**D13, "checkpointSubSequenceNumber": {"N": "-1"}}, "shard-001", "negative"),
        ({**D14, "startingHashKey": {"S": "x"}}, "shard-001", "not numbers"),
        ({**D14, "startingHashKey": {"S": "7"}, "endingHashKey": {"S": "6"}}, "shard-001", "wrong way"),
        ({**D14, "leaseOwner": {"NULL": True}}, "shard-001", "leaseOwner is of type NULL"),
    ],
)
def test_a_row_that_is_no_lease_is_a_value_with_a_reason(item: dict[str, Any], key: str | None, reason: str) -> None:
    row = decode_lease(item)
    assert isinstance(row, BrokenRow)
    assert row.key == key
    assert reason in row.reason


def test_what_java_tolerates_is_tolerated() -> None:
    plain = decode_lease(D13)
    assert decode_lease(without(D13, "checkpointSubSequenceNumber", "entityType")) == plain
    assert decode_lease({**D13, "startingHashKey": {"S": "0"}}) == plain
    assert decode_lease({**D13, "pendingCheckpointState": {"N": "0"}}) == plain
    assert decode_lease({**D13, "addedByAFutureVersion": {"M": {}}}) == plain


@pytest.mark.parametrize(
    ("kbps", "written"),
    [
        pytest.param(1.024, 1.024, id="B15"),
        pytest.param(1024.1024, 1024.1024, id="B16"),
        pytest.param(1024.102412324, 1024.102412, id="B17"),
        pytest.param(1999999.123213213123, 1999999.123213, id="B18"),
        pytest.param(1e-131, 0.0, id="B19"),
        pytest.param(1.00000000000000000000000000000000000001, 1.0, id="B20"),
        pytest.param(0.10000000000000000001, 0.1, id="B21"),
        pytest.param(0.0000005, 0.000001, id="half goes up"),
    ],
)
def test_throughput_has_six_decimals(kbps: float, written: float) -> None:
    number = encode_throughput(kbps)["N"]
    assert float(number) == written
    assert "e" not in number.lower()
    assert len(number.partition(".")[2]) <= 6


positions = st.builds(
    ExtendedSequenceNumber,
    st.integers(0, 2**190).map(str) | st.sampled_from(["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"]),
    st.integers(0, 10_000),
)
names = st.text(min_size=1, max_size=20)
lease_rows = st.builds(
    Lease,
    lease_key=names,
    lease_owner=st.none() | names,
    lease_counter=st.integers(0, 2**60),
    checkpoint_owner=st.none() | names,
    owner_switches_since_checkpoint=st.integers(0, 1000),
    checkpoint=positions,
    pending_checkpoint=positions,
    pending_checkpoint_state=st.none() | st.binary(max_size=30),
    parent_shard_ids=st.frozensets(names, max_size=2),
    child_shard_ids=st.frozensets(names, max_size=2),
    hash_key_range=st.none()
    | st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1)).map(lambda pair: HashKeyRange(*sorted(pair))),
    throughput_kbps=st.none() | st.integers(0, 10**12).map(lambda millionths: millionths / 10**6),
    stream_name=st.none() | names,
    multi_stream_shard_id=st.none() | names,
)


@given(lease_rows)
def test_a_lease_survives_its_row(lease: Lease) -> None:
    item = encode_lease(lease)
    assert decode_lease(item) == lease
    for value in item.values():
        assert next(iter(value.values())) not in ("", [], None)


values = st.one_of(
    st.fixed_dictionaries({"S": st.text(max_size=10)}),
    st.fixed_dictionaries({"N": st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)}),
    st.fixed_dictionaries({"B": st.binary(max_size=10)}),
    st.fixed_dictionaries({"SS": st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"NULL": st.just(True)}),
    st.fixed_dictionaries({"L": st.just([])}),
    st.fixed_dictionaries({"M": st.just({})}),
    st.fixed_dictionaries({"BOOL": st.booleans()}),
)


@given(st.dictionaries(st.sampled_from(sorted({*D14, *D15, "pendingCheckpoint", "pendingCheckpointState"})), values))
def test_no_row_raises(attributes: dict[str, Any]) -> None:
    assert isinstance(decode_lease({**D14, **attributes}), Lease | BrokenRow)
    assert isinstance(decode_lease(attributes), Lease | BrokenRow)
