"""The lock item in DynamoDB, in the format of amazon-dynamodb-lock-client."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kcl_core.dynamodb.location import ENTITY_TYPE, Item, TableLocation
from kcl_core.dynamodb.writes import (
    Changes,
    ConditionFailed,
    Expected,
    delete_item,
    get_item,
    put_item,
    update_item,
)
from kcl_core.election.lock import Lock
from kcl_core.errors import TableSchemaError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LOCK_KEY = "Leader"
_OWNER, _DURATION, _VERSION, _RELEASED = "ownerName", "leaseDuration", "recordVersionNumber", "isReleased"
_YES = {"S": "1"}


class LockTable:
    """The leader's lock of one application. Knows DynamoDB; decides nothing.

    Every method raises `TableThrottledError` and `EndpointUnavailableError` (retry; after the latter it is not known
    whether a write happened), `TableMissingError` and `AccessDeniedError`.

    The AWS client repeats a request whose answer was lost; should the first one have been carried out, the repeated
    one fails its condition. Versions are unique, so that such a write is known by the version it left.
    """

    def __init__(self, client: "DynamoDBClient", location: TableLocation) -> None:
        self._client = client
        self._location = location

    def read(self) -> Lock | None:
        """Return the lock as it is now, or None.

        Raises:
            TableSchemaError: the item is not a lock.
        """
        item = get_item(self._client, self._location, LOCK_KEY)
        return None if item is None else self._decode(item)

    def create(self, lock: Lock) -> bool:
        """Write the lock where there is none; False if there is one."""
        return self._put(lock, {self._location.key_attribute: None})

    def take_released(self, lock: Lock) -> bool:
        """Replace a lock that its owner gave up; False if it is not given up any more."""
        return self._put(lock, {**self._exists(), _RELEASED: _YES})

    def take_expired(self, lock: Lock, *, seen: Lock) -> bool:
        """Replace a silent owner's lock; False if its owner has moved the version."""
        return self._put(lock, {**self._exists(), _VERSION: {"S": seen.record_version_number}})

    def heartbeat(self, lock: Lock, *, held: Lock) -> bool:
        """Give the lock that is held a new version; False if it is not held any more."""
        changes = Changes(set={_DURATION: _millis(lock), _VERSION: {"S": lock.record_version_number}})
        outcome = update_item(self._client, self._location, LOCK_KEY, changes, self._is_held(held))
        return self._is_written(lock, outcome)

    def delete(self, held: Lock) -> bool:
        """Delete the lock that is held; False if it is not held any more."""
        outcome = delete_item(self._client, self._location, LOCK_KEY, self._is_held(held))
        return not isinstance(outcome, ConditionFailed)

    def _put(self, lock: Lock, expected: Expected) -> bool:
        item: Item = {
            **self._location.key(LOCK_KEY),
            _OWNER: {"S": lock.owner_name},
            _DURATION: _millis(lock),
            _VERSION: {"S": lock.record_version_number},
            # Tells KCL 3.5 what the row is; older versions look at the key alone.
            ENTITY_TYPE: {"S": "LEADER"},
        }
        return self._is_written(lock, put_item(self._client, self._location, item, expected))

    def _is_written(self, lock: Lock, outcome: Item | ConditionFailed) -> bool:
        if not isinstance(outcome, ConditionFailed):
            return True
        found = outcome.item or {}
        return found.get(_VERSION) == {"S": lock.record_version_number} and found.get(_RELEASED) != _YES

    def _exists(self) -> dict[str, Any]:
        return dict(self._location.key(LOCK_KEY))

    def _is_held(self, held: Lock) -> Expected:
        return {**self._exists(), _VERSION: {"S": held.record_version_number}, _OWNER: {"S": held.owner_name}}

    def _decode(self, item: Mapping[str, Any]) -> Lock:
        try:
            return Lock(
                item[_OWNER]["S"],
                item[_VERSION]["S"],
                int(item[_DURATION]["S"]) / 1000,
                is_released=item.get(_RELEASED) == _YES,
            )
        except (KeyError, ValueError) as error:
            raise TableSchemaError(
                table=self._location.table_name,
                expected=f"a lock in row {LOCK_KEY!r}",
                found=f"row {LOCK_KEY!r} with attributes {', '.join(sorted(item))}",
            ) from error


def _millis(lock: Lock) -> dict[str, str]:
    # A string of milliseconds: so amazon-dynamodb-lock-client wants it.
    return {"S": str(timedelta(seconds=lock.lease_duration) // timedelta(milliseconds=1))}
