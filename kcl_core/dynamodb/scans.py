"""Many rows at a time: whole tables, and keys by index."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcl_core.dynamodb.location import Item, TableLocation
from kcl_core.dynamodb.writes import translated
from kcl_core.errors import TableMissingError, TableRequestError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LEASE_OWNER_INDEX = "LeaseOwnerToLeaseKeyIndex"
LEASE_OWNER = "leaseOwner"


def scan(client: "DynamoDBClient", location: TableLocation, *, consistent: bool = True) -> Iterator[Item]:
    """Yield all rows of the table, also those of another kind, page by page.

    Each page shows its rows as they were at one time; the whole is not one moment.

    Raises:
        TableMissingError: there is no such table.
        TableThrottledError: retry from the start.
        EndpointUnavailableError: retry from the start.
    """
    with translated(location.table_name, "Scan"):
        for page in client.get_paginator("scan").paginate(TableName=location.table_name, ConsistentRead=consistent):
            yield from page["Items"]


def query_owner_index(client: "DynamoDBClient", location: TableLocation, owner: str) -> tuple[str, ...] | None:
    """Return the keys of the rows whose ``leaseOwner`` is ``owner``; None if the index cannot be read (yet).

    Eventually consistent, as every index of this kind: a row given to ``owner`` a moment ago may be missing.
    None may also mean that there is no table; whoever then scans it is told.

    Raises:
        TableThrottledError: retry.
        EndpointUnavailableError: retry.
    """
    try:
        with translated(location.table_name, "Query"):
            pages = client.get_paginator("query").paginate(
                TableName=location.table_name,
                IndexName=LEASE_OWNER_INDEX,
                KeyConditionExpression="#owner = :owner",
                ExpressionAttributeNames={"#owner": LEASE_OWNER},
                ExpressionAttributeValues={":owner": {"S": owner}},
            )
            return tuple(item[location.key_attribute]["S"] for page in pages for item in page["Items"])
    except TableMissingError:
        # Not only a missing table: some servers say so of a missing index.
        return None
    except TableRequestError as error:
        # What DynamoDB says of an index that does not exist, or is being filled.
        if error.code == "ValidationException" and "index" in error.message.lower():
            return None
        raise
