"""A lease table in a real DynamoDB server, for the tests of all packages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kcl_core.clock import SystemClock
from kcl_core.dynamodb.location import LEASE, TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.leases.table import LeaseTable
from kcl_core.runtime import StopSignal
from kcl_core.testing.server import EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture(scope="session")
def dynamodb(embedded_aws: EmbeddedAws) -> "DynamoDBClient":
    return embedded_aws.config().dynamodb()


@pytest.fixture
def lease_location(dynamodb: "DynamoDBClient", application_name: str) -> Iterator[TableLocation]:
    """A fresh lease table with the owner index."""
    location = TableLocation(application_name, "leaseKey", LEASE)
    create_table(dynamodb, location, SystemClock(), StopSignal().wait, owner_index=True)
    yield location
    dynamodb.delete_table(TableName=location.table_name)


@pytest.fixture
def leases(dynamodb: "DynamoDBClient", lease_location: TableLocation) -> LeaseTable:
    return LeaseTable(dynamodb, lease_location)
