"""The end of a shard: children first, SHARD_END last, and all of it again after a crash at any step."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError

from kcl_core.consumer.checkpointer import Checkpointer
from kcl_core.consumer.shard_end import finish_shard
from kcl_core.dynamodb.location import TableLocation
from kcl_core.errors import EndpointUnavailableError
from kcl_core.leases.held import HeldLeases
from kcl_core.leases.model import HashKeyRange, Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.renewal import RenewLeases
from kcl_core.leases.table import LeaseTable
from kcl_core.simulation.clock import VirtualClock
from kcl_core.streams.api import ChildShard

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SPLIT = (ChildShard("c1", ("s",), 0, 49), ChildShard("c2", ("s",), 50, 99))
MERGE = (ChildShard("m", ("s", "t"), 0, 99),)
SHARD_END = ExtendedSequenceNumber.SHARD_END
TRIM_HORIZON = ExtendedSequenceNumber.TRIM_HORIZON


@pytest.fixture
def held(virtual_clock: VirtualClock) -> HeldLeases:
    return HeldLeases(virtual_clock, timedelta(seconds=10))


@pytest.fixture
def finishing(leases: LeaseTable, held: HeldLeases) -> Lease:
    """A lease that is in the table and held, its last batch prepared."""
    lease = Lease(
        lease_key="s",
        lease_owner="A",
        checkpoint=ExtendedSequenceNumber("13"),
        pending_checkpoint=SHARD_END,
        pending_checkpoint_state=b"4",
    )
    leases.create(lease)
    held.acquire(lease)
    return lease


def finish(leases: LeaseTable, held: HeldLeases, children: tuple[ChildShard, ...], **more: Any) -> bool:
    return finish_shard(leases, held, Checkpointer(leases, held), "s", children, **more)


def rows(leases: LeaseTable) -> dict[str, Lease]:
    return {lease.lease_key: lease for lease in leases.scan().leases}


def child(key: str, parents: set[str], starting: int, ending: int) -> Lease:
    return Lease(
        lease_key=key,
        checkpoint=TRIM_HORIZON,
        parent_shard_ids=frozenset(parents),
        hash_key_range=HashKeyRange(starting, ending),
    )


def test_d1_a_split_creates_two_leases_and_ends_its_own(leases: LeaseTable, held: HeldLeases, finishing: Lease) -> None:
    assert finish(leases, held, SPLIT)
    found = rows(leases)
    assert found.pop("c1") == child("c1", {"s"}, 0, 49)
    assert found.pop("c2") == child("c2", {"s"}, 50, 99)
    own = Lease(
        lease_key="s", lease_owner="A", lease_counter=1, checkpoint=SHARD_END, child_shard_ids=frozenset({"c1", "c2"})
    )
    assert found == {"s": own}
    assert held.all() == (own,)
    assert own.lease_counter == finishing.lease_counter + 1


def test_finishing_twice_changes_nothing_more(leases: LeaseTable, held: HeldLeases, finishing: Lease) -> None:
    assert finish(leases, held, SPLIT)
    before = rows(leases)
    assert finish(leases, held, SPLIT)
    assert rows(leases) == before
    assert finishing.lease_key in before


def test_a_child_that_is_being_read_already_is_left_alone(
    leases: LeaseTable, held: HeldLeases, finishing: Lease
) -> None:
    progressed = Lease(lease_key="c1", lease_owner="B", checkpoint=ExtendedSequenceNumber("99"))
    leases.create(progressed)
    assert finish(leases, held, SPLIT)
    assert rows(leases)["c1"] == progressed
    assert rows(leases)[finishing.lease_key].is_finished


def test_d8_without_children_only_its_own_lease_ends(leases: LeaseTable, held: HeldLeases, finishing: Lease) -> None:
    assert finish(leases, held, ())
    assert rows(leases) == {
        finishing.lease_key: Lease(lease_key="s", lease_owner="A", lease_counter=1, checkpoint=SHARD_END)
    }


def test_a_merge_waits_for_the_lease_of_the_other_parent(
    leases: LeaseTable, held: HeldLeases, finishing: Lease
) -> None:
    assert not finish(leases, held, MERGE)
    assert rows(leases) == {"s": finishing}
    assert held.all() == (finishing,), "to be tried again"
    leases.create(Lease(lease_key="t", checkpoint=TRIM_HORIZON))
    assert finish(leases, held, MERGE)
    assert rows(leases)["m"] == child("m", {"s", "t"}, 0, 99)


def test_a_merge_whose_child_is_leased_waits_for_nobody(leases: LeaseTable, held: HeldLeases, finishing: Lease) -> None:
    leases.create(child("m", {"s", "t"}, 0, 99))
    assert finish(leases, held, MERGE)
    assert rows(leases)[finishing.lease_key].child_shard_ids == {"m"}


@pytest.mark.parametrize(
    "children",
    [
        (ChildShard("m", ("s",), 0, 99),),
        (ChildShard("m", (), 0, 99),),
        (ChildShard("c1", ("s",), 0, 49), ChildShard("c2", ("other",), 50, 99)),
    ],
)
def test_children_that_are_not_plausible_are_not_leased(
    leases: LeaseTable, held: HeldLeases, finishing: Lease, children: tuple[ChildShard, ...]
) -> None:
    assert not finish(leases, held, children)
    assert rows(leases) == {"s": finishing}
    assert held.all() == (finishing,)


def test_a_child_of_one_hash_key_has_no_range_in_its_row(
    leases: LeaseTable, held: HeldLeases, finishing: Lease
) -> None:
    """Java cannot read a row whose range starts where it ends."""
    assert finish(leases, held, (ChildShard("c1", ("s",), 0, 0), ChildShard("c2", ("s",), 1, 99)))
    assert rows(leases)["c1"].hash_key_range is None
    assert finishing.lease_key in rows(leases)


def test_several_streams_children_belong_to_the_stream_of_their_parent(leases: LeaseTable, held: HeldLeases) -> None:
    stream = "123456789012:stream:1"
    lease = Lease(
        lease_key=f"{stream}:s",
        lease_owner="A",
        checkpoint=TRIM_HORIZON,
        stream_name=stream,
        multi_stream_shard_id="s",
    )
    leases.create(lease)
    held.acquire(lease)
    assert finish_shard(leases, held, Checkpointer(leases, held), lease.lease_key, SPLIT)
    created = rows(leases)[f"{stream}:c1"]
    assert (created.stream_name, created.multi_stream_shard_id, created.shard_id) == (stream, "c1", "c1")
    assert created.parent_shard_ids == {"s"}
    assert rows(leases)[lease.lease_key].child_shard_ids == {"c1", "c2"}


def test_a_merge_of_several_streams_looks_for_the_other_parent_in_its_stream(
    leases: LeaseTable, held: HeldLeases
) -> None:
    for stream, shard, owner in (("1:x:1", "s", "A"), ("1:x:1", "t", None), ("1:y:1", "s", "A")):
        lease = Lease(
            lease_key=f"{stream}:{shard}",
            lease_owner=owner,
            checkpoint=TRIM_HORIZON,
            stream_name=stream,
            multi_stream_shard_id=shard,
        )
        leases.create(lease)
        held.acquire(lease)
    assert finish_shard(leases, held, Checkpointer(leases, held), "1:x:1:s", MERGE)
    assert not finish_shard(leases, held, Checkpointer(leases, held), "1:y:1:s", MERGE)
    assert "1:x:1:m" in rows(leases)
    assert "1:y:1:m" not in rows(leases)


def test_one_who_lost_the_lease_writes_nothing(leases: LeaseTable, held: HeldLeases, finishing: Lease) -> None:
    """Else a worker that was suspended for long would create leases that have come and gone."""
    taken = leases.assign(finishing, "B")
    assert not finish(leases, held, SPLIT)
    assert rows(leases) == {"s": taken}
    held.drop("s")
    assert not finish(leases, held, SPLIT)
    assert rows(leases) == {"s": taken}


def test_the_end_read_under_an_earlier_acquisition_is_not_recorded(
    leases: LeaseTable, held: HeldLeases, finishing: Lease
) -> None:
    began = held.acquisition("s")
    held.drop("s")
    held.acquire(finishing)
    assert not finish(leases, held, SPLIT, acquisition=began)
    assert rows(leases) == {"s": finishing}
    assert finish(leases, held, SPLIT, acquisition=held.acquisition("s"))


class Crashing:
    """A DynamoDB client that dies at its n-th write, before or after it has taken effect."""

    def __init__(self, client: "DynamoDBClient", at: int, *, after: bool) -> None:
        self._client = client
        self._left = at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_item(self, **request: Any) -> Any:
        return self._write(self._client.put_item, request)

    def update_item(self, **request: Any) -> Any:
        return self._write(self._client.update_item, request)

    def _write(self, write: Any, request: dict[str, Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise EndpointConnectionError(endpoint_url="http://nowhere")
        answer = write(**request) if self._left or self._after else None
        if self._left == 0:
            raise EndpointConnectionError(endpoint_url="http://nowhere")
        return answer


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.usefixtures("finishing")
def test_whoever_comes_after_a_crash_at_any_step_ends_up_with_the_same_rows(
    *,
    dynamodb: "DynamoDBClient",
    lease_location: TableLocation,
    leases: LeaseTable,
    held: HeldLeases,
    virtual_clock: VirtualClock,
    step: int,
    after: bool,
) -> None:
    dying: Any = Crashing(dynamodb, step, after=after)
    with pytest.raises(EndpointUnavailableError):
        finish(LeaseTable(dying, lease_location), held, SPLIT)

    half = rows(leases)
    assert half["s"].is_finished is (step == 4 and after), "SHARD_END is last"
    taken = leases.assign(half["s"], "B")
    assert isinstance(taken, Lease)
    theirs = HeldLeases(virtual_clock, timedelta(seconds=10))
    theirs.acquire(taken)
    assert finish(leases, theirs, SPLIT)
    found = rows(leases)
    assert (found["c1"], found["c2"]) == (child("c1", {"s"}, 0, 49), child("c2", {"s"}, 50, 99))
    assert found["s"].checkpoint == SHARD_END
    assert found["s"].child_shard_ids == {"c1", "c2"}
    assert found["s"].pending_checkpoint is None
    assert len(found) == 3


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.usefixtures("finishing")
def test_the_same_worker_may_repeat_it(
    *,
    dynamodb: "DynamoDBClient",
    lease_location: TableLocation,
    leases: LeaseTable,
    held: HeldLeases,
    step: int,
    after: bool,
) -> None:
    dying: Any = Crashing(dynamodb, step, after=after)
    with pytest.raises(EndpointUnavailableError):
        finish(LeaseTable(dying, lease_location), held, SPLIT)
    assert finish(leases, held, SPLIT)
    assert set(rows(leases)) == {"s", "c1", "c2"}


def test_after_a_lost_answer_to_the_last_write_the_next_renewal_shows_the_end(
    *,
    dynamodb: "DynamoDBClient",
    lease_location: TableLocation,
    leases: LeaseTable,
    held: HeldLeases,
    virtual_clock: VirtualClock,
    finishing: Lease,
) -> None:
    dying: Any = Crashing(dynamodb, 4, after=True)
    with pytest.raises(EndpointUnavailableError):
        finish(LeaseTable(dying, lease_location), held, SPLIT)
    assert not finish(leases, held, SPLIT)
    assert held.all() == (finishing,)
    RenewLeases(leases, held, virtual_clock, "A").run_once()
    assert finish(leases, held, SPLIT)
