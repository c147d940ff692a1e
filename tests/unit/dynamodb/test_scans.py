"""Scans and the owner index against a server."""

from typing import TYPE_CHECKING

import pytest

from kcl_core.clock import SystemClock
from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.scans import query_owner_index, scan
from kcl_core.dynamodb.schema import create_table
from kcl_core.dynamodb.writes import put_item
from kcl_core.errors import TableMissingError
from kcl_core.runtime import StopSignal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def test_a_scan_crosses_pages(dynamodb: "DynamoDBClient", lease_location: TableLocation) -> None:
    """A page holds 1 MB; here are four."""
    for number in range(12):
        put_item(dynamodb, lease_location, {"leaseKey": {"S": str(number)}, "fat": {"S": "x" * 350_000}}, {})
    found = [item["leaseKey"]["S"] for item in scan(dynamodb, lease_location)]
    assert sorted(found, key=int) == [str(number) for number in range(12)]


def test_the_index_names_the_rows_of_one_owner(dynamodb: "DynamoDBClient", lease_location: TableLocation) -> None:
    for key, owner in (("a", "w1"), ("b", "w2"), ("c", "w1")):
        put_item(dynamodb, lease_location, {"leaseKey": {"S": key}, "leaseOwner": {"S": owner}}, {})
    put_item(dynamodb, lease_location, {"leaseKey": {"S": "unowned"}}, {})
    assert query_owner_index(dynamodb, lease_location, "w1") == ("a", "c")
    assert query_owner_index(dynamodb, lease_location, "nobody") == ()


def test_without_an_index_the_answer_is_none(dynamodb: "DynamoDBClient", application_name: str) -> None:
    location = TableLocation(application_name, "leaseKey")
    create_table(dynamodb, location, SystemClock(), StopSignal().wait)
    assert query_owner_index(dynamodb, location, "w1") is None
    dynamodb.delete_table(TableName=application_name)


def test_without_a_table_there_is_a_typed_error(dynamodb: "DynamoDBClient", application_name: str) -> None:
    location = TableLocation(application_name, "leaseKey")
    with pytest.raises(TableMissingError):
        list(scan(dynamodb, location))
    assert query_owner_index(dynamodb, location, "w1") is None


@pytest.mark.parametrize(
    ("entity_type", "marked", "held"),
    [
        ("LEASE", None, True),
        ("LEASE", "LEASE", True),
        ("LEASE", "WORKER_METRIC_STATS", False),
        ("LEASE", "STREAM", False),
        ("LEASE", "LEADER", False),
        ("LEASE", "CLIENT_VERSION_MIGRATION", False),
        ("LEASE", "TABLE_MIGRATION", False),
        ("LEASE", "SOME_FUTURE_TYPE", False),
        ("WORKER_METRIC_STATS", "WORKER_METRIC_STATS", True),
        ("WORKER_METRIC_STATS", None, False),
        (None, None, True),
        (None, "LEADER", True),
    ],
)
def test_d16_rows_of_one_table_are_told_apart_by_entity_type(
    entity_type: str | None, marked: str | None, held: bool
) -> None:
    item = {"leaseKey": {"S": "a"}} | ({"entityType": {"S": marked}} if marked else {})
    assert TableLocation("t", "leaseKey", entity_type).holds(item) is held
