"""Rows of worker metrics in DynamoDB, in KCL 3's format."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcl_core.dynamodb.location import ENTITY_TYPE, TableLocation
from kcl_core.dynamodb.scans import scan
from kcl_core.dynamodb.writes import Changes, ConditionFailed, Value, delete_item, update_item
from kcl_core.errors import InvariantViolatedError
from kcl_core.metrics.model import WorkerMetrics

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_LAST_UPDATE, _VALUES, _RANGE = "lut", "sts", "opr"


@dataclass(frozen=True, slots=True)
class BrokenMetrics:
    """A row that cannot be read, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerMetricsScan:
    """All rows.

    Attributes:
        workers: sorted by worker id.
        broken: rows that cannot be read.
    """

    workers: tuple[WorkerMetrics, ...]
    broken: tuple[BrokenMetrics, ...] = ()


class WorkerMetricsTable:
    """The workers' rows of one application. Knows DynamoDB; decides nothing.

    Every method raises `TableThrottledError` and `EndpointUnavailableError` (retry), `TableMissingError` and
    `AccessDeniedError`.
    """

    def __init__(self, client: "DynamoDBClient", location: TableLocation) -> None:
        self._client = client
        self._location = location

    def write(self, metrics: WorkerMetrics) -> None:
        """Write the worker's own row, whatever was there; attributes of other versions stay."""
        attributes: dict[str, Value] = {
            # Tells KCL 3.5 what the row is; older versions ignore it.
            ENTITY_TYPE: {"S": "WORKER_METRIC_STATS"},
            _LAST_UPDATE: {"N": str(metrics.last_update)},
            _VALUES: {"M": {name: _numbers(values) for name, values in metrics.values.items()}},
            _RANGE: {"M": {name: _numbers((limit,)) for name, limit in metrics.operating_range.items()}},
        }
        outcome = update_item(self._client, self._location, metrics.worker_id, Changes(set=attributes), {})
        if isinstance(outcome, ConditionFailed):
            raise InvariantViolatedError("an update without a condition is not refused", worker_id=metrics.worker_id)

    def scan(self) -> WorkerMetricsScan:
        """Return all rows, one moment old at most per page."""
        workers: list[WorkerMetrics] = []
        broken: list[BrokenMetrics] = []
        for item in scan(self._client, self._location):
            if not self._location.holds(item):
                continue
            key = item[self._location.key_attribute]["S"]
            try:
                workers.append(_decode(key, item))
            except (KeyError, ValueError, IndexError, TypeError) as error:
                broken.append(BrokenMetrics(key, f"{type(error).__name__}: {error}"))
        return WorkerMetricsScan(tuple(sorted(workers, key=lambda row: row.worker_id)), tuple(broken))

    def delete(self, metrics: WorkerMetrics) -> bool:
        """Delete the row if it was not updated since; False if it was, or is gone."""
        expected = {
            **self._location.key(metrics.worker_id),
            _LAST_UPDATE: {"N": str(metrics.last_update)},
        }
        return not isinstance(delete_item(self._client, self._location, metrics.worker_id, expected), ConditionFailed)


def _numbers(values: tuple[float, ...]) -> dict[str, Any]:
    return {"L": [{"N": f"{value:.6f}".rstrip("0").rstrip(".")} for value in values]}


def _decode(worker_id: str, item: Mapping[str, Any]) -> WorkerMetrics:
    values = item.get(_VALUES, {"M": {}})["M"]
    ranges = item.get(_RANGE, {"M": {}})["M"]
    return WorkerMetrics(
        worker_id=worker_id,
        last_update=int(item[_LAST_UPDATE]["N"]),
        values={name: tuple(float(number["N"]) for number in listed["L"]) for name, listed in values.items()},
        # Java writes exactly one number; an empty list makes the row unusable, not broken.
        operating_range={
            name: int(float(listed["L"][0]["N"])) if listed["L"] else 0 for name, listed in ranges.items()
        },
    )
