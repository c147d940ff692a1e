"""Create a table, or check that one that exists will do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from kcl_core.clock import Clock
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.scans import LEASE_OWNER, LEASE_OWNER_INDEX
from kcl_core.dynamodb.writes import translate, translated
from kcl_core.errors import EndpointUnavailableError, TableMissingError, TableSchemaError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TableDescriptionTypeDef

# KCL: DynamoDBLeaseRefresher waits for 600 s. It looks every 10 s; a new table takes less than that.
CREATION_TIMEOUT = timedelta(seconds=600)
PAUSE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Provisioned throughput, in capacity units."""

    read: int
    write: int


def create_table(
    client: "DynamoDBClient",
    location: TableLocation,
    clock: Clock,
    wait: Callable[[timedelta], bool],
    *,
    owner_index: bool = False,
    capacity: Capacity | None = None,
) -> bool:
    """Create the table if it is missing and wait until it can be used; return whether this call created it.

    An existing table without the owner index is given one, and used while DynamoDB fills it: readers scan until then.
    Java KCL adds the index after creating the table; here it is part of CreateTable, so that nobody waits for it.

    Args:
        client: for DynamoDB.
        location: name and partition key.
        clock: for the timeout.
        wait: waits for a time and returns whether to give up (`StopSignal.wait`).
        owner_index: whether the table has KCL's index of keys by owner.
        capacity: provisioned throughput; None bills by request. Of a table that exists it is left alone.

    Raises:
        TableSchemaError: a table of this name exists with another key.
        EndpointUnavailableError: the table could not be used after ten minutes; retry.
        AccessDeniedError: the table is missing and may not be created.
    """
    found = describe_table(client, location)
    created = found is None and _create(client, location, owner_index=owner_index, capacity=capacity)
    found = _wait_until_usable(client, location, clock, wait)
    if found is None:
        return created
    check_key(location, found)
    if owner_index and all(each["IndexName"] != LEASE_OWNER_INDEX for each in found.get("GlobalSecondaryIndexes", ())):
        _add_owner_index(client, location, found)
    return created


def describe_table(client: "DynamoDBClient", location: TableLocation) -> "TableDescriptionTypeDef | None":
    """Return what DynamoDB says of the table, or None if there is none.

    Raises:
        EndpointUnavailableError: retry.
    """
    try:
        with translated(location.table_name, "DescribeTable"):
            return client.describe_table(TableName=location.table_name)["Table"]
    except TableMissingError:
        return None


def check_key(location: TableLocation, description: "TableDescriptionTypeDef") -> None:
    """Check that the table's key is the one that rows of this kind have.

    Raises:
        TableSchemaError: it is not; nothing was written.
    """
    types = {each["AttributeName"]: each["AttributeType"] for each in description.get("AttributeDefinitions", ())}
    keys = description.get("KeySchema", ())
    found = [f"{each['KeyType']} {each['AttributeName']} ({types.get(each['AttributeName'])})" for each in keys]
    expected = [f"HASH {location.key_attribute} (S)"]
    if found != expected:
        raise TableSchemaError(
            table=location.table_name, expected=f"key {expected[0]}", found=f"key {' and '.join(found) or 'unknown'}"
        )


def _create(client: "DynamoDBClient", location: TableLocation, *, owner_index: bool, capacity: Capacity | None) -> bool:
    attributes = [location.key_attribute, LEASE_OWNER] if owner_index else [location.key_attribute]
    request: dict[str, Any] = {
        "TableName": location.table_name,
        "KeySchema": [{"AttributeName": location.key_attribute, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": each, "AttributeType": "S"} for each in attributes],
        **_billing(capacity),
    }
    if owner_index:
        request["GlobalSecondaryIndexes"] = [_owner_index(location, capacity)]
    try:
        client.create_table(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceInUseException":
            return False  # another process was faster
        raise translate(error, location.table_name, "CreateTable") from error
    except BotoCoreError as error:
        raise translate(error, location.table_name, "CreateTable") from error
    return True


def _wait_until_usable(
    client: "DynamoDBClient", location: TableLocation, clock: Clock, wait: Callable[[timedelta], bool]
) -> "TableDescriptionTypeDef | None":
    """Return the table's description once it can be used; None if told to give up."""
    deadline = clock.monotonic() + CREATION_TIMEOUT.total_seconds()
    while True:
        found = describe_table(client, location)
        status = found["TableStatus"] if found else "not visible yet"
        if found and status in ("ACTIVE", "UPDATING"):
            return found
        if clock.monotonic() >= deadline:
            raise EndpointUnavailableError(
                service="DynamoDB", operation="CreateTable", cause=f"table {location.table_name!r} is still {status}"
            )
        if wait(PAUSE):
            return None


def _add_owner_index(client: "DynamoDBClient", location: TableLocation, description: "TableDescriptionTypeDef") -> None:
    throughput = description.get("ProvisionedThroughput", {})
    read, write = throughput.get("ReadCapacityUnits", 0), throughput.get("WriteCapacityUnits", 0)
    index: Any = _owner_index(location, Capacity(read, write) if read and write else None)
    try:
        client.update_table(
            TableName=location.table_name,
            AttributeDefinitions=[
                {"AttributeName": each, "AttributeType": "S"} for each in (location.key_attribute, LEASE_OWNER)
            ],
            GlobalSecondaryIndexUpdates=[{"Create": index}],
        )
    except ClientError as error:
        # Another process is adding it, or changing the table; the next start looks again.
        if error.response["Error"]["Code"] not in ("ResourceInUseException", "LimitExceededException"):
            raise translate(error, location.table_name, "UpdateTable") from error
    except BotoCoreError as error:
        raise translate(error, location.table_name, "UpdateTable") from error


def _owner_index(location: TableLocation, capacity: Capacity | None) -> dict[str, Any]:
    index: dict[str, Any] = {
        "IndexName": LEASE_OWNER_INDEX,
        "KeySchema": [
            {"AttributeName": LEASE_OWNER, "KeyType": "HASH"},
            {"AttributeName": location.key_attribute, "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    if capacity is not None:
        index["ProvisionedThroughput"] = _throughput(capacity)
    return index


def _billing(capacity: Capacity | None) -> dict[str, Any]:
    if capacity is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": _throughput(capacity)}


def _throughput(capacity: Capacity) -> dict[str, int]:
    return {"ReadCapacityUnits": capacity.read, "WriteCapacityUnits": capacity.write}
