"""The servers that the contracts are asked of."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support import kinesis_mock

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig
from kcl_core.dynamodb.location import LEASE, TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.leases.table import LeaseTable
from kcl_core.runtime import StopSignal
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.contracts import KinesisServer
from kcl_core.testing.server import REGION, EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CLIENTS = 8


@pytest.fixture(scope="session")
def embedded_kinesis(embedded_aws: EmbeddedAws) -> KinesisServer:
    return _server(embedded_aws.config())


@pytest.fixture(scope="session")
def mock_kinesis(embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    """Needs the embedded AWS for the credentials in the environment only."""
    assert embedded_aws.process_ids
    absent = kinesis_mock.why_absent()
    if absent is not None:
        pytest.skip(absent)
    with kinesis_mock.running(tmp_path_factory.mktemp("kinesis-mock")) as endpoint:
        yield _server(AwsConfig(region_name=REGION, kinesis_endpoint_url=endpoint))


@pytest.fixture
def lease_tables(embedded_aws: EmbeddedAws, application_name: str) -> "Iterator[list[LeaseTable]]":
    """One table with the owner index, through a client each."""
    clients: list[DynamoDBClient] = [embedded_aws.config().dynamodb() for _ in range(CLIENTS)]
    location = TableLocation(application_name, "leaseKey", LEASE)
    create_table(clients[0], location, SystemClock(), StopSignal().wait, owner_index=True)
    yield [LeaseTable(client, location) for client in clients]
    clients[0].delete_table(TableName=application_name)


def _server(config: AwsConfig) -> KinesisServer:
    return KinesisServer(config.kinesis(), KinesisHttp(config))
