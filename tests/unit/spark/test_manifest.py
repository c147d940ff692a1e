"""Manifests: what a Spark task reports arrives in the driver as it was."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.streams.api import MAX_HASH_KEY, ChildShard
from kcl_dagster.spark.manifest import FetchProblem, FileManifest, ShardManifest, decode_manifest, encode_manifest
from kcl_dagster.spark.windows import WindowGrid

POSITIONS = st.one_of(
    st.builds(ExtendedSequenceNumber, st.integers(0, 10**56).map(str), st.integers(0, 10**6)),
    st.sampled_from(["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"]).map(ExtendedSequenceNumber),
)
# Kinesis's times have milliseconds, ours microseconds.
TIMES = st.datetimes(datetime(2013, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
COUNTS = st.integers(0, 2**53)
TEXTS = st.text(max_size=20)
FILES = st.builds(
    FileManifest,
    path=TEXTS,
    window=TIMES.map(WindowGrid(15).window_at),
    size=COUNTS,
    rows=COUNTS,
    data_bytes=COUNTS,
    lowest_sequence_number=TEXTS,
    highest_sequence_number=TEXTS,
    first_arrival=TIMES,
    last_arrival=TIMES,
    written=TIMES,
)
KEYS = st.integers(0, MAX_HASH_KEY)
CHILDREN = st.builds(ChildShard, TEXTS, st.lists(TEXTS, max_size=2).map(tuple), KEYS, KEYS)
MANIFESTS = st.builds(
    ShardManifest,
    lease_key=TEXTS,
    shard_id=TEXTS,
    start=POSITIONS,
    end=POSITIONS,
    shard_end=st.booleans(),
    children=st.lists(CHILDREN, max_size=2).map(tuple),
    at_tip=st.booleans(),
    millis_behind_latest=st.none() | COUNTS,
    records=COUNTS,
    server_time=st.none() | TIMES,
    last_arrival=st.none() | TIMES,
    next_iterator=st.none() | TEXTS,
    files=st.lists(FILES, max_size=3).map(tuple),
    problem=st.none() | st.builds(FetchProblem, TEXTS, TEXTS, st.booleans()),
)


@given(MANIFESTS)
def test_every_manifest_survives_the_way_to_the_driver(manifest: ShardManifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at_tip", "shard_end", "reached"),
    [(True, False, NOON), (False, False, NOON - timedelta(hours=1)), (False, True, NOON - timedelta(hours=1))],
)
def test_only_at_the_tip_of_an_open_shard_kinesis_s_own_time_is_reached(
    at_tip: bool, shard_end: bool, reached: datetime
) -> None:
    """The children of a closed shard may have records from before Kinesis's own time."""
    place = ExtendedSequenceNumber("1")
    manifest = ShardManifest(
        lease_key="s",
        shard_id="s",
        start=place,
        end=place,
        at_tip=at_tip,
        shard_end=shard_end,
        server_time=NOON,
        last_arrival=NOON - timedelta(hours=1),
    )
    assert manifest.reached == reached
