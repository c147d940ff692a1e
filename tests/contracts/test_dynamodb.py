"""What the protocols rely on: of many conditional writes on one state of a row, exactly one happens."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kcl_core.clock import SystemClock
from kcl_core.dynamodb.location import LEASE, TableLocation
from kcl_core.dynamodb.schema import create_table
from kcl_core.leases.model import Lease
from kcl_core.leases.position import ExtendedSequenceNumber
from kcl_core.leases.table import LeaseTable, Refused
from kcl_core.runtime import StopSignal
from kcl_core.testing.server import EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

pytestmark = pytest.mark.contract

WRITERS = 8
ROUNDS = 40


@pytest.fixture
def clients(embedded_aws: EmbeddedAws) -> "list[DynamoDBClient]":
    """A client each, so that requests really meet in the server."""
    return [embedded_aws.config().dynamodb() for _ in range(WRITERS)]


@pytest.fixture
def location(clients: "list[DynamoDBClient]", application_name: str) -> TableLocation:
    made = TableLocation(application_name, "leaseKey", LEASE)
    create_table(clients[0], made, SystemClock(), StopSignal().wait, owner_index=True)
    return made


def test_of_many_takers_of_one_lease_exactly_one_wins_every_time(
    clients: "list[DynamoDBClient]", location: TableLocation
) -> None:
    tables = [LeaseTable(client, location) for client in clients]
    lease = Lease(lease_key="shard", checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
    assert tables[0].create(lease)
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            owners = [f"worker-{number}-{writer}" for writer in range(WRITERS)]
            outcomes = list(pool.map(lambda table, owner, seen=lease: table.assign(seen, owner), tables, owners))
            winners = [outcome for outcome in outcomes if not isinstance(outcome, Refused)]
            assert len(winners) == 1
            stored = tables[0].get("shard")
            assert stored == winners[0]
            lease = winners[0]
    assert lease.lease_counter == ROUNDS


def test_of_many_creators_of_one_lease_exactly_one_wins_every_time(
    clients: "list[DynamoDBClient]", location: TableLocation
) -> None:
    tables = [LeaseTable(client, location) for client in clients]
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            lease = Lease(lease_key=f"shard-{number}", checkpoint=ExtendedSequenceNumber.TRIM_HORIZON)
            created = list(pool.map(lambda table, new=lease: table.create(new), tables))
            assert created.count(True) == 1
