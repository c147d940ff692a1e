"""Which leases go and which wait: KCL's vectors, and what holds for every chain of shards."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.cleanup import CleanupPlan, plan_cleanup
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber


def lease(key: str, checkpoint: str = "SHARD_END", *, parents: str = "", children: str = "", **more: object) -> Lease:
    return Lease(
        lease_key=key,
        checkpoint=ExtendedSequenceNumber(checkpoint),
        parent_shard_ids=frozenset(parents.split()),
        child_shard_ids=frozenset(children.split()),
        **more,  # type: ignore[arg-type]
    )


def deleted(plan: CleanupPlan) -> list[str]:
    return [each.lease.lease_key for each in plan.deletions]


def plan(
    *leases: Lease, listed: str, children_of: Mapping[str, str] | None = None, completed: bool = True
) -> CleanupPlan:
    children = {parent: ids.split() for parent, ids in (children_of or {}).items()}
    return plan_cleanup(leases, set(listed.split()), children, cleanup_completed=completed)


@pytest.mark.parametrize(
    ("children", "goes"),
    [
        pytest.param({"a": "LATEST", "b": "LATEST"}, True, id="C-1"),
        pytest.param({"a": "LATEST"}, True, id="C-2"),
        pytest.param({"a": "TRIM_HORIZON"}, False, id="C-5"),
        pytest.param({"a": "AT_TIMESTAMP"}, False, id="C-6"),
        pytest.param({"a": "34890", "b": "TRIM_HORIZON"}, False, id="C-12"),
        pytest.param({"a": "34890", "b": "SHARD_END"}, True, id="C-13"),
    ],
)
def test_a_finished_lease_goes_once_all_its_children_are_being_read(children: dict[str, str], goes: bool) -> None:
    rows = [lease(key, checkpoint, parents="p") for key, checkpoint in children.items()]
    found = plan(lease("p", children=" ".join(children)), *rows, listed="p a b c", children_of={"a": "c", "b": "c"})
    assert deleted(found) == (["p"] if goes else [])
    assert ("p" in {each.lease_key for each in found.waiting}) is not goes


def test_finished_leases_stay_when_cleanup_upon_completion_is_off() -> None:
    """C-3."""
    rows = lease("p", children="a"), lease("a", "LATEST", parents="p")
    assert plan(*rows, listed="p a", completed=False) == CleanupPlan()


def test_a_lease_waits_for_a_child_without_a_row() -> None:
    """C-4."""
    found = plan(lease("p", children="a b"), lease("a", "LATEST", parents="p"), listed="p a b")
    assert deleted(found) == []
    assert "b has no lease" in found.waiting[0].reason


def test_a_lease_waits_for_the_lease_of_its_parent() -> None:
    """C-7: the parent is not finished itself."""
    rows = lease("parent", "5"), lease("p", parents="parent", children="a"), lease("a", "LATEST", parents="p")
    found = plan(*rows, listed="parent p a")
    assert deleted(found) == []
    assert "parent goes first" in found.waiting[0].reason


@pytest.mark.parametrize("completed", [True, False])
@pytest.mark.parametrize("checkpoint", ["SHARD_END", "123", "TRIM_HORIZON"])
def test_the_lease_of_a_shard_that_kinesis_has_dropped_goes(completed: bool, checkpoint: str) -> None:
    """C-8, C-9."""
    found = plan(lease("p", checkpoint), lease("q", "5"), listed="q", completed=completed)
    assert [(each.lease.lease_key, each.kind) for each in found.deletions] == [("p", "garbage")]


def test_a_dropped_shard_keeps_its_lease_until_its_children_are_leased() -> None:
    found = plan(lease("p", "5"), listed="a", children_of={"p": "a"})
    assert deleted(found) == []
    found = plan(lease("p", "5"), lease("a", "TRIM_HORIZON", parents="p"), listed="a", children_of={"p": "a"})
    assert deleted(found) == ["p"]


def test_a_dropped_shard_keeps_its_lease_while_a_checkpoint_is_prepared() -> None:
    pending = ExtendedSequenceNumber("7")
    assert deleted(plan(lease("p", "5", pending_checkpoint=pending), lease("q"), listed="q")) == []


def test_an_empty_listing_says_nothing() -> None:
    assert plan(lease("p"), listed="") == CleanupPlan()


def test_children_that_only_kinesis_knows_are_recorded_and_count() -> None:
    """C-14."""
    rows = [lease("p"), lease("a", "5", parents="p")]
    found = plan(*rows, listed="p a b", children_of={"p": "a b"})
    assert {row.lease_key: set(row.child_shard_ids) for row in found.children} == {"p": {"a", "b"}}
    assert deleted(found) == []
    found = plan(*rows, lease("b", "LATEST", parents="p"), listed="p a b", children_of={"p": "a b"})
    assert deleted(found) == ["p"]


def test_a_finished_shard_without_children_waits_while_kinesis_lists_it() -> None:
    """C-16 turned round: its lease would be created anew at the initial position and the shard read again."""
    found = plan(lease("p"), listed="p")
    assert deleted(found) == []
    assert found.waiting[0].reason


def test_a_chain_of_finished_shards_goes_at_once_oldest_first() -> None:
    rows = lease("z", children="y"), lease("y", parents="z", children="x"), lease("x", "5", parents="y")
    assert deleted(plan(*rows, listed="x y z")) == ["z", "y"]


CHECKPOINTS = st.sampled_from(["TRIM_HORIZON", "LATEST", "17", "SHARD_END"])


@given(checkpoints=st.lists(CHECKPOINTS, min_size=1, max_size=12), dropped=st.integers(0, 3), data=st.data())
def test_cleanup_is_safe_explained_deterministic_and_final(
    checkpoints: list[str], dropped: int, data: st.DataObject
) -> None:
    """A binary tree of splits, of which the oldest shards may be gone and some leases missing."""
    ids = [f"s{n:02d}" for n in range(len(checkpoints))]
    children_of = {ids[n]: [ids[c] for c in (2 * n + 1, 2 * n + 2) if c < len(ids)] for n in range(len(ids))}
    parent = {child: p for p, children in children_of.items() for child in children}
    listed = set(ids[min(dropped, len(ids) - 1) :])
    missing = data.draw(st.sets(st.sampled_from(ids)))
    rows = [
        lease(key, checkpoint, parents=parent.get(key, ""), children=" ".join(children_of[key]))
        for key, checkpoint in zip(ids, checkpoints, strict=True)
        if key not in missing
    ]
    order: random.Random = data.draw(st.randoms(use_true_random=False))
    found = plan_cleanup(rows, listed, children_of)

    left = {row.lease_key: row for row in rows}
    for deletion in found.deletions:
        key = deletion.lease.lease_key
        assert deletion.reason
        assert parent.get(key) not in left, "a parent goes before its children"
        assert all(child in left for child in children_of[key] if child in listed), "no listed child is orphaned"
        assert deletion.lease.is_finished or key not in listed, "nothing that can still be read goes"
        del left[key]
    assert all(each.reason for each in found.waiting)
    assert deleted(plan_cleanup(left.values(), listed, children_of)) == [], "a second run deletes nothing"
    assert plan_cleanup(order.sample(rows, len(rows)), listed, children_of) == found, "input order is irrelevant"
