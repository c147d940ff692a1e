"""An assignment run on real tables: who lives, who has gone, and what is written."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kcl_core.assignment.assign_leases import AssignLeases
from kcl_core.assignment.observations import Observations, dump, load
from kcl_core.clock import SystemClock
from kcl_core.config import KclConfig, load_config
from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.metrics.model import WorkerMetrics
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FAILOVER = 10.0


@pytest.fixture
def config(application_name: str) -> KclConfig:
    return load_config(None, application_name=application_name, stream_name="stream")


@pytest.fixture
def tables(dynamodb: "DynamoDBClient", config: KclConfig) -> Iterator[ApplicationTables]:
    made = ApplicationTables(config, dynamodb)
    created = made.create(SystemClock(), "test")
    yield made
    for name in created:
        dynamodb.delete_table(TableName=name)


def report(tables: ApplicationTables, clock: VirtualClock, *workers: str) -> None:
    for worker in workers:
        tables.worker_metrics.write(WorkerMetrics(worker_id=worker, last_update=int(clock.wall().timestamp())))


def add(leases: LeaseTable, count: int, owner: str | None = None) -> None:
    for number in range(count):
        key = f"{owner or 'free'}-{number}"
        assert leases.create(
            Lease(lease_key=key, lease_owner=owner, checkpoint=ExtendedSequenceNumber.TRIM_HORIZON, lease_counter=5)
        )


def owners(leases: LeaseTable) -> dict[str, str | None]:
    return {lease.lease_key: lease.lease_owner for lease in leases.scan().leases}


def renew(leases: LeaseTable, owner: str) -> None:
    for lease in leases.scan().leases:
        if lease.lease_owner == owner:
            assert not isinstance(leases.renew(lease), Refused)


def test_new_leases_are_shared_out_among_those_who_report(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "w1", "w2")
    add(tables.leases, 4)
    AssignLeases(tables.leases, tables.worker_metrics, clock, config).run_once()
    given = list(owners(tables.leases).values())
    assert sorted(given, key=str) == ["w1", "w1", "w2", "w2"]


def test_nothing_is_given_to_nobody(tables: ApplicationTables, config: KclConfig) -> None:
    add(tables.leases, 2)
    done = AssignLeases(tables.leases, tables.worker_metrics, VirtualClock(), config).run_once()
    assert (done.moved, len(done.plan.unplaced)) == ((), 2)


def test_leases_of_a_silent_worker_move_after_the_failover_time_and_not_before(
    tables: ApplicationTables, config: KclConfig
) -> None:
    clock = VirtualClock()
    report(tables, clock, "survivor")
    add(tables.leases, 2, "dead")
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    assert assignment.run_once().moved == ()
    clock.advance(FAILOVER)
    assert assignment.run_once().moved == ()
    clock.advance(0.1)
    assert len(assignment.run_once().moved) == 2
    assert set(owners(tables.leases).values()) == {"survivor"}


def test_a_renewed_lease_never_expires(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "other")
    add(tables.leases, 1, "alive")
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    for _ in range(5):
        assert assignment.run_once().moved == ()
        renew(tables.leases, "alive")
        clock.advance(FAILOVER - 1)


def test_leases_of_a_worker_that_is_known_to_have_ended_move_at_once(
    tables: ApplicationTables, config: KclConfig
) -> None:
    """Though its metrics row is fresh, it gets nothing."""
    clock = VirtualClock()
    report(tables, clock, "killed", "survivor")
    add(tables.leases, 3, "killed")
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    look = assignment.look(Observations(), balance=False, ended=["killed"])
    assert {move.reason.split(";")[0] for move in look.plan.moves} == {"killed has ended"}
    assert [(each.worker_id, each.reason) for each in look.fleet.bystanders] == [("killed", "has ended")]
    assignment.apply(look)
    assert set(owners(tables.leases).values()) == {"survivor"}


def test_what_was_seen_survives_the_process(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "survivor")
    add(tables.leases, 1, "dead")
    first = AssignLeases(tables.leases, tables.worker_metrics, clock, config).look(Observations(), balance=True)
    clock.advance(FAILOVER + 0.1)
    second = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    assert second.look(Observations(), balance=True).plan.moves == ()
    assert len(second.look(load(dump(first.seen)), balance=True).plan.moves) == 1


def test_a_worker_that_stopped_reporting_is_given_nothing(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "stopped")
    clock.advance(61)
    report(tables, clock, "alive")
    add(tables.leases, 3)
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    look = assignment.look(Observations(), balance=True)
    assert {move.target for move in look.plan.moves} == {"alive"}
    assert [each.worker_id for each in look.fleet.bystanders] == ["stopped"]


def test_live_owners_are_asked_to_hand_over(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "busy", "idle")
    add(tables.leases, 4, "busy")
    for lease in tables.leases.scan().leases:
        tables.leases.renew(lease, throughput_kbps=10.0)
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    done = assignment.run_once()
    assert [(move.kind, move.source, move.target) for move in done.moved] == [("handoff", "busy", "idle")]
    (moving,) = (lease for lease in tables.leases.scan().leases if lease.checkpoint_owner)
    assert (moving.lease_owner, moving.checkpoint_owner, moving.lease_counter) == ("idle", "busy", 6)


def test_a_handoff_has_its_time_and_then_the_lease_may_be_taken(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "idle")
    add(tables.leases, 1, "gone")
    lease = tables.leases.get("gone-0")
    assert lease is not None
    tables.leases.initiate_graceful_handoff(lease, "idle")
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    assert assignment.run_once().moved == ()
    clock.advance(FAILOVER + 0.1)
    report(tables, clock, "idle")
    (move,) = assignment.run_once().moved
    assert (move.kind, move.target) == ("assign", "idle")
    row = tables.leases.get("gone-0")
    assert row is not None
    assert (row.lease_owner, row.checkpoint_owner) == ("idle", None)


def test_a_lease_that_changed_since_the_look_is_not_touched(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "w1")
    add(tables.leases, 1)
    assignment = AssignLeases(tables.leases, tables.worker_metrics, clock, config)
    look = assignment.look(Observations(), balance=True)
    (free,) = tables.leases.scan().leases
    tables.leases.assign(free, "faster")
    done = assignment.apply(look)
    assert (done.moved, [move.lease_key for move in done.refused]) == ((), ["free-0"])
    assert owners(tables.leases) == {"free-0": "faster"}


def test_rows_of_workers_that_ended_long_ago_are_deleted(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    report(tables, clock, "ancient")
    clock.advance(timedelta(days=1, seconds=1).total_seconds())
    report(tables, clock, "alive")
    done = AssignLeases(tables.leases, tables.worker_metrics, clock, config).run_once()
    assert done.forgotten == ("ancient",)
    assert [row.worker_id for row in tables.worker_metrics.scan().workers] == ["alive"]


def test_the_strategy_by_number_of_leases_can_be_chosen(tables: ApplicationTables, config: KclConfig) -> None:
    clock = VirtualClock()
    by_count = config.model_copy(
        update={"leases": config.leases.model_copy(update={"lease_assignment_strategy": "LEASE_COUNT_BASED"})}
    )
    tables.worker_metrics.write(
        WorkerMetrics(
            worker_id="hot", last_update=int(clock.wall().timestamp()), values={"C": (90.0,)}, operating_range={"C": 80}
        )
    )
    report(tables, clock, "cool")
    add(tables.leases, 1, "cool")
    add(tables.leases, 1)
    AssignLeases(tables.leases, tables.worker_metrics, clock, by_count).run_once()
    assert owners(tables.leases)["free-0"] == "hot"
