"""Rows of worker metrics in DynamoDB, in KCL 3's format."""

from collections.abc import Iterable, Mapping
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

    def __init__(
        self, client: "DynamoDBClient", location: TableLocation, also_read: TableLocation | None = None
    ) -> None:
        """Be the door to the rows at ``location``.

        Args:
            client: for DynamoDB.
            location: where this application's own workers report.
            also_read: where some other workers of a fleet report, while KCL moves it to another table.
        """
        self._client = client
        self._location = location
        self._locations = (location,) if also_read is None else (location, also_read)

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
        """Return all rows, one moment old at most per page; of a worker with two rows the later."""
        workers: list[WorkerMetrics] = []
        broken: list[BrokenMetrics] = []
        for location in self._locations:
            for item in scan(self._client, location):
                if not location.holds(item):
                    continue
                key = item[location.key_attribute]["S"]
                try:
                    workers.append(_decode(key, item))
                except (KeyError, ValueError, IndexError, TypeError) as error:
                    broken.append(BrokenMetrics(key, f"{type(error).__name__}: {error}"))
        return WorkerMetricsScan(_latest_of_each(workers), tuple(broken))

    def delete(self, metrics: WorkerMetrics) -> bool:
        """Delete the row if it was not updated since; False if it was, or is gone."""
        unchanged = {_LAST_UPDATE: {"N": str(metrics.last_update)}}
        for location in self._locations:
            expected = {**location.key(metrics.worker_id), **unchanged}
            if not isinstance(delete_item(self._client, location, metrics.worker_id, expected), ConditionFailed):
                return True
        return False


def _latest_of_each(rows: Iterable[WorkerMetrics]) -> tuple[WorkerMetrics, ...]:
    latest = {row.worker_id: row for row in sorted(rows, key=lambda row: row.last_update)}
    return tuple(latest[worker_id] for worker_id in sorted(latest))


def _numbers(values: tuple[float, ...]) -> dict[str, Any]:
    return {"L": [{"N": f"{value:.6f}".rstrip("0").rstrip(".")} for value in values]}


def _decode(worker_id: str, item: Mapping[str, Any]) -> WorkerMetrics:
    values = item.get(_VALUES, {"M": {}})["M"]
    ranges = item.get(_RANGE, {"M": {}})["M"]
    if ranges and _VALUES not in item:
        # As KCL judges it: ranges beside an empty map of values are fine, ranges without the map are not.
        message = f"{_RANGE!r} without {_VALUES!r}"
        raise ValueError(message)
    return WorkerMetrics(
        worker_id=worker_id,
        last_update=int(item[_LAST_UPDATE]["N"]),
        values={name: tuple(float(number["N"]) for number in listed["L"]) for name, listed in values.items()},
        # Java writes exactly one number; an empty list makes the row unusable, not broken.
        operating_range={
            name: int(float(listed["L"][0]["N"])) if listed["L"] else 0 for name, listed in ranges.items()
        },
    )
