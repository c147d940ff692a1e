"""The leader's duties as Dagster jobs: shard sync, lease cleanup, rebalance."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field

from kcl_core.assignment.assign_leases import AssignmentReport
from kcl_core.assignment.observations import load
from kcl_core.coordinator.duties import NotLeading, run_as_leader
from kcl_core.election import evidence
from kcl_core.election.lock import LockSighting
from kcl_dagster.names import ROLE_TAG
from kcl_dagster.resources import KclApplication
from kcl_dagster.workers import ended_workers

Report = TypeVar("Report")

# Two duty runs of one application exclude each other by the leader lock; the later one waits this long.
PATIENCE = timedelta(seconds=20)


@dg.op(description="Creates the tables and the leases that are missing for the stream's shards.")
def sync_shards(context: dg.OpExecutionContext, application: KclApplication) -> None:
    """Compare ListShards with the lease table, under the leader's lock, and create what is missing."""
    application.tables().create(application.clock(), _candidate(context))
    report = _as_leader(context, application, application.sync_shards().run_once)
    if report is None:
        return
    reasons = {entry.lease.lease_key: entry.reason for entry in report.plan.entries}
    for lease_key in report.created:
        context.log.info("created the lease of %s: %s", lease_key, reasons[lease_key])
    if report.audit is not None and report.audit.confirmed:
        context.log.warning("hash keys without a lease: %s", report.audit.reason)
    _put_metadata(context, {"leases created": list(report.created), "already there": list(report.existing)})


@dg.op(description="Deletes the leases of finished shards whose children are being read.")
def clean_up_leases(context: dg.OpExecutionContext, application: KclApplication) -> None:
    """Delete the leases that nobody needs any more, under the leader's lock."""
    report = _as_leader(context, application, application.clean_up_leases().run_once)
    if report is None:
        return
    reasons = {deletion.lease.lease_key: deletion.reason for deletion in report.plan.deletions}
    for lease_key in report.deleted:
        context.log.info("deleted the lease of %s: %s", lease_key, reasons[lease_key])
    _put_metadata(context, {"leases deleted": list(report.deleted)})


class RebalanceConfig(dg.Config):
    """What the sensor hands to the run that it requests."""

    observations: str = Field(
        default="", description="since when each lease counter stands still, as the sensor saw it"
    )
    leader: str = Field(default="", description="since when the leader's lock stands still, as the sensor saw it")
    balance: bool = Field(default=True, description="whether to even out load, beside placing leases without an owner")


@dg.op(description="Gives leases without a live owner to live workers, and evens out the load.")
def assign_leases(context: dg.OpExecutionContext, application: KclApplication, config: RebalanceConfig) -> None:
    """Plan again on fresh rows with the sensor's observations, under the leader's lock, and carry the plan out."""
    assignment = application.assign_leases()
    seen, ended = load(config.observations), ended_workers(context.instance)

    def duty() -> AssignmentReport:
        return assignment.apply(assignment.look(seen, balance=config.balance, ended=ended))

    report = _as_leader(context, application, duty, evidence.load(config.leader))
    if report is None:
        return
    for move in report.moved:
        context.log.info("%s: %s -> %s (%s)", move.lease_key, move.source or "nobody", move.target, move.reason)
    _put_metadata(context, {"leases moved": len(report.moved), "refused": len(report.refused)})


def _as_leader(
    context: dg.OpExecutionContext,
    application: KclApplication,
    duty: Callable[[], Report],
    seen: LockSighting | None = None,
) -> Report | None:
    """Run ``duty`` under the leader's lock; None, and a clear line in the log, if somebody else leads."""
    outcome = run_as_leader(
        application.election(_candidate(context), seen), application.clock(), duty, patience=PATIENCE
    )
    if isinstance(outcome, NotLeading):
        context.log.info("nothing done: %s leads and sees to this", outcome.leader or "nobody")
        _put_metadata(context, {"leader": outcome.leader or "nobody"})
        return None
    return outcome


def _candidate(context: dg.OpExecutionContext) -> str:
    return f"dagster-{context.run_id[:8]}"


def _put_metadata(context: dg.OpExecutionContext, metadata: Mapping[str, Any]) -> None:
    context.add_output_metadata(metadata)


def _duty_job(name: str, op: dg.OpDefinition, description: str) -> dg.JobDefinition:
    return dg.GraphDefinition(name=name, node_defs=[op]).to_job(
        executor_def=dg.in_process_executor, description=description, tags={ROLE_TAG: "leader"}
    )


shard_sync_job = _duty_job("shard_sync", sync_shards, "Creates the leases that the stream's shards lack.")
lease_cleanup_job = _duty_job("lease_cleanup", clean_up_leases, "Deletes the leases of finished shards.")
rebalance_job = _duty_job("rebalance", assign_leases, "Moves leases to live workers, and evens out the load.")
