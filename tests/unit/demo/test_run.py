"""Whom the demo may kill: a worker that reads."""

import os
from datetime import UTC, datetime

from kcl_core.leases.identity import new_worker_id
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_dagster.demo.run import leases_being_read, process_of
from kcl_dagster.spark.commit_log import CommitNote, CommittedRange, TableCommit

POSITION = ExtendedSequenceNumber("1")


def commit(worker_id: str, **rows: int) -> TableCommit:
    ranges = tuple(
        CommittedRange(lease_key=key, shard_id=key, number=1, start=POSITION, end=POSITION, rows=count)
        for key, count in rows.items()
    )
    return TableCommit(1, datetime(2026, 1, 1, tzinfo=UTC), "WRITE", CommitNote(worker_id, "f", ranges))


def lease(key: str, owner: str | None, *, finished: bool = False) -> Lease:
    return Lease(
        lease_key=key, lease_owner=owner, checkpoint=ExtendedSequenceNumber.SHARD_END if finished else POSITION
    )


def test_a_lease_is_being_read_if_its_owner_was_the_last_to_commit_of_it() -> None:
    leases = [lease("s0", "a"), lease("s1", "b"), lease("s2", "b"), lease("s3", "b"), lease("s4", None)]
    history = [commit("b", s0=5, s2=1), commit("a", s0=1, s1=9), commit("b", s1=1, s4=3)]
    assert leases_being_read(leases, history) == {"a": ["s0"], "b": ["s1", "s2"]}


def test_who_only_took_a_lease_over_or_committed_no_row_or_is_done_does_not_read() -> None:
    taken, idle, done = lease("s0", "new"), lease("s1", "a"), lease("s2", "a", finished=True)
    assert leases_being_read([taken, idle, done], [commit("old", s0=5), commit("a", s1=0, s2=7)]) == {}


def test_commits_that_no_worker_made_are_passed_over() -> None:
    compaction = TableCommit(2, datetime(2026, 1, 1, tzinfo=UTC), "OPTIMIZE", None)
    assert leases_being_read([lease("s0", "a")], [commit("a", s0=1), compaction]) == {"a": ["s0"]}


def test_the_process_of_a_worker_is_found_in_the_id_that_it_gives_itself() -> None:
    assert process_of(new_worker_id()) == os.getpid()
    assert process_of(new_worker_id("a-host-7-with-numbers")) == os.getpid()
