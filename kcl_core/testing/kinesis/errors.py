"""What a client is told when a request fails, with AWS's names."""

from http import HTTPStatus


class ApiError(Exception):
    """An error answer, as AWS gives it.

    Attributes:
        code: AWS's name, as ``ResourceNotFoundException``.
        status: HTTP status; 400 for everything that is the caller's doing.
    """

    def __init__(self, code: str, message: str, *, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


def not_found(what: str) -> ApiError:
    """Return the error for a stream, shard or consumer that does not exist."""
    return ApiError("ResourceNotFoundException", f"{what} not found.")


def in_use(message: str) -> ApiError:
    """Return the error for a resource that is being changed, or exists already."""
    return ApiError("ResourceInUseException", message)


def invalid(message: str) -> ApiError:
    """Return the error for an argument that contradicts the present state."""
    return ApiError("InvalidArgumentException", message)


def malformed(message: str) -> ApiError:
    """Return the error for an argument that is wrong whatever the state."""
    return ApiError("ValidationException", message)


def limit_exceeded(message: str) -> ApiError:
    """Return the error for a limit of the account or the stream."""
    return ApiError("LimitExceededException", message)


def throttled(message: str) -> ApiError:
    """Return the error for a shard whose throughput is used up."""
    return ApiError("ProvisionedThroughputExceededException", message)
