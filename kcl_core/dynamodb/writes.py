"""One row at a time: get, and conditional update, put and delete. The door to DynamoDB for all repositories.

A condition that fails is a value, `ConditionFailed`. Everything else that goes wrong is a typed error.
Conditions are those of DynamoDB's older `Expected` parameter, which KCL uses: attributes that must have a value,
or must be absent.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from kcl_core.dynamodb.location import Item, TableLocation
from kcl_core.errors import (
    AccessDeniedError,
    ConfigurationError,
    EndpointUnavailableError,
    KclError,
    TableMissingError,
    TableRequestError,
    TableThrottledError,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Value = Mapping[str, Any]
"""One attribute as DynamoDB's JSON: ``{"S": "worker-1"}``."""

Expected = Mapping[str, Value | None]
"""What must hold for a write to happen: attributes and their values, None for an attribute that must be absent.

The partition key with its value means that the row must exist; with None, that it must not.
"""

_THROTTLED = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
}
_DENIED = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "UnrecognizedClientException",
}
# Another write to the row was under way, or a replica disagreed: the same request may succeed next time.
_CONFLICTS = {"ReplicatedWriteConflictException", "TransactionConflictException", "TransactionInProgressException"}
_FIRST_SERVER_FAULT = 500


@dataclass(frozen=True, slots=True)
class ConditionFailed:
    """The condition did not hold; nothing was written.

    Attributes:
        item: the row as it is, or None if there is none.
    """

    item: Item | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update does to a row; attributes that are not named stay as they are.

    Attributes:
        set: attributes to write, with their values.
        add: numbers to add; an absent attribute counts as 0.
        remove: attributes to remove; an absent one is no error.
    """

    set: Mapping[str, Value] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    remove: Collection[str] = ()


def get_item(client: "DynamoDBClient", location: TableLocation, key: str, *, consistent: bool = True) -> Item | None:
    """Return the row called ``key``, or None. Strongly consistent unless told otherwise.

    Raises:
        TableMissingError: there is no such table.
        TableThrottledError: retry.
        EndpointUnavailableError: retry.
    """
    with translated(location.table_name, "GetItem"):
        answer = client.get_item(TableName=location.table_name, Key=location.key(key), ConsistentRead=consistent)
    return dict(answer["Item"]) if "Item" in answer else None


def update_item(
    client: "DynamoDBClient", location: TableLocation, key: str, changes: Changes, expected: Expected
) -> Item | ConditionFailed:
    """Change the row called ``key`` if ``expected`` holds; return the whole row as it is afterwards.

    An update of a row that does not exist creates it, unless ``expected`` says otherwise.

    Raises:
        TableThrottledError: nothing was written; retry.
        EndpointUnavailableError: it is not known whether it was written.
    """
    names, values = _Names(), {}
    clauses: list[str] = []
    if changes.set:
        clauses.append("SET " + ", ".join(f"{names[each]} = {names.value(each)}" for each in changes.set))
        values.update({names.value(each): value for each, value in changes.set.items()})
    if changes.add:
        clauses.append("ADD " + ", ".join(f"{names[each]} {names.value(each)}" for each in changes.add))
        values.update({names.value(each): {"N": str(number)} for each, number in changes.add.items()})
    if changes.remove:
        clauses.append("REMOVE " + ", ".join(names[each] for each in changes.remove))
    return _write(
        client.update_item,
        "UpdateItem",
        location,
        _condition(expected, names, values),
        Key=location.key(key),
        UpdateExpression=" ".join(clauses),
        ReturnValues="ALL_NEW",
    )


def put_item(
    client: "DynamoDBClient", location: TableLocation, item: Mapping[str, Any], expected: Expected
) -> Item | ConditionFailed:
    """Write a whole row if ``expected`` holds of the one that it replaces; return the row written.

    Attributes of the old row that ``item`` lacks are gone afterwards.

    Raises:
        TableThrottledError: nothing was written; retry.
        EndpointUnavailableError: it is not known whether it was written.
    """
    outcome = _write(client.put_item, "PutItem", location, _condition(expected, _Names(), {}), Item=dict(item))
    return outcome if isinstance(outcome, ConditionFailed) else dict(item)


def delete_item(
    client: "DynamoDBClient", location: TableLocation, key: str, expected: Expected
) -> Item | ConditionFailed:
    """Delete the row called ``key`` if ``expected`` holds; return the row as it was, empty if there was none.

    Raises:
        TableThrottledError: nothing was deleted; retry.
        EndpointUnavailableError: it is not known whether it was deleted.
    """
    condition = _condition(expected, _Names(), {})
    return _write(client.delete_item, "DeleteItem", location, condition, Key=location.key(key), ReturnValues="ALL_OLD")


def translate(error: ClientError | BotoCoreError, table: str, operation: str) -> KclError:
    """Return the typed error for what botocore raised; chain it to the original.

    Args:
        error: as raised.
        table: name of the table.
        operation: such as ``UpdateItem``.
    """
    if isinstance(error, ClientError):
        return _translate_answer(error, table, operation)
    match error:
        case NoCredentialsError() | PartialCredentialsError():
            return ConfigurationError(
                str(error), setting="AWS credentials", next_step="set up a profile, a role or the AWS_* variables"
            )
        case ParamValidationError():
            return TableRequestError(table=table, operation=operation, code="ParamValidation", message=str(error))
        case HTTPClientError():
            # Connection refused, timed out or cut off; the text of some of these runs over several lines.
            return EndpointUnavailableError(
                service="DynamoDB", operation=operation, cause=f"{type(error).__name__} ({str(error).splitlines()[0]})"
            )
        case _:
            return EndpointUnavailableError(service="DynamoDB", operation=operation, cause=str(error))


@contextmanager
def translated(table: str, operation: str) -> Iterator[None]:
    """Raise typed errors for what botocore raises inside."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise translate(error, table, operation) from error


def _translate_answer(error: ClientError, table: str, operation: str) -> KclError:
    code = error.response.get("Error", {}).get("Code", "Unknown")
    message = error.response.get("Error", {}).get("Message", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ResourceNotFoundException":
        return TableMissingError(table=table)
    if code in _THROTTLED:
        return TableThrottledError(table=table, operation=operation)
    if code in _DENIED:
        return AccessDeniedError(action=f"dynamodb:{operation}", resource=table)
    if code in _CONFLICTS or status >= _FIRST_SERVER_FAULT:
        return EndpointUnavailableError(service="DynamoDB", operation=operation, cause=f"{code} {message}".strip())
    return TableRequestError(table=table, operation=operation, code=code, message=message)


class _Names(dict[str, str]):
    """Placeholders by attribute name: some names of KCL's (key, data) are reserved words in expressions."""

    def __missing__(self, attribute: str) -> str:
        self[attribute] = f"#n{len(self)}"
        return self[attribute]

    def value(self, attribute: str) -> str:
        """Return the placeholder of the attribute's new value."""
        return self[attribute].replace("#n", ":v")


def _condition(expected: Expected, names: _Names, values: dict[str, Any]) -> dict[str, Any]:
    """Return the request's condition, names and values; ``names`` and ``values`` as the update used them so far."""
    conditions = []
    for attribute, value in expected.items():
        if value is None:
            conditions.append(f"attribute_not_exists({names[attribute]})")
        else:
            placeholder = names[attribute].replace("#n", ":e")
            conditions.append(f"{names[attribute]} = {placeholder}")
            values[placeholder] = value
    request: dict[str, Any] = {}
    if conditions:
        request["ConditionExpression"] = " AND ".join(conditions)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if names:
        request["ExpressionAttributeNames"] = {placeholder: attribute for attribute, placeholder in names.items()}
    if values:
        request["ExpressionAttributeValues"] = values
    return request


def _write(
    call: Any, operation: str, location: TableLocation, condition: Mapping[str, Any], **request: Any
) -> Item | ConditionFailed:
    try:
        answer = call(TableName=location.table_name, **request, **condition)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
            item: Any = error.response.get("Item")
            return ConditionFailed(dict(item) if item else None)
        raise translate(error, location.table_name, operation) from error
    except BotoCoreError as error:
        raise translate(error, location.table_name, operation) from error
    return dict(answer.get("Attributes", {}))
