"""Conditional writes against a server: a condition that fails is a value, all else a typed error."""

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
)

from kcl_core.dynamodb.location import TableLocation
from kcl_core.dynamodb.writes import (
    Changes,
    ConditionFailed,
    delete_item,
    get_item,
    put_item,
    translate,
    translated,
    update_item,
)
from kcl_core.errors import (
    AccessDeniedError,
    ConfigurationError,
    EndpointUnavailableError,
    KclError,
    TableMissingError,
    TableRequestError,
    TableThrottledError,
)
from kcl_core.testing.server import EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROW = {"leaseKey": {"S": "a"}, "leaseCounter": {"N": "7"}, "data": {"S": "x"}, "unknown": {"M": {"y": {"N": "1"}}}}


@pytest.fixture
def row(dynamodb: "DynamoDBClient", lease_location: TableLocation) -> TableLocation:
    put_item(dynamodb, lease_location, ROW, {})
    return lease_location


def test_a_row_is_put_once(dynamodb: "DynamoDBClient", lease_location: TableLocation) -> None:
    assert put_item(dynamodb, lease_location, ROW, {"leaseKey": None}) == ROW
    other = {"leaseKey": {"S": "a"}}
    assert put_item(dynamodb, lease_location, other, {"leaseKey": None}) == ConditionFailed(ROW)
    assert get_item(dynamodb, lease_location, "a") == ROW


def test_an_update_changes_what_it_names_and_returns_the_whole_row(
    dynamodb: "DynamoDBClient", row: TableLocation
) -> None:
    changes = Changes(set={"key": {"S": "w"}}, add={"leaseCounter": 2, "new": 3}, remove=["data", "absent"])
    expected = {"leaseCounter": {"N": "7"}, "key": None, "data": {"S": "x"}}
    after = {
        "leaseKey": {"S": "a"},
        "leaseCounter": {"N": "9"},
        "key": {"S": "w"},
        "new": {"N": "3"},
        "unknown": ROW["unknown"],
    }
    assert update_item(dynamodb, row, "a", changes, expected) == after
    assert get_item(dynamodb, row, "a") == after


@pytest.mark.parametrize("expected", [{"leaseCounter": {"N": "6"}}, {"data": None}, {"leaseKey": None}])
def test_a_refused_update_shows_the_row_and_changes_nothing(
    dynamodb: "DynamoDBClient", row: TableLocation, expected: dict[str, Any]
) -> None:
    outcome = update_item(dynamodb, row, "a", Changes(set={"data": {"S": "y"}}), expected)
    assert outcome == ConditionFailed(ROW)
    assert get_item(dynamodb, row, "a") == ROW


def test_one_attribute_may_be_both_written_and_expected(dynamodb: "DynamoDBClient", row: TableLocation) -> None:
    outcome = update_item(dynamodb, row, "a", Changes(set={"data": {"S": "y"}}), {"data": {"S": "x"}})
    assert outcome == {**ROW, "data": {"S": "y"}}


def test_an_update_that_expects_the_key_does_not_create_a_row(
    dynamodb: "DynamoDBClient", lease_location: TableLocation
) -> None:
    outcome = update_item(dynamodb, lease_location, "a", Changes(set={"data": {"S": "y"}}), lease_location.key("a"))
    assert outcome == ConditionFailed(None)
    assert get_item(dynamodb, lease_location, "a") is None


def test_a_row_is_deleted_only_as_expected(dynamodb: "DynamoDBClient", row: TableLocation) -> None:
    assert delete_item(dynamodb, row, "a", {"leaseCounter": {"N": "8"}}) == ConditionFailed(ROW)
    assert delete_item(dynamodb, row, "a", {"leaseCounter": {"N": "7"}}) == ROW
    assert delete_item(dynamodb, row, "a", {"leaseCounter": {"N": "7"}}) == ConditionFailed(None)
    assert delete_item(dynamodb, row, "a", {}) == {}


def test_a_missing_table_is_a_typed_error(dynamodb: "DynamoDBClient", application_name: str) -> None:
    nowhere = TableLocation(application_name, "leaseKey")
    with pytest.raises(TableMissingError, match=application_name):
        get_item(dynamodb, nowhere, "a")
    with pytest.raises(TableMissingError):
        update_item(dynamodb, nowhere, "a", Changes(set={"data": {"S": "y"}}), {})
    with pytest.raises(TableMissingError):
        put_item(dynamodb, nowhere, ROW, {"leaseKey": None})


def test_a_table_with_another_key_is_a_typed_error(dynamodb: "DynamoDBClient", lease_location: TableLocation) -> None:
    wrong = TableLocation(lease_location.table_name, "key")
    with pytest.raises(TableRequestError, match="ValidationException") as caught:
        get_item(dynamodb, wrong, "a")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_endpoint_that_nobody_listens_at_is_retryable(embedded_aws: EmbeddedAws) -> None:
    elsewhere = embedded_aws.config().model_copy(update={"dynamodb_endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(EndpointUnavailableError) as caught:
        get_item(elsewhere.dynamodb(), TableLocation("t", "leaseKey"), "a")
    assert caught.value.retryable


def answer(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "UpdateItem",
    )


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (answer("ProvisionedThroughputExceededException"), TableThrottledError, True),
        (answer("ThrottlingException"), TableThrottledError, True),
        (answer("RequestLimitExceeded"), TableThrottledError, True),
        (answer("ResourceNotFoundException"), TableMissingError, False),
        (answer("AccessDeniedException"), AccessDeniedError, False),
        (answer("ExpiredTokenException"), AccessDeniedError, False),
        (answer("InternalServerError", 500), EndpointUnavailableError, True),
        (answer("Unheard", 503), EndpointUnavailableError, True),
        (answer("TransactionConflictException"), EndpointUnavailableError, True),
        (answer("ValidationException"), TableRequestError, False),
        (EndpointConnectionError(endpoint_url="http://nowhere"), EndpointUnavailableError, True),
        (ConnectTimeoutError(endpoint_url="http://nowhere"), EndpointUnavailableError, True),
        (NoCredentialsError(), ConfigurationError, False),
        (ParamValidationError(report="TableName"), TableRequestError, False),
        (BotoCoreError(), EndpointUnavailableError, True),
    ],
    ids=lambda value: str(value) if isinstance(value, Exception) else None,
)
def test_what_botocore_raises_becomes_a_typed_error(
    error: ClientError | BotoCoreError, kind: type[KclError], retryable: bool
) -> None:
    assert type(translate(error, "leases", "UpdateItem")) is kind
    with pytest.raises(kind) as caught, translated("leases", "UpdateItem"):
        raise error
    assert caught.value.retryable is retryable
    assert caught.value.__cause__ is error
