"""A leader that looks again and again on real tables: KCL's vectors, and the life of a fleet."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kcl_core.assignment.assign_leases import AssignLeases
from kcl_core.clock import SystemClock
from kcl_core.config import KclConfig, load_config
from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import Refused
from kcl_core.metrics.model import WorkerMetrics
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FAILOVER = 10.0
Y, T = ((90.0, 90.0), 80), ((50.0, 50.0), 80)


class Scene:
    """An application's tables, its leader, and what its workers do."""

    def __init__(self, application_name: str, dynamodb: "DynamoDBClient", **assignment: Any) -> None:
        leases = {"lease_assignment_strategy": assignment.pop("strategy", "WORKER_UTILIZATION_AWARE")}
        leases |= {"failover_time_millis": 10_000}
        handoff = {"is_graceful_lease_handoff_enabled": assignment.pop("graceful", False)}
        self.config: KclConfig = load_config(
            None,
            application_name=application_name,
            stream_name="stream",
            leases=leases,
            handoff=handoff,
            assignment={"dampening_percentage": 80, **assignment},
        )
        self.clock = VirtualClock()
        self.tables = ApplicationTables(self.config, dynamodb)
        self.created = self.tables.create(SystemClock(), "test")
        self.leader = self.new_leader()

    def new_leader(self) -> AssignLeases:
        return AssignLeases(self.tables.leases, self.tables.worker_metrics, self.clock, self.config)

    def report(self, worker: str, metric: tuple[tuple[float, ...], int] | None = None) -> None:
        values, limit = metric or ((), 0)
        self.tables.worker_metrics.write(
            WorkerMetrics(
                worker_id=worker,
                last_update=int(self.clock.wall().timestamp()),
                values={"C": values} if values else {},
                operating_range={"C": limit} if values else {},
            )
        )

    def add(self, *leases: str) -> None:
        """Create leases from ``key:owner:KiB/s``, with ``-`` for none."""
        for text in leases:
            key, owner, throughput = text.split(":")
            row = Lease(
                lease_key=key,
                lease_owner=None if owner == "-" else owner,
                checkpoint=ExtendedSequenceNumber.TRIM_HORIZON,
                lease_counter=1,
                throughput_kbps=None if throughput == "-" else float(throughput),
            )
            assert self.tables.leases.create(row)

    def renew(self, *workers: str) -> None:
        """Renew what the workers own, as their renewal threads do every few seconds."""
        for lease in self.tables.leases.scan().leases:
            if lease.actual_owner in workers:
                assert not isinstance(self.tables.leases.renew(lease), Refused)

    def owners(self) -> dict[str, str | None]:
        return {lease.lease_key: lease.actual_owner for lease in self.tables.leases.scan().leases}

    def shares(self) -> Counter[str | None]:
        return Counter(self.owners().values())


@pytest.fixture
def scenes(application_name: str, dynamodb: "DynamoDBClient") -> "Iterator[Any]":
    made: list[Scene] = []

    def make(**assignment: Any) -> Scene:
        made.append(Scene(application_name, dynamodb, **assignment))
        return made[-1]

    yield make
    for scene in made:
        for name in scene.created:
            dynamodb.delete_table(TableName=name)


def test_g12_the_load_is_balanced_at_every_third_run(scenes: Any) -> None:
    scene: Scene = scenes(re_balance_threshold_percentage=10)
    moved = []
    for _ in range(5):
        for lease in scene.tables.leases.scan().leases:
            assert scene.tables.leases.delete(lease)
        scene.add("l1:Y1:10", "l2:Y1:1000", "l3:Y2:10", "l4:Y2:1000", "l5:T:10")
        for worker, metric in (("Y1", Y), ("Y2", Y), ("T", T)):
            scene.report(worker, metric)
        moved.append({move.lease_key for move in scene.leader.run_once().moved})
    assert moved == [{"l1", "l3"}, set(), set(), {"l1", "l3"}, set()]


def test_g16_a_lease_in_a_handoff_is_left_alone_until_its_time_is_over(scenes: Any) -> None:
    scene: Scene = scenes(re_balance_threshold_percentage=20, graceful=True, variance_balancing_frequency=1)
    scene.add("l1:Y:5", "l2:Y:30")
    scene.report("Y", Y)
    scene.report("T", T)
    (move,) = scene.leader.run_once().moved
    row = scene.tables.leases.get("l1")
    assert row is not None
    assert (move.kind, row.lease_owner, row.checkpoint_owner) == ("handoff", "T", "Y")
    for _ in range(4):
        scene.clock.advance(9)
        scene.renew("Y")
        scene.report("Y", Y)
        scene.report("T", T)
        assert "l1" not in {each.lease_key for each in scene.leader.run_once().moved}
    assert scene.tables.leases.get("l1") is not None
    # The owner of l1 stops renewing it; l2 it still renews.
    for _ in range(3):
        scene.clock.advance(9)
        l2 = scene.tables.leases.get("l2")
        assert l2 is not None
        scene.tables.leases.renew(l2)
        scene.report("Y", Y)
        scene.report("T", T)
        scene.leader.run_once()
    assert all(lease.checkpoint_owner is None for lease in scene.tables.leases.scan().leases)


def test_g17_a_handoff_left_by_the_dead_goes_to_the_first_worker_that_comes(scenes: Any) -> None:
    scene: Scene = scenes(graceful=True)
    scene.add("a:former:10")
    row = scene.tables.leases.get("a")
    assert row is not None
    scene.tables.leases.initiate_graceful_handoff(row, "next")
    assert scene.leader.run_once().moved == ()
    scene.clock.advance(FAILOVER + 0.01)
    scene.report("T", T)
    assert [(move.kind, move.target) for move in scene.leader.run_once().moved] == [("assign", "T")]


def test_g21_g22_a_new_leader_places_what_has_no_owner_and_waits_for_the_rest(scenes: Any) -> None:
    scene: Scene = scenes()
    scene.add("new:-:-", "lease-1:someOwner:10")
    scene.report("T", T)
    assert scene.leader.run_once().moved[0].lease_key == "new"
    assert scene.owners() == {"new": "T", "lease-1": "someOwner"}
    scene.clock.advance(FAILOVER + 0.01)
    scene.renew("T")
    scene.leader.run_once()
    assert scene.owners() == {"new": "T", "lease-1": "T"}


def test_g21_a_worker_beyond_its_throughput_is_given_no_more(scenes: Any) -> None:
    scene: Scene = scenes(max_throughput_per_host_kbps=9)
    scene.add("expired:random-owner:10")
    scene.report("T", T)
    scene.leader.run_once()
    scene.add("new:-:-")
    scene.clock.advance(FAILOVER + 0.01)
    done = scene.leader.run_once()
    assert scene.owners() == {"new": "T", "expired": "random-owner"}
    assert [left.lease_key for left in done.plan.unplaced] == ["expired"]


def test_g23_a_row_that_is_no_lease_stops_nothing(scenes: Any, dynamodb: "DynamoDBClient") -> None:
    scene: Scene = scenes()
    dynamodb.put_item(TableName=scene.config.application_name, Item={"leaseKey": {"S": "bad"}})
    scene.add("valid:-:-")
    scene.report("T", T)
    scene.leader.run_once()
    assert scene.owners() == {"valid": "T"}


@pytest.mark.parametrize(
    ("name", "strategy", "expected"),
    [("G24", "WORKER_UTILIZATION_AWARE", "T"), ("G25", "LEASE_COUNT_BASED", "Y")],
)
def test_vectors_of_the_strategies(scenes: Any, name: str, strategy: str, expected: str) -> None:
    assert name
    scene: Scene = scenes(strategy=strategy)
    scene.add("held:T:10", "newLease:-:-")
    scene.report("Y", Y)
    scene.report("T", T)
    scene.leader.run_once()
    assert scene.owners()["newLease"] == expected


@pytest.mark.parametrize("dead", ["a-dead", "z-dead"])
@pytest.mark.parametrize("graceful", [True, False])
@pytest.mark.parametrize("strategy", ["WORKER_UTILIZATION_AWARE", "LEASE_COUNT_BASED"])
def test_a_dead_workers_leases_move_to_the_survivors_and_it_is_given_none(
    scenes: Any, dead: str, graceful: bool, strategy: str
) -> None:
    """Nobody tells the leader of the death, and for a minute the dead worker's report is recent."""
    scene: Scene = scenes(graceful=graceful, strategy=strategy)
    scene.add(*(f"{owner}{n}:{owner}:10" for owner in (dead, "w1", "w2") for n in range(4)))
    scene.report(dead)
    held = []
    for _ in range(20):
        scene.report("w1")
        scene.report("w2")
        scene.renew("w1", "w2")
        scene.leader.run_once()
        held.append(scene.shares()[dead])
        scene.clock.advance(5)
    # Looks are 5 s apart, and a live worker needs up to 13.3 s to renew a lease that it was given.
    assert held[:2] == [4, 4]
    assert held[3:] == [0] * 17
    assert scene.shares() == {"w1": 6, "w2": 6}
    assert all(lease.lease_owner != dead for lease in scene.tables.leases.scan().leases)


def test_a_worker_that_was_only_paused_is_given_leases_again_once_it_reports(scenes: Any) -> None:
    scene: Scene = scenes(variance_balancing_frequency=1)
    scene.add(*(f"{owner}{n}:{owner}:10" for owner in ("paused", "w") for n in range(4)))
    for second in range(0, 60, 5):
        scene.report("w")
        if second in {0, 40}:
            scene.report("paused")
        scene.renew("w", *(["paused"] if second >= 40 else []))
        scene.leader.run_once()
        if second == 35:
            assert scene.shares() == {"w": 8}
        scene.clock.advance(5)
    assert scene.shares() == {"w": 4, "paused": 4}


def test_a_lone_worker_keeps_leases_that_it_cannot_renew_for_a_while(scenes: Any) -> None:
    """An outage of the table for its workers must not leave a fleet without owners."""
    scene: Scene = scenes()
    scene.add("a:w:10", "b:w:10")
    for second in range(0, 90, 5):
        if second % 30 == 0:
            scene.report("w")
        if second >= 60:
            scene.renew("w")
        scene.leader.run_once()
        assert scene.owners() == {"a": "w", "b": "w"}
        scene.clock.advance(5)
    scene.add("new:-:-")
    scene.report("w")
    scene.leader.run_once()
    assert scene.owners()["new"] == "w"


def test_a_worker_that_has_just_started_gets_its_fair_share(scenes: Any) -> None:
    """Within a few runs, and then the fleet is at rest."""
    scene: Scene = scenes(variance_balancing_frequency=1)
    scene.add(*(f"a{n}:w1:10" for n in range(6)), *(f"b{n}:w2:10" for n in range(6)))

    def run() -> int:
        for worker in ("w1", "w2", "new"):
            scene.report(worker)
        scene.renew("w1", "w2", "new")
        scene.clock.advance(5)
        return len(scene.leader.run_once().moved)

    assert run() > 0
    for _ in range(5):
        run()
    assert scene.shares() == {"w1": 4, "w2": 4, "new": 4}
    assert [run() for _ in range(3)] == [0, 0, 0]
