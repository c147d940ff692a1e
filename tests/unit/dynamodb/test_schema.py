"""Tables: created once, checked when they exist."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.schema import Capacity, create_table, describe_table
from kcl_core.errors import EndpointUnavailableError, TableSchemaError
from kcl_core.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def go_on(_: timedelta) -> bool:
    return False


@pytest.fixture
def location(dynamodb: "DynamoDBClient", application_name: str) -> Iterator[TableLocation]:
    location = TableLocation(application_name, "leaseKey")
    yield location
    if describe_table(dynamodb, location):
        dynamodb.delete_table(TableName=application_name)


def described(dynamodb: "DynamoDBClient", location: TableLocation) -> dict[str, Any]:
    found = describe_table(dynamodb, location)
    assert found is not None
    return dict(found)


def test_a_missing_table_is_created_with_its_index(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock
) -> None:
    assert describe_table(dynamodb, location) is None
    assert create_table(dynamodb, location, virtual_clock, go_on, owner_index=True)
    found = described(dynamodb, location)
    assert found["KeySchema"] == [{"AttributeName": "leaseKey", "KeyType": "HASH"}]
    assert found["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    (index,) = found["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "LeaseOwnerToLeaseKeyIndex"
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert index["KeySchema"] == [
        {"AttributeName": "leaseOwner", "KeyType": "HASH"},
        {"AttributeName": "leaseKey", "KeyType": "RANGE"},
    ]


def test_an_existing_table_is_left_alone(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock
) -> None:
    create_table(dynamodb, location, virtual_clock, go_on, owner_index=True)
    before = described(dynamodb, location)
    assert not create_table(dynamodb, location, virtual_clock, go_on, owner_index=True, capacity=Capacity(5, 5))
    assert described(dynamodb, location) == before


def test_provisioned_capacity_is_that_of_the_index_too(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock
) -> None:
    create_table(dynamodb, location, virtual_clock, go_on, owner_index=True, capacity=Capacity(11, 12))
    found = described(dynamodb, location)
    for throughput in (found["ProvisionedThroughput"], found["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]):
        assert (throughput["ReadCapacityUnits"], throughput["WriteCapacityUnits"]) == (11, 12)


@pytest.mark.parametrize("capacity", [None, Capacity(11, 12)])
def test_an_existing_table_without_the_index_is_given_one(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock, capacity: Capacity | None
) -> None:
    create_table(dynamodb, location, virtual_clock, go_on, capacity=capacity)
    assert not described(dynamodb, location).get("GlobalSecondaryIndexes")
    assert not create_table(dynamodb, location, virtual_clock, go_on, owner_index=True)
    (index,) = described(dynamodb, location)["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "LeaseOwnerToLeaseKeyIndex"
    assert index.get("ProvisionedThroughput", {}).get("WriteCapacityUnits", 0) == (capacity.write if capacity else 0)


def test_a_foreign_table_of_the_name_is_refused(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock
) -> None:
    create_table(dynamodb, TableLocation(location.table_name, "wid"), virtual_clock, go_on)
    with pytest.raises(TableSchemaError, match="wid") as caught:
        create_table(dynamodb, location, virtual_clock, go_on, owner_index=True)
    assert not caught.value.retryable


class SlowServer:
    """Passes on to a client, but calls every table CREATING until a clock has reached a time."""

    def __init__(self, client: "DynamoDBClient", clock: VirtualClock, usable_at: float) -> None:
        self._client = client
        self._clock = clock
        self._usable_at = usable_at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe_table(self, **request: Any) -> Any:
        answer = self._client.describe_table(**request)
        if self._clock.monotonic() < self._usable_at:
            answer["Table"]["TableStatus"] = "CREATING"
        return answer


@pytest.mark.parametrize(("usable_at", "comes"), [(42.0, True), (700.0, False)])
def test_a_new_table_is_waited_for_ten_minutes(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock, usable_at: float, comes: bool
) -> None:
    def wait(pause: timedelta) -> bool:
        virtual_clock.advance(pause.total_seconds())
        return False

    slow: Any = SlowServer(dynamodb, virtual_clock, usable_at)
    if comes:
        assert create_table(slow, location, virtual_clock, wait)
        assert virtual_clock.monotonic() == pytest.approx(usable_at, abs=1)
    else:
        with pytest.raises(EndpointUnavailableError, match="still CREATING"):
            create_table(slow, location, virtual_clock, wait)
        assert virtual_clock.monotonic() == pytest.approx(600, abs=1)


def test_the_wait_ends_when_the_process_is_to_end(
    dynamodb: "DynamoDBClient", location: TableLocation, virtual_clock: VirtualClock
) -> None:
    slow: Any = SlowServer(dynamodb, virtual_clock, 42.0)
    assert create_table(slow, location, virtual_clock, lambda _: True)
