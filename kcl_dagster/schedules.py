"""The same jobs by the clock: cleanup, and a safety net under the sensors."""

import dagster as dg

from kcl_dagster.jobs import lease_cleanup_job, rebalance_job, shard_sync_job


def build_schedules(cleanup_cron: str, safety_net_cron: str) -> list[dg.ScheduleDefinition]:
    """Return the schedules of one application.

    Args:
        cleanup_cron: when finished leases are looked for (KCL: every 5 minutes).
        safety_net_cron: when shard sync and rebalance run even though no sensor asked for them.
    """
    return [
        dg.ScheduleDefinition(
            name=f"{job.name}_schedule",
            job=job,
            cron_schedule=cron,
            execution_timezone="UTC",
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=f"{job.description} {why}",
        )
        for job, cron, why in (
            (lease_cleanup_job, cleanup_cron, "Runs by the clock: nothing waits for it."),
            (shard_sync_job, safety_net_cron, "A safety net: normally its sensor asks for it."),
            (rebalance_job, safety_net_cron, "A safety net: normally its sensor asks for it."),
        )
    ]
