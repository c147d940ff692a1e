"""KPL aggregates: the vectors of KCL's behaviour, and the round trip."""

from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.streams.api import MAX_HASH_KEY, KinesisRecord
from kcl_core.streams.kpl import MAGIC, AggregateEntry, UserRecord, aggregate, deaggregate, hash_key, read_aggregate

HALF = 2**127
HASH_A = 16955237001963240173058271559858726497
HASH_B = 195289424170611159128911017612795795343

ONE_KEY = "f3899ac20a03706b311a0508001a01611a0608001a0262621a0408001a00426c2f65da098cfb1a302d36162cf3cb"
EXPLICIT_KEYS = (
    "f3899ac20a01610a016212013012273334303238323336363932303933383436333436333337343630373433313736383231313435351a"
    "07080010001a01781a07080110011a01791a0508011a017af591fed0a905c808c6864c751e6ccc5d"
)
TWO_KEYS = "f3899ac20a01610a01621a0508001a01781a0508011a0179b0031909ae75891ca94acec2ecce3125"
TAGGED = "f3899ac20a03706b311a0d08001a016122060a016b1201765929bd7e8b07607c107c25abe098b790"
NO_RECORDS = "f3899ac20a01610da6f998a7e312b8f5235eeeb285497b"
BAD_KEY_INDEX = "f3899ac20a03706b311a0508001a01611a0508051a01621a0508001a01630fccbec660635e32c9fbaf626f6b2d8e"
BAD_EXPLICIT_KEY = (
    "f3899ac20a0161120c6e6f742d612d6e756d6265721a0508001a01781a07080010001a017949b212b0791b9339c0d37563cfc0af13"
)


def record(data: bytes, sequence_number: str = "555", partition_key: str = "container") -> KinesisRecord:
    return KinesisRecord(
        sequence_number=sequence_number,
        approximate_arrival_timestamp=1476889707.125,
        data=data,
        partition_key=partition_key,
    )


def taken_apart(data: str, start: int = 0, end: int = MAX_HASH_KEY) -> list[UserRecord]:
    return deaggregate([record(bytes.fromhex(data))], starting_hash_key=start, ending_hash_key=end)


def contents(users: list[UserRecord]) -> list[tuple[str, str | None, bytes, int]]:
    return [(user.partition_key, user.explicit_hash_key, user.data, user.sub_sequence_number) for user in users]


def test_a_1_an_aggregate_gives_its_user_records_in_order_with_the_place_of_the_container() -> None:
    users = taken_apart(ONE_KEY)
    assert contents(users) == [("pk1", None, b"a", 0), ("pk1", None, b"bb", 1), ("pk1", None, b"", 2)]
    assert {(user.sequence_number, user.approximate_arrival_timestamp) for user in users} == {("555", 1476889707.125)}


def test_a_3_explicit_hash_keys_are_kept() -> None:
    assert contents(taken_apart(EXPLICIT_KEYS)) == [
        ("a", "0", b"x", 0),
        ("b", str(MAX_HASH_KEY), b"y", 1),
        ("b", None, b"z", 2),
    ]


@pytest.mark.parametrize(
    ("data", "start", "end", "delivered"),
    [
        pytest.param(ONE_KEY, 0, HALF - 1, 0, id="A-2 key outside"),
        pytest.param(EXPLICIT_KEYS, 1, MAX_HASH_KEY, 0, id="A-4 first explicit key below"),
        pytest.param(EXPLICIT_KEYS, 0, MAX_HASH_KEY - 1, 0, id="A-5 second explicit key above, first left out too"),
        pytest.param(TWO_KEYS, 0, MAX_HASH_KEY, 2, id="A-17 whole range"),
        pytest.param(TWO_KEYS, 0, HALF - 1, 0, id="A-18 second outside, first left out too"),
        pytest.param(TWO_KEYS, HALF, MAX_HASH_KEY, 0, id="A-19 first outside"),
        pytest.param(TWO_KEYS, HASH_A, HASH_B, 2, id="A-20 both bounds included"),
        pytest.param(TWO_KEYS, HASH_A + 1, HASH_B, 0, id="one above the lower bound"),
        pytest.param(TWO_KEYS, HASH_A, HASH_B - 1, 0, id="one below the upper bound"),
    ],
)
def test_an_aggregate_is_delivered_whole_or_not_at_all(data: str, start: int, end: int, delivered: int) -> None:
    assert len(taken_apart(data, start, end)) == delivered


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(ONE_KEY[:-2] + "ca", id="A-6 wrong MD5"),
        pytest.param("f3899ac20affbeeb5839c579a36b75624d4a8de682f7", id="A-7 truncated message"),
        pytest.param("f3899ac274657374206d657373616765c72b9698fa1927e1dd12d3cf26ed84b2", id="A-8 not protobuf"),
        pytest.param("f3899ac2d41d8cd98f00b204e9800998ecf8427e", id="A-9 empty message"),
        pytest.param("f3899ac2", id="A-10 magic alone"),
        pytest.param("f3899ac2" + "00" * 16, id="A-11 magic and 16 bytes"),
        pytest.param("f3899ac2" + "00" * 17, id="A-12 magic and 17 bytes"),
        pytest.param("f389", id="A-13 half the magic"),
        pytest.param("", id="A-13 empty"),
        pytest.param("f3899ac20a03706b311a020800cdb2186c5977acc9c9cd187f5cad6327", id="A-15 entry without data"),
    ],
)
@pytest.mark.parametrize("bounds", [(0, MAX_HASH_KEY), (5, 6)])
def test_what_is_no_sound_aggregate_is_the_plain_record_that_it_came_as(data: str, bounds: tuple[int, int]) -> None:
    assert contents(taken_apart(data, *bounds)) == [("container", None, bytes.fromhex(data), 0)]


@pytest.mark.parametrize(
    "data", [pytest.param(BAD_KEY_INDEX, id="A-14 key index"), pytest.param(BAD_EXPLICIT_KEY, id="A-21 explicit key")]
)
def test_an_aggregate_with_an_unusable_key_loses_nothing(data: str) -> None:
    """KCL delivers the entries before the fault and drops the others; here the record stays whole."""
    assert contents(taken_apart(data)) == [("container", None, bytes.fromhex(data), 0)]


def test_a_16_tags_are_ignored() -> None:
    assert contents(taken_apart(TAGGED)) == [("pk1", None, b"a", 0)]


def test_a_22_an_aggregate_without_entries_delivers_nothing() -> None:
    assert taken_apart(NO_RECORDS) == []


def test_a_23_plain_records_are_never_filtered() -> None:
    batch = [record(b"p", "1"), record(bytes.fromhex(ONE_KEY), "2"), record(b"q", "3")]
    users = deaggregate(batch, starting_hash_key=0, ending_hash_key=HALF - 1)
    assert [(user.sequence_number, user.data) for user in users] == [("1", b"p"), ("3", b"q")]


def test_a_24_one_entry_outside_costs_the_whole_aggregate() -> None:
    low, high = 1000, 2000
    keys = [low + i for i in range(5)] + [low - 1 - i for i in range(5)] + [high + 1 + i for i in range(5)]
    data = aggregate(AggregateEntry("k", b"x", str(key)) for key in keys)
    assert deaggregate([record(data)], starting_hash_key=low, ending_hash_key=high) == []


def test_three_aggregates_keep_their_order() -> None:
    batch = [record(aggregate(AggregateEntry("k", b"%d%d" % (i, j)) for j in range(2)), str(i)) for i in range(3)]
    users = deaggregate(batch)
    assert [user.data for user in users] == [b"00", b"01", b"10", b"11", b"20", b"21"]
    assert [(user.sequence_number, user.sub_sequence_number) for user in users] == [
        (str(i), j) for i in range(3) for j in range(2)
    ]


@pytest.mark.parametrize(("key", "expected"), [("a", HASH_A), ("b", HASH_B)])
def test_the_hash_key_is_the_md5_of_the_partition_key(key: str, expected: int) -> None:
    assert hash_key(key) == expected


def sealed(message: bytes) -> bytes:
    return MAGIC + message + md5(message, usedforsecurity=False).digest()


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(bytes([15 << 3 | 0, 0x96, 0x01]), id="varint"),
        pytest.param(bytes([15 << 3 | 1]) + bytes(8), id="64 bits"),
        pytest.param(bytes([15 << 3 | 2, 3]) + b"new", id="bytes"),
        pytest.param(bytes([15 << 3 | 5]) + bytes(4), id="32 bits"),
    ],
)
def test_fields_of_a_later_format_are_skipped(field: bytes) -> None:
    message = bytes.fromhex(ONE_KEY)[len(MAGIC) : -16]
    entries = read_aggregate(sealed(field + message + field))
    assert entries is not None
    assert [entry.data for entry in entries] == [b"a", b"bb", b""]


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(b"\x00\x00", id="field number 0, varint"),
        pytest.param(b"\x02\x00", id="field number 0, bytes"),
        pytest.param(b"\x7f", id="wire type 7"),
        pytest.param(b"\x78" + b"\xff" * 10 + b"\x01", id="varint over 64 bits"),
        pytest.param(b"\x78\xff", id="varint cut off"),
        pytest.param(b"\x7a\x05abc", id="bytes cut off"),
        pytest.param(b"\x79abc", id="64 bits cut off"),
        pytest.param(b"\x18\x01", id="an entry that is a number"),
        pytest.param(b"\x0a\x01\xff", id="a key that is not UTF-8"),
    ],
)
def test_a_message_that_is_malformed_behind_sound_entries_is_no_aggregate(field: bytes) -> None:
    message = bytes.fromhex(ONE_KEY)[len(MAGIC) : -16]
    assert read_aggregate(sealed(message + field)) is None


explicit_keys = st.none() | st.integers(0, MAX_HASH_KEY).map(str)
entries = st.lists(st.builds(AggregateEntry, st.text(max_size=20), st.binary(max_size=300), explicit_keys), min_size=1)


@given(entries)
def test_what_was_aggregated_comes_back(given_entries: list[AggregateEntry]) -> None:
    assert read_aggregate(aggregate(given_entries)) == given_entries


@given(entries, st.integers(0, MAX_HASH_KEY), st.integers(0, MAX_HASH_KEY))
def test_an_aggregate_is_delivered_exactly_if_all_its_entries_belong(
    given_entries: list[AggregateEntry], one: int, other: int
) -> None:
    low, high = sorted((one, other))
    users = deaggregate([record(aggregate(given_entries))], starting_hash_key=low, ending_hash_key=high)
    places = [
        hash_key(entry.partition_key) if entry.explicit_hash_key is None else int(entry.explicit_hash_key)
        for entry in given_entries
    ]
    assert len(users) == (len(given_entries) if all(low <= place <= high for place in places) else 0)


@given(st.binary(max_size=200))
def test_no_message_is_too_strange(message: bytes) -> None:
    """Sealed with a right MD5, so that the parser sees it: it answers with entries or None, never with an error."""
    users = deaggregate([record(sealed(message))])
    assert read_aggregate(sealed(message)) is not None or contents(users) == [("container", None, sealed(message), 0)]
