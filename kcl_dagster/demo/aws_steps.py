"""What the demo does to the stream itself: create it, split its widest shard, show who continues whom."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from kcl_core.clock import Clock
from kcl_core.errors import EndpointUnavailableError, ShardGraphError
from kcl_core.runtime import StopSignal
from kcl_core.streams.api import MAX_HASH_KEY, Shard
from kcl_core.sync.shards import ShardGraph

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

TIMEOUT = timedelta(seconds=120)
POLL = timedelta(milliseconds=200)
_GUIDE_STYLE = "dim"


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a shard.

    Attributes:
        new_starting_hash_key: first hash key of the upper child.
        reason: why this shard and why there.
    """

    shard_id: str
    new_starting_hash_key: int
    reason: str


def create_stream(client: "KinesisClient", stream: str, shards: int, clock: Clock, stop: StopSignal) -> bool:
    """Create the stream and wait until it is ACTIVE; False if ``stop`` was set before.

    Raises:
        EndpointUnavailableError: it is not ACTIVE after two minutes.
        botocore.exceptions.ClientError: it exists already, or may not be created.
    """
    client.create_stream(StreamName=stream, ShardCount=shards)
    return wait_until_active(client, stream, clock, stop)


def wait_until_active(client: "KinesisClient", stream: str, clock: Clock, stop: StopSignal) -> bool:
    """Wait for the end of a creation or reshard; False if ``stop`` was set before.

    Raises:
        EndpointUnavailableError: the stream is not ACTIVE after two minutes.
    """
    deadline = clock.monotonic() + TIMEOUT.total_seconds()
    while True:
        status = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"]
        if status == "ACTIVE":
            return True
        if clock.monotonic() > deadline:
            raise EndpointUnavailableError(
                service="Kinesis",
                operation=f"a change of stream {stream!r}",
                cause=f"the stream is still {status} after {TIMEOUT.total_seconds():.0f} s",
            )
        if stop.wait(POLL):
            return False


def list_shards(client: "KinesisClient", stream: str) -> tuple[Shard, ...]:
    """Return all shards that Kinesis lists, closed ones included."""
    pages = client.get_paginator("list_shards").paginate(StreamName=stream)
    return tuple(
        Shard(
            shard_id=shard["ShardId"],
            parent_shard_id=shard.get("ParentShardId"),
            adjacent_parent_shard_id=shard.get("AdjacentParentShardId"),
            starting_hash_key=int(shard["HashKeyRange"]["StartingHashKey"]),
            ending_hash_key=int(shard["HashKeyRange"]["EndingHashKey"]),
            starting_sequence_number=shard["SequenceNumberRange"]["StartingSequenceNumber"],
            ending_sequence_number=shard["SequenceNumberRange"].get("EndingSequenceNumber"),
        )
        for page in pages
        for shard in page["Shards"]
    )


def plan_split(shards: tuple[Shard, ...], *, stream: str) -> Split:
    """Plan to split the open shard with most hash keys at its middle; of equals, the one with the least id.

    Raises:
        ShardGraphError: no open shard has two hash keys.
    """
    candidates = [shard for shard in shards if shard.is_open and shard.ending_hash_key > shard.starting_hash_key]
    if not candidates:
        raise ShardGraphError("no shard can be split", stream=stream, shards=[shard.shard_id for shard in shards])
    widest = min(candidates, key=lambda shard: (-_width(shard), shard.shard_id))
    middle = widest.starting_hash_key + _width(widest) // 2
    return Split(widest.shard_id, middle, f"it takes {share_of_keys(widest):.0%} of the hash keys; split at the middle")


def split_widest(
    client: "KinesisClient", stream: str, clock: Clock, stop: StopSignal, *, among: Collection[str] | None = None
) -> Split:
    """Split the shard that `plan_split` chooses and wait until the stream is ACTIVE again, or ``stop`` is set.

    Args:
        client: for Kinesis.
        stream: whose shard is split.
        clock: for the time-out.
        stop: ends the wait early.
        among: ids of the shards to choose from; all by default.

    Raises:
        EndpointUnavailableError: the stream is not ACTIVE after two minutes.
    """
    shards = tuple(shard for shard in list_shards(client, stream) if among is None or shard.shard_id in among)
    split = plan_split(shards, stream=stream)
    client.split_shard(
        StreamName=stream, ShardToSplit=split.shard_id, NewStartingHashKey=str(split.new_starting_hash_key)
    )
    wait_until_active(client, stream, clock, stop)
    return split


def share_of_keys(shard: Shard) -> float:
    """Return which part of all hash keys the shard takes, above 0 and up to 1."""
    return _width(shard) / (MAX_HASH_KEY + 1)


def family_tree(shards: tuple[Shard, ...], *, stream: str, notes: Mapping[str, str] | None = None) -> Tree:
    """Return the shards of a stream as a tree for rich: each below the shard that it continues.

    A merged shard stands below its first listed parent and names both.

    Args:
        shards: one listing, in any order.
        stream: becomes the root.
        notes: text to add to a shard, by shard id.

    Raises:
        ShardGraphError: the listing contradicts itself.
    """
    graph = ShardGraph.of(shards, stream=stream)
    root = Tree(Text(stream, style="bold"), guide_style=_GUIDE_STYLE)
    branches: dict[str, Tree] = {}
    for shard in graph.order:
        parents = graph.parents(shard)
        branch = branches[parents[0]] if parents else root
        branches[shard.shard_id] = branch.add(_describe(shard, (notes or {}).get(shard.shard_id)))
    return root


def _describe(shard: Shard, note: str | None) -> Text:
    line = Text.assemble(
        (shard.shard_id, "bold" if shard.is_open else ""),
        f"  {share_of_keys(shard):.1%} of hash keys, ",
        ("open", "green") if shard.is_open else ("closed", "yellow"),
    )
    if len(shard.parents) > 1:
        line.append(f", merged from {' and '.join(shard.parents)}")
    if note:
        line.append(f", {note}", style="dim")
    return line


def _width(shard: Shard) -> int:
    return shard.ending_hash_key - shard.starting_hash_key + 1
