"""Kinesis over HTTP: botocore signs, urllib3 sends, msgspec parses.

Nothing is retried here but a connection that had gone stale in the pool: errors are typed, and the components
that call this run again at their own pace.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

import msgspec
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, NoCredentialsError, PartialCredentialsError, ProfileNotFound

from kcl_core.config import AwsConfig
from kcl_core.errors import (
    AccessDeniedError,
    ConfigurationError,
    EndpointUnavailableError,
    ExpiredIteratorError,
    KclError,
    KinesisRequestError,
    StreamGoneError,
    StreamNotReadyError,
    StreamThrottledError,
)
from kcl_core.streams.api import GetRecordsAnswer, IteratorPosition, Shard, ShardFilter, StreamAddress, StreamSummary
from kcl_core.streams.decode import (
    decode_describe_stream_summary,
    decode_get_records,
    decode_list_shards,
    decode_shard_iterator,
)

REQUEST_TIMEOUT = timedelta(seconds=30)
"""KCL: PollingConfig.kinesisRequestTimeout."""

_CONNECT_TIMEOUT_SECONDS = 5.0
_CONNECTIONS = 16
_SHARDS_PER_PAGE = 1000
_OK = 200
_FIRST_SERVER_FAULT = 500

_THROTTLED = {
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
}
_DENIED = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "KMSAccessDeniedException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}


class _Fault(msgspec.Struct):
    code: str = msgspec.field(name="__type", default="Unknown")
    message: str = ""
    Message: str = ""


class KinesisHttp:
    """The `KinesisApi` of a real endpoint. Thread-safe; pickled by its settings, so that Spark tasks can have one.

    Credentials come from AWS's default chain in the process that calls, and are refreshed there.
    """

    def __init__(self, aws: AwsConfig, *, request_timeout: timedelta = REQUEST_TIMEOUT) -> None:
        self._aws = aws
        self._request_timeout = request_timeout
        timeout = urllib3.Timeout(connect=_CONNECT_TIMEOUT_SECONDS, read=request_timeout.total_seconds())
        # One immediate repetition if no whole answer came: a kept connection may have been closed by the server.
        # Every call only reads, so that it may be repeated; a request may so take twice its timeout.
        retries = urllib3.Retry(
            total=1, redirect=False, status=0, allowed_methods=None, respect_retry_after_header=False
        )
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS, timeout=timeout, retries=retries)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._aws, self._request_timeout)

    def describe_stream_summary(self, stream: StreamAddress) -> StreamSummary:
        """Describe the stream."""
        body, _ = self._call("DescribeStreamSummary", stream, _address(stream))
        return decode_describe_stream_summary(body)

    def list_shards(self, stream: StreamAddress, shard_filter: ShardFilter | None = None) -> tuple[Shard, ...]:
        """List all shards, over all pages."""
        arguments: dict[str, Any] = {**_address(stream), "MaxResults": _SHARDS_PER_PAGE}
        if shard_filter is not None:
            arguments["ShardFilter"] = _shard_filter(shard_filter)
        shards: list[Shard] = []
        while True:
            body, _ = self._call("ListShards", stream, arguments)
            page, token = decode_list_shards(body)
            shards += page
            if token is None:
                return tuple(shards)
            # The token stands for the stream and the filter; naming them again is an error.
            arguments = {"NextToken": token, "MaxResults": _SHARDS_PER_PAGE}

    def get_shard_iterator(self, stream: StreamAddress, shard_id: str, position: IteratorPosition) -> str:
        """Return an iterator, good for five minutes."""
        arguments: dict[str, Any] = {**_address(stream), "ShardId": shard_id, "ShardIteratorType": position.type}
        if position.sequence_number is not None:
            arguments["StartingSequenceNumber"] = position.sequence_number
        if position.timestamp is not None:
            arguments["Timestamp"] = position.timestamp.timestamp()
        body, _ = self._call("GetShardIterator", stream, arguments, shard_id)
        return decode_shard_iterator(body)

    def get_records(self, stream: StreamAddress, shard_iterator: str, limit: int = 10_000) -> GetRecordsAnswer:
        """Read once.

        Raises:
            ExpiredIteratorError: get a new iterator and repeat.
        """
        arguments = {"ShardIterator": shard_iterator, "Limit": limit, **_arn(stream)}
        body, headers = self._call("GetRecords", stream, arguments)
        return decode_get_records(body, headers)

    @cached_property
    def _signing(self) -> tuple[str, str, Any]:
        """Endpoint, region and credentials, as AWS's default chain gives them.

        Raises:
            ConfigurationError: there is no region or there are no credentials.
        """
        session = self._aws.session()
        if session.region_name is None:
            raise ConfigurationError(
                "no region is set", setting="aws.region_name", next_step="set it, or AWS_REGION in the environment"
            )
        credentials = session.get_credentials()
        if credentials is None:
            raise ConfigurationError(
                "no credentials were found",
                setting="AWS credentials",
                next_step="set up a profile, a role or the AWS_* variables",
            )
        endpoint = self._aws.kinesis_endpoint_url or self._aws.kinesis().meta.endpoint_url
        return endpoint.rstrip("/") + "/", session.region_name, credentials

    def _call(
        self, operation: str, stream: StreamAddress, arguments: Mapping[str, Any], shard_id: str | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return body and headers of the answer; a refusal becomes a typed error."""
        try:
            endpoint, region, credentials = self._signing
            request = AWSRequest(
                "POST",
                endpoint,
                data=msgspec.json.encode(arguments),
                headers={
                    "Content-Type": "application/x-amz-json-1.1",
                    "X-Amz-Target": f"Kinesis_20131202.{operation}",
                },
            )
            SigV4Auth(credentials.get_frozen_credentials(), "kinesis", region).add_auth(request)
            answer = self._pool.request("POST", endpoint, body=request.data, headers=dict(request.headers.items()))
        except ProfileNotFound as error:
            raise ConfigurationError(
                str(error), setting="aws.profile_name", next_step="correct it, or add the profile to the shared files"
            ) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise ConfigurationError(
                str(error), setting="AWS credentials", next_step="set up a profile, a role or the AWS_* variables"
            ) from error
        except (urllib3.exceptions.HTTPError, BotoCoreError) as error:
            raise EndpointUnavailableError(service="Kinesis", operation=operation, cause=str(error)) from error
        if answer.status != _OK:
            raise _typed(operation, stream, shard_id, answer.status, answer.data)
        return answer.data, answer.headers


def _rebuild(aws: AwsConfig, request_timeout: timedelta) -> KinesisHttp:
    return KinesisHttp(aws, request_timeout=request_timeout)


def _address(stream: StreamAddress) -> dict[str, str]:
    return {"StreamName": stream.name, **_arn(stream)}


def _arn(stream: StreamAddress) -> dict[str, str]:
    return {"StreamARN": stream.arn} if stream.arn is not None else {}


def _shard_filter(shard_filter: ShardFilter) -> dict[str, Any]:
    members: dict[str, Any] = {"Type": shard_filter.type}
    if shard_filter.timestamp is not None:
        members["Timestamp"] = shard_filter.timestamp.timestamp()
    if shard_filter.shard_id is not None:
        members["ShardId"] = shard_filter.shard_id
    return members


def _typed(operation: str, stream: StreamAddress, shard_id: str | None, status: int, body: bytes) -> KclError:
    try:
        fault = msgspec.json.decode(body, type=_Fault)
    except msgspec.DecodeError:
        fault = _Fault(message=body[:200].decode(errors="replace"))
    code, message = fault.code.rpartition("#")[2], fault.message or fault.Message
    match code:
        case _ if code in _THROTTLED:
            error: KclError = StreamThrottledError(stream=stream.name, shard_id=shard_id, operation=operation)
        case _ if code in _DENIED:
            error = AccessDeniedError(action=f"kinesis:{operation}", resource=stream.arn or stream.name)
        case "ExpiredIteratorException":
            error = ExpiredIteratorError(stream=stream.name, shard_id=shard_id)
        case "InvalidArgumentException" if operation == "GetRecords":
            # The iterator, its only argument of substance (KCL: PrefetchRecordsPublisher gets a new one too).
            error = ExpiredIteratorError(stream=stream.name, shard_id=shard_id)
        case "ResourceNotFoundException":
            error = StreamGoneError(stream=stream.name, shard_id=shard_id)
        case "ResourceInUseException":
            error = StreamNotReadyError(stream=stream.name, status="not ACTIVE")
        case _ if status >= _FIRST_SERVER_FAULT:
            cause = f"{status} {code} {message}".strip()
            error = EndpointUnavailableError(service="Kinesis", operation=operation, cause=cause)
        case _:
            error = KinesisRequestError(operation=operation, code=code, message=message)
    return error
