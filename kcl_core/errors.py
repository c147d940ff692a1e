"""Every error that this library raises on purpose. A lost race is not here: it is a return value."""

import copyreg
from collections.abc import Collection
from typing import Any, ClassVar


class KclError(Exception):
    """Base of all errors. Says what happened, where, and what to do next.

    Attributes:
        retryable: whether the same call may succeed later, with no change by the user.
        next_step: one imperative sentence for the person who reads the log.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, next_step: str) -> None:
        super().__init__(message)
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{super().__str__()}. Next: {self.next_step}."

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (Spark executors, Dagster steps); keyword-only
        # constructors would break pickle's default, which calls cls(*args).
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class ConfigurationError(KclError):
    """A setting is missing, unknown or contradicts another one."""

    def __init__(self, message: str, *, setting: str, next_step: str) -> None:
        super().__init__(f"setting {setting!r}: {message}", next_step=next_step)
        self.setting = setting


class AccessDeniedError(KclError):
    """AWS refused the call: the credentials lack a permission."""

    def __init__(self, *, action: str, resource: str) -> None:
        super().__init__(
            f"not allowed to call {action} on {resource!r}",
            next_step=f"allow {action} on that resource in the role's policy",
        )
        self.action = action
        self.resource = resource


class EndpointUnavailableError(KclError):
    """An AWS endpoint did not answer, or answered with an error of its own (5xx)."""

    retryable = True

    def __init__(self, *, service: str, operation: str, cause: str) -> None:
        super().__init__(
            f"{service} did not answer {operation}: {cause}",
            next_step="check the endpoint and the network; the call is repeated",
        )
        self.service = service
        self.operation = operation
        self.cause = cause


class TableThrottledError(KclError):
    """DynamoDB refused a request for lack of capacity; nothing was written."""

    retryable = True

    def __init__(self, *, table: str, operation: str) -> None:
        super().__init__(
            f"{operation} on table {table!r} was throttled",
            next_step="wait and retry, or raise the table's capacity",
        )
        self.table = table
        self.operation = operation


class TableMissingError(KclError):
    """A DynamoDB table that should exist does not."""

    def __init__(self, *, table: str) -> None:
        super().__init__(
            f"table {table!r} does not exist",
            next_step="check the application name, region and endpoint, or create the table by starting a worker",
        )
        self.table = table


class TableSchemaError(KclError):
    """A table of this name exists but is not what KCL expects."""

    def __init__(self, *, table: str, expected: str, found: str) -> None:
        super().__init__(
            f"table {table!r} has {found}, expected {expected}",
            next_step="choose another application or table name, or remove the foreign table",
        )
        self.table = table
        self.expected = expected
        self.found = found


class TableRequestError(KclError):
    """DynamoDB rejected a request as invalid: a bug of the caller, or a table that is not what it should be."""

    def __init__(self, *, table: str, operation: str, code: str, message: str) -> None:
        super().__init__(
            f"{operation} on table {table!r} was rejected with {code}: {message}",
            next_step="check that the table is one of this application's, then the request against the API reference",
        )
        self.table = table
        self.operation = operation
        self.code = code
        self.message = message


class StreamThrottledError(KclError):
    """Kinesis refused a request: the shard's or the stream's quota is used up."""

    retryable = True

    def __init__(self, *, stream: str, shard_id: str | None, operation: str) -> None:
        where = f"shard {shard_id!r} of stream {stream!r}" if shard_id else f"stream {stream!r}"
        super().__init__(f"{operation} on {where} was throttled", next_step="wait and retry")
        self.stream = stream
        self.shard_id = shard_id
        self.operation = operation


class StreamNotReadyError(KclError):
    """The stream is being created or deleted; its shards cannot be listed now."""

    retryable = True

    def __init__(self, *, stream: str, status: str) -> None:
        super().__init__(f"stream {stream!r} is {status}", next_step="wait until the stream is ACTIVE")
        self.stream = stream
        self.status = status


class StreamGoneError(KclError):
    """The stream, or the shard asked for, does not exist."""

    def __init__(self, *, stream: str, shard_id: str | None = None) -> None:
        what = f"shard {shard_id!r} of stream {stream!r}" if shard_id else f"stream {stream!r}"
        super().__init__(f"{what} does not exist", next_step="check the name, region and account of the stream")
        self.stream = stream
        self.shard_id = shard_id


class ExpiredIteratorError(KclError):
    """A shard iterator was used more than five minutes after it was given, or is not valid."""

    retryable = True

    def __init__(self, *, stream: str, shard_id: str | None = None) -> None:
        super().__init__(
            f"the iterator of shard {shard_id!r} of stream {stream!r} has expired",
            next_step="get a new iterator from the last position read",
        )
        self.stream = stream
        self.shard_id = shard_id


class KinesisRequestError(KclError):
    """Kinesis rejected a request as invalid: a bug of the caller or an unsupported setting."""

    def __init__(self, *, operation: str, code: str, message: str) -> None:
        super().__init__(
            f"{operation} was rejected with {code}: {message}",
            next_step="compare the request's arguments with the API reference",
        )
        self.operation = operation
        self.code = code
        self.message = message


class ShardReadError(KclError):
    """A shard cannot be read, and repeating will not change that; its lease keeps its checkpoint."""

    def __init__(self, *, lease_key: str, kind: str, cause: str) -> None:
        super().__init__(
            f"lease {lease_key!r} cannot be read: {kind}: {cause}",
            next_step="do what the cause asks for, then start the worker again",
        )
        self.lease_key = lease_key
        self.kind = kind
        self.cause = cause


class ShardGraphError(KclError):
    """ListShards gave shards that contradict each other; nothing was written."""

    retryable = True

    def __init__(self, message: str, *, stream: str, shards: Collection[str]) -> None:
        super().__init__(
            f"stream {stream!r}: {message} ({', '.join(sorted(shards))})",
            next_step="repeat once the reshard has settled",
        )
        self.stream = stream
        self.shards = tuple(sorted(shards))


class LeaseLostError(KclError):
    """The caller acted as owner of a lease that another worker owns now.

    Raised to record processors (by the checkpointer), never between components of this library.
    """

    def __init__(self, *, lease_key: str, worker_id: str, owner: str | None) -> None:
        super().__init__(
            f"lease {lease_key!r} is owned by {owner or 'nobody'}, no longer by {worker_id!r}",
            next_step="stop processing this shard; its new owner resumes from the last checkpoint",
        )
        self.lease_key = lease_key
        self.worker_id = worker_id
        self.owner = owner


class CheckpointRejectedError(KclError):
    """A position was given that may not be checkpointed."""

    def __init__(self, *, lease_key: str, position: str, reason: str) -> None:
        super().__init__(
            f"lease {lease_key!r} cannot be checkpointed at {position}: {reason}",
            next_step="checkpoint a position between the last checkpoint and the last delivered record",
        )
        self.lease_key = lease_key
        self.position = position
        self.reason = reason


class CommitConflictError(KclError):
    """Other writers kept changing the table; the batch was not committed and will be read again."""

    retryable = True

    def __init__(self, *, table: str, attempts: int, cause: str) -> None:
        super().__init__(
            f"table {table!r} refused the commit {attempts} times: {cause}",
            next_step="the batch is read again; if it repeats, lower the number of writers or batch more",
        )
        self.table = table
        self.attempts = attempts
        self.cause = cause


class InvariantViolatedError(KclError):
    """A bug of this library. Never caught; stops the process before it can do harm."""

    def __init__(self, invariant: str, **facts: object) -> None:
        super().__init__(
            f"broken invariant: {invariant} ({', '.join(f'{name}={value!r}' for name, value in facts.items())})",
            next_step="report it with this message; no data was written after it was found",
        )
        self.invariant = invariant
        self.facts = facts
