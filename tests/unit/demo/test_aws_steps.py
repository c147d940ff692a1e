import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kcl_core.clock import SystemClock
from kcl_core.errors import ShardGraphError
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import MAX_HASH_KEY, Shard
from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.demo.aws_steps import create_stream, family_tree, list_shards, plan_split, share_of_keys, split_widest


def shard(number: int, first: int, last: int, *, parents: tuple[str, ...] = (), closed: bool = False) -> Shard:
    return Shard(
        shard_id=f"shard-{number}",
        parent_shard_id=parents[0] if parents else None,
        adjacent_parent_shard_id=parents[1] if len(parents) > 1 else None,
        starting_hash_key=first,
        ending_hash_key=last,
        starting_sequence_number=str(number),
        ending_sequence_number=str(number) if closed else None,
    )


@given(st.sets(st.integers(1, MAX_HASH_KEY), max_size=8), st.data())
def test_the_widest_open_shard_is_split_at_its_middle(cuts: set[int], data: st.DataObject) -> None:
    bounds = [0, *sorted(cuts), MAX_HASH_KEY + 1]
    shards = [shard(n, bounds[n], bounds[n + 1] - 1) for n in range(len(bounds) - 1)]
    closed = shard(99, 0, MAX_HASH_KEY, closed=True)
    split = plan_split(tuple(data.draw(st.permutations([*shards, closed]))), stream="s")
    chosen = next(each for each in shards if each.shard_id == split.shard_id)
    widths = [each.ending_hash_key - each.starting_hash_key + 1 for each in shards]
    assert chosen.ending_hash_key - chosen.starting_hash_key + 1 == max(widths)
    halves = (
        split.new_starting_hash_key - chosen.starting_hash_key,
        chosen.ending_hash_key - (split.new_starting_hash_key - 1),
    )
    assert min(halves) > 0
    assert abs(halves[0] - halves[1]) <= 1
    assert split.reason


def test_a_stream_of_narrow_shards_cannot_be_split() -> None:
    with pytest.raises(ShardGraphError, match="no shard can be split"):
        plan_split((shard(0, 5, 5),), stream="s")


def picture(*shards: Shard, notes: dict[str, str] | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(family_tree(shards, stream="flights", notes=notes))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_family_tree_puts_each_shard_below_the_one_that_it_continues() -> None:
    half = (MAX_HASH_KEY + 1) // 2
    lines = picture(
        shard(3, half // 2, half - 1, parents=("shard-0",)),
        shard(2, 0, half // 2 - 1, parents=("shard-0",)),
        shard(1, half, MAX_HASH_KEY),
        shard(0, 0, half - 1, closed=True),
        notes={"shard-2": "12 rows"},
    )
    assert lines == [
        "flights",
        "├── shard-0  50.0% of hash keys, closed",
        "│   ├── shard-2  25.0% of hash keys, open, 12 rows",
        "│   └── shard-3  25.0% of hash keys, open",
        "└── shard-1  50.0% of hash keys, open",
    ]


def test_a_merged_shard_names_both_parents_and_one_whose_parents_expired_is_a_root() -> None:
    half = (MAX_HASH_KEY + 1) // 2
    lines = picture(
        shard(5, 0, half - 1, parents=("gone",), closed=True),
        shard(6, half, MAX_HASH_KEY, closed=True),
        shard(7, 0, MAX_HASH_KEY, parents=("shard-5", "shard-6")),
    )
    assert lines == [
        "flights",
        "├── shard-5  50.0% of hash keys, closed",
        "│   └── shard-7  100.0% of hash keys, open, merged from shard-5 and shard-6",
        "└── shard-6  50.0% of hash keys, closed",
    ]


def test_a_created_stream_is_active_and_a_split_one_again(embedded_aws: EmbeddedAws, application_name: str) -> None:
    client, stop = embedded_aws.config().kinesis(), StopSignal()
    assert create_stream(client, application_name, 2, SystemClock(), stop)
    before = list_shards(client, application_name)
    split = split_widest(client, application_name, SystemClock(), stop)
    after = {each.shard_id: each for each in list_shards(client, application_name)}
    assert len(before) == 2
    assert not after[split.shard_id].is_open
    children = [each for each in after.values() if each.parents == (split.shard_id,)]
    assert len(children) == 2
    assert sum(share_of_keys(each) for each in after.values() if each.is_open) == pytest.approx(1)
    client.delete_stream(StreamName=application_name, EnforceConsumerDeletion=True)


def test_waiting_for_a_stream_ends_when_the_end_is_asked_for(embedded_aws: EmbeddedAws, application_name: str) -> None:
    client, stop = embedded_aws.config().kinesis(), StopSignal()
    stop.set()
    create_stream(client, application_name, 1, SystemClock(), stop)
    client.delete_stream(StreamName=application_name, EnforceConsumerDeletion=True)
