"""Every case runs against every server that is there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support import kinesis_mock

from kcl_core.config import AwsConfig
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.server import REGION, EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

OURS, MOCK = "ours", "kinesis-mock"


@dataclass(frozen=True)
class Server:
    """One Kinesis: through boto3, and through our own client."""

    name: str
    client: "KinesisClient"
    http: KinesisHttp


@dataclass(frozen=True)
class Stream:
    """A fresh stream of one of the servers."""

    name: str
    server: Server

    @property
    def client(self) -> "KinesisClient":
        return self.server.client

    def settle(self) -> None:
        """Wait until a change of the stream is done."""
        waiter = self.client.get_waiter("stream_exists")
        waiter.wait(StreamName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})


@pytest.fixture(scope="session", params=[OURS, pytest.param(MOCK, marks=pytest.mark.kinesis_mock)])
def server(
    request: pytest.FixtureRequest, embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    if request.param == OURS:
        yield _server(OURS, embedded_aws.config())
        return
    absent = kinesis_mock.why_absent()
    if absent is not None:
        pytest.skip(absent)
    with kinesis_mock.running(tmp_path_factory.mktemp("kinesis-mock")) as endpoint:
        yield _server(MOCK, AwsConfig(region_name=REGION, kinesis_endpoint_url=endpoint))


@pytest.fixture
def stream(server: Server, application_name: str) -> Iterator[Stream]:
    """A stream of two shards, ACTIVE."""
    name = application_name[-100:].strip("-.")
    server.client.create_stream(StreamName=name, ShardCount=2)
    made = Stream(name, server)
    made.settle()
    yield made
    server.client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)


def _server(name: str, config: AwsConfig) -> Server:
    return Server(name, config.kinesis(), KinesisHttp(config))
