"""Coordinator state: which version of the protocol the fleet speaks."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kcl_core.dynamodb.location import ENTITY_TYPE, Item, TableLocation
from kcl_core.dynamodb.writes import ConditionFailed, get_item, put_item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MIGRATION_KEY = "Migration3.0"
VERSION_3X = "CLIENT_VERSION_3X"
VERSION_3X_WITH_ROLLBACK = "CLIENT_VERSION_3X_WITH_ROLLBACK"
_VERSION_INIT = "CLIENT_VERSION_INIT"

TABLE_MIGRATION_KEY = "TableMigration3.5"
TABLES_MERGED = "TABLE_MIGRATION_STATUS_COMPLETE"
TABLES_MERGING = frozenset({"TABLE_MIGRATION_STATUS_DEPLOYED", "TABLE_MIGRATION_STATUS_PENDING"})
"""While it is one of these, each worker's own settings decide which table it reports to."""


class CoordinatorStateTable:
    """The state rows of one application (KCL: CoordinatorStateDAO). Knows DynamoDB; decides nothing.

    Every method raises `TableThrottledError` and `EndpointUnavailableError` (retry), `TableMissingError` and
    `AccessDeniedError`.
    """

    def __init__(self, client: "DynamoDBClient", location: TableLocation) -> None:
        self._client = client
        self._location = location

    def client_version(self) -> str | None:
        """Return the version that the fleet speaks, such as ``CLIENT_VERSION_3X``; None before any worker started."""
        return self._text(MIGRATION_KEY, "cv")

    def table_migration(self) -> str | None:
        """Return how far the fleet is in moving its rows to the lease table; None if it has not begun."""
        return self._text(TABLE_MIGRATION_KEY, "tm")

    def start_at_3x(self, modified_by: str, now: datetime) -> bool:
        """Write what the first worker of a new 3.x application writes; False if there is a row already.

        Args:
            modified_by: worker id.
            now: aware time.
        """
        item: Item = {
            **self._location.key(MIGRATION_KEY),
            **_entry(VERSION_3X, modified_by, now),
            "h": {"L": [{"M": _entry(_VERSION_INIT, modified_by, now)}]},
            ENTITY_TYPE: {"S": "CLIENT_VERSION_MIGRATION"},
        }
        outcome = put_item(self._client, self._location, item, {self._location.key_attribute: None})
        return not isinstance(outcome, ConditionFailed)

    def _text(self, key: str, attribute: str) -> str | None:
        item = get_item(self._client, self._location, key)
        text: str | None = None if item is None else item.get(attribute, {}).get("S")
        return text


def _entry(version: str, modified_by: str, now: datetime) -> dict[str, Any]:
    epoch_millis = (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return {"cv": {"S": version}, "mb": {"S": modified_by}, "mts": {"N": str(epoch_millis)}}
