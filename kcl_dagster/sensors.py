"""Dry plans: a run is requested only when there is something to do, else the reason is shown."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from kcl_core.assignment.observations import dump, load
from kcl_core.election import evidence
from kcl_core.errors import KclError, TableMissingError
from kcl_dagster.fleet import SlotRun, plan_fleet
from kcl_dagster.jobs import rebalance_job, shard_sync_job
from kcl_dagster.names import REASON_TAG, SLOT_TAG, raw_table_key
from kcl_dagster.resources import KclApplication
from kcl_dagster.workers import ended_workers, worker_job

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
MOST_WINDOWS_PER_TICK = 25
MOST_FAILURES_LOOKED_AT = 8
LONGEST_TAG = 250


def build_sensors(interval_seconds: int, downstream: Sequence[dg.AssetsDefinition]) -> list[dg.SensorDefinition]:
    """Return the sensors of one application.

    Args:
        interval_seconds: shortest pause between two looks of a sensor.
        downstream: assets to run on each closed window of the raw table.
    """

    def running(look: Callable[..., dg.SensorResult], name: str, job: Any, purpose: str) -> dg.SensorDefinition:
        return dg.sensor(
            name=name,
            job=job,  # of any kind: Dagster does not export the type of asset jobs
            minimum_interval_seconds=interval_seconds,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=purpose,
        )(look)

    sensors = [
        running(
            look_for_missing_leases,
            "shard_sync_sensor",
            shard_sync_job,
            "Asks for shard sync when a shard lacks a lease.",
        ),
        running(look_for_moves, "rebalance_sensor", rebalance_job, "Asks for a rebalance when a lease should move."),
        running(look_for_empty_places, "fleet_sensor", worker_job, "Keeps the wanted number of workers running."),
    ]
    if downstream:
        keys = [key for asset in downstream for key in asset.keys]

        def look_for_closed(context: dg.SensorEvaluationContext, application: KclApplication) -> dg.SensorResult:
            return look_for_closed_windows(context, application, keys)

        purpose = "Runs what depends on the raw table, on each closed window."
        job = dg.define_asset_job("closed_window", dg.AssetSelection.assets(*keys), description=purpose)
        sensors.append(running(look_for_closed, "closed_window_sensor", job, purpose))
    return sensors


def look_for_missing_leases(context: dg.SensorEvaluationContext, application: KclApplication) -> dg.SensorResult:
    """Request `shard_sync` when its plan is not empty."""
    if _is_under_way(context, shard_sync_job.name):
        return dg.SensorResult(skip_reason="a shard sync run is under way")
    try:
        plan = application.sync_shards().look()
    except TableMissingError as error:
        return _request_run({REASON_TAG: f"table {error.table} is to be created"})
    except KclError as error:
        return _skip_or_raise(error)
    if plan.problem is not None:
        return dg.SensorResult(skip_reason=str(plan.problem))
    if not plan:
        return dg.SensorResult(skip_reason=f"every shard that needs a lease has one: {plan.leased} leases")
    reasons = [f"{entry.lease.lease_key}: {entry.reason}" for entry in plan.entries]
    reasons += [f"{row.lease_key}: {row.reason}" for row in plan.ranges]
    return _request_run({"kcl/leases": str(len(plan)), REASON_TAG: _tag(reasons[0])})


def look_for_moves(context: dg.SensorEvaluationContext, application: KclApplication) -> dg.SensorResult:
    """Request `rebalance` when its plan is not empty.

    The cursor carries since when each lease counter, and the leader's lock, stand still: a restarted daemon does not
    start waiting anew, and a run need not wait out the lock of a leader that has died.
    """
    if _is_under_way(context, rebalance_job.name):
        return dg.SensorResult(skip_reason="a rebalance run is under way", cursor=context.cursor)
    cursor: dict[str, Any] = json.loads(context.cursor) if context.cursor else {"turn": 0, "seen": "", "leader": ""}
    balance = cursor["turn"] % application.config().assignment.variance_balancing_frequency == 0
    try:
        ended = ended_workers(context.instance)
        look = application.assign_leases().look(load(cursor["seen"]), balance=balance, ended=ended)
        leader = evidence.dump(application.election("sensor", evidence.load(cursor["leader"])).watch())
    except TableMissingError as error:
        return dg.SensorResult(skip_reason=f"table {error.table} does not exist yet", cursor=context.cursor)
    except KclError as error:
        return _skip_or_raise(error, cursor=context.cursor)
    seen = dump(look.seen)
    remembered = json.dumps({"turn": cursor["turn"] + 1, "seen": seen, "leader": leader})
    if not look.plan.moves:
        workers, leases = len(look.fleet.workers), len(look.fleet.leases)
        return dg.SensorResult(skip_reason=f"nothing to move: {leases} leases, {workers} workers", cursor=remembered)
    first = look.plan.moves[0]
    values = {"observations": seen, "leader": leader, "balance": balance}
    config = dg.RunConfig(ops={"assign_leases": {"config": values}})
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                run_config=config,
                tags={
                    "kcl/moves": str(len(look.plan.moves)),
                    REASON_TAG: _tag(f"{first.lease_key}: {first.reason}"),
                },
            )
        ],
        cursor=remembered,
    )


def look_for_empty_places(context: dg.SensorEvaluationContext, application: KclApplication) -> dg.SensorResult:
    """Request a worker run for each place in the fleet that has none."""
    wanted = application.pipeline().workers
    newest = [run for slot in range(wanted) if (run := _newest_run_of(context.instance, slot)) is not None]
    plan = plan_fleet(wanted, newest, application.clock().wall())
    if not plan.starts:
        reason = "; ".join(plan.waiting) or f"all {wanted} workers are there"
        return dg.SensorResult(skip_reason=reason)
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(run_key=start.run_key, tags={SLOT_TAG: str(start.slot), REASON_TAG: _tag(start.reason)})
            for start in plan.starts
        ]
    )


def look_for_closed_windows(
    context: dg.SensorEvaluationContext, application: KclApplication, assets: Sequence[dg.AssetKey]
) -> dg.SensorResult:
    """Request a run of ``assets`` for each window that every shard has passed since the last look.

    The cursor is the partition key of the newest closed window. Windows before the first partition are passed over:
    Dagster refuses a request for a partition that it does not know, and all others of the tick with it.
    """
    grid = application.pipeline().grid
    first = grid.window_at(application.pipeline().first_window)
    after = grid.window_of_key(context.cursor) if context.cursor else None
    try:
        look = application.closed_windows().look(after, limit=MOST_WINDOWS_PER_TICK)
    except TableMissingError as error:
        return dg.SensorResult(skip_reason=f"table {error.table} does not exist yet", cursor=context.cursor)
    except KclError as error:
        return _skip_or_raise(error, cursor=context.cursor)
    cursor = look.last.partition_key if look.last else None
    windows = [closed for closed in look.windows if closed.window >= first]
    if not windows:
        passed = f"; what they hold is from before first_window, {first.partition_key}" if look.windows else ""
        return dg.SensorResult(skip_reason=f"{look.reason}{passed}", cursor=cursor)
    raw = raw_table_key(application.config().stream_name)
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                run_key=f"closed-{closed.window.partition_key}",
                partition_key=closed.window.partition_key,
                asset_selection=list(assets),
                tags={REASON_TAG: f"every shard has passed the end of window {closed.window.partition_key}"},
            )
            for closed in windows
        ],
        asset_events=[
            dg.AssetObservation(
                raw,
                partition=closed.window.partition_key,
                metadata={
                    "kcl/window": "closed",
                    "dagster/partition_row_count": closed.rows,
                    "kcl/table version": look.version,
                },
            )
            for closed in windows
        ],
        cursor=cursor,
    )


def _newest_run_of(instance: dg.DagsterInstance, slot: int) -> SlotRun | None:
    """Return the newest run of a place, with its failures in a row, newest first."""
    records = instance.get_run_records(
        dg.RunsFilter(job_name=worker_job.name, tags={SLOT_TAG: str(slot)}), limit=MOST_FAILURES_LOOKED_AT
    )
    if not records:
        return None
    failures = 0
    for record in records:
        if record.dagster_run.status is not dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
    newest = records[0]
    ended = None
    if newest.dagster_run.status not in UNFINISHED:
        ended = datetime.fromtimestamp(newest.end_time, tz=newest.update_timestamp.tzinfo) if newest.end_time else None
        ended = ended or newest.update_timestamp
    return SlotRun(slot, newest.dagster_run.run_id, ended, failures)


def _is_under_way(context: dg.SensorEvaluationContext, job_name: str) -> bool:
    return bool(context.instance.get_runs(dg.RunsFilter(job_name=job_name, statuses=UNFINISHED), limit=1))


def _request_run(tags: dict[str, str]) -> dg.SensorResult:
    return dg.SensorResult(run_requests=[dg.RunRequest(tags=tags)])


def _skip_or_raise(error: KclError, cursor: str | None = None) -> dg.SensorResult:
    """Turn what time may mend into a skip with its reason; raise the rest as the tick's error."""
    if not error.retryable:
        raise error
    return dg.SensorResult(skip_reason=str(error), cursor=cursor)


def _tag(text: str) -> str:
    """Shorten ``text`` to what a run tag may hold."""
    return text if len(text) <= LONGEST_TAG else f"{text[: LONGEST_TAG - 3]}..."
