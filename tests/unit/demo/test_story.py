"""What the demo tells of what happens: each thing once, as it happens."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.demo.observer import SeenRun
from kcl_dagster.demo.story import Story
from kcl_dagster.names import REASON_TAG, SLOT_TAG


def run(job: str, status: str, **tags: str) -> SeenRun:
    return SeenRun("0123456789abcdef", job, status, None, tags)


def lease(key: str, owner: str | None = None, *, finished: bool = False, parents: tuple[str, ...] = ()) -> Lease:
    position = ExtendedSequenceNumber.SHARD_END if finished else ExtendedSequenceNumber("1")
    return Lease(lease_key=key, lease_owner=owner, checkpoint=position, parent_shard_ids=frozenset(parents))


def test_a_worker_run_is_told_when_it_starts_and_when_it_ends() -> None:
    story, worker = Story(), run("worker", "QUEUED", **{SLOT_TAG: "1", REASON_TAG: "nobody has had this place"})
    assert story.of_runs([worker]) == []
    assert story.of_runs([replace(worker, status="STARTING")]) == []
    assert story.of_runs([replace(worker, status="STARTED")]) == [
        "worker run 01234567 starts in place 1: nobody has had this place"
    ]
    assert story.of_runs([replace(worker, status="CANCELING")]) == []
    assert story.of_runs([replace(worker, status="FAILURE")]) == ["worker run 01234567 in place 1 ended: FAILURE"]


@pytest.mark.parametrize(
    ("job", "status", "reason", "line"),
    [
        ("shard_sync", "SUCCESS", "s1 lacks a lease", "job shard_sync done: s1 lacks a lease"),
        ("shard_sync", "SUCCESS", None, None),
        ("rebalance", "FAILURE", None, "run 01234567 of rebalance failed"),
        ("rebalance", "STARTED", "w1 is silent", None),
        ("lease_cleanup", "CANCELED", None, None),
        ("closed_window", "SUCCESS", "every shard has passed", "downstream asset computed: every shard has passed"),
        ("__ASSET_JOB", "SUCCESS", None, "downstream asset computed"),
    ],
)
def test_other_runs_are_told_when_they_changed_something(
    job: str, status: str, reason: str | None, line: str | None
) -> None:
    tags = {REASON_TAG: reason} if reason else {}
    assert Story().of_runs([run(job, status, **tags)]) == ([line] if line else [])


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["worker", "rebalance", "x"]),
        st.sampled_from(["QUEUED", "STARTED", "SUCCESS", "FAILURE", "CANCELED"]),
    ),
    max_size=5,
)


@given(RUNS)
def test_what_was_told_is_not_told_again(drawn: list[tuple[str, str]]) -> None:
    runs = [replace(run(job, status), run_id=f"run-{n}") for n, (job, status) in enumerate(drawn)]
    story = Story()
    assert len(story.of_runs(runs)) <= len(runs)
    assert story.of_runs(runs) == []


def test_the_life_of_a_lease_is_told() -> None:
    story = Story()
    assert story.of_leases([lease("s0")]) == ["lease of s0 created"]
    assert story.of_leases([lease("s0", "w1")]) == ["lease of s0: nobody -> w1"]
    assert story.of_leases([lease("s0", "w1")]) == []
    assert story.of_leases([lease("s0", "w2")]) == ["lease of s0: w1 -> w2"]
    assert story.of_leases([lease("s0", "w2", finished=True), lease("s1", parents=("s0",))]) == [
        "s0 is read to its end",
        "lease of s1 created, continues s0",
    ]
    assert story.of_leases([lease("s1", parents=("s0",))]) == ["lease of s0 deleted"]
    assert story.of_leases([lease("s0"), lease("s1")]) == ["lease of s0 created"]


def test_a_handoff_is_told_when_the_old_owner_has_let_go() -> None:
    story, offered = Story(), replace(lease("s0", "new"), checkpoint_owner="old")
    story.of_leases([lease("s0", "old")])
    assert story.of_leases([offered]) == []
    assert story.of_leases([replace(offered, checkpoint_owner=None)]) == ["lease of s0: old -> new"]


def test_a_lease_that_is_owned_when_it_is_first_seen_has_its_owner_told() -> None:
    """Between two looks it may have been created, given away and read to its end."""
    assert Story().of_leases([lease("s0", "w1", finished=True)]) == [
        "lease of s0 created",
        "lease of s0: nobody -> w1",
        "s0 is read to its end",
    ]
