"""What can be seen of the running demo from outside: leases, table, and Dagster's runs and materializations."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kcl_core.coordinator.tables import ApplicationTables
from kcl_core.errors import TableMissingError
from kcl_core.leases.model import Lease
from kcl_dagster.demo.dagster_services import DagsterServices
from kcl_dagster.settings import Settings

RUNS = """
query { runsOrError(limit: 200) { __typename ... on Runs {
  results { runId jobName status startTime endTime tags { key value } } } } }
"""
MATERIALIZATIONS = """
query ($key: AssetKeyInput!) { assetOrError(assetKey: $key) { __typename ... on Asset {
  assetMaterializations(limit: 500) { runId partition timestamp } } } }
"""


@dataclass(frozen=True, slots=True)
class SeenRun:
    """One Dagster run.

    Attributes:
        status: Dagster's, such as STARTED or SUCCESS.
        started: aware UTC; None before it started.
    """

    run_id: str
    job_name: str
    status: str
    started: datetime | None
    tags: dict[str, str]


class Observer:
    """Questions to the running system; writes nothing."""

    def __init__(self, settings: Settings, dagster: DagsterServices) -> None:
        self._tables = ApplicationTables(settings.kcl, settings.kcl.aws.dynamodb())
        self._dagster = dagster

    def leases(self) -> tuple[Lease, ...]:
        """Return the rows of the lease table, by key; empty while there is none."""
        try:
            rows = self._tables.leases.scan().leases
        except TableMissingError:
            return ()
        return tuple(sorted(rows, key=lambda lease: lease.lease_key))

    def runs(self) -> tuple[SeenRun, ...]:
        """Return Dagster's runs, oldest first."""
        results = self._dagster.ask(RUNS)["runsOrError"]["results"]
        return tuple(
            SeenRun(
                run["runId"],
                run["jobName"],
                run["status"],
                datetime.fromtimestamp(run["startTime"], UTC) if run["startTime"] else None,
                {tag["key"]: tag["value"] for tag in run["tags"]},
            )
            for run in reversed(results)
        )

    def materialized(self, asset_key: list[str]) -> frozenset[str]:
        """Return the partitions of an asset that were materialized."""
        asset = self._dagster.ask(MATERIALIZATIONS, key={"path": asset_key})["assetOrError"]
        return frozenset(event["partition"] for event in asset.get("assetMaterializations", ()) if event["partition"])
