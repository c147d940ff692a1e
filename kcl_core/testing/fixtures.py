"""Fixtures for pytest, loaded into every run by the entry point: so nothing heavy is imported before it is used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

    from kcl_core.simulation.clock import VirtualClock
    from kcl_core.testing.server import EmbeddedAws


# The contracts' assertions then say what they compared, as those of test modules do.
pytest.register_assert_rewrite("kcl_core.testing.contracts")


class KinesisStream(NamedTuple):
    """A fresh stream with one shard, ACTIVE, and a boto3 client for it."""

    name: str
    client: "KinesisClient"
    arn: str


@pytest.fixture(scope="session")
def embedded_aws() -> "Iterator[EmbeddedAws]":
    """One embedded Kinesis and DynamoDB for the whole run; boto3 finds dummy credentials in the environment."""
    from kcl_core.testing.server import CREDENTIALS, EmbeddedAws  # noqa: PLC0415 - see the module's docstring

    with pytest.MonkeyPatch.context() as patch, EmbeddedAws.start() as aws:
        patch.delenv("AWS_PROFILE", raising=False)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield aws


@pytest.fixture
def kinesis_stream(embedded_aws: "EmbeddedAws", application_name: str) -> "Iterator[KinesisStream]":
    """A fresh stream with one shard, removed after the test."""
    client = embedded_aws.config().kinesis()
    client.create_stream(StreamName=application_name, ShardCount=1)
    summary = client.describe_stream_summary(StreamName=application_name)["StreamDescriptionSummary"]
    yield KinesisStream(application_name, client, summary["StreamARN"])
    client.delete_stream(StreamName=application_name, EnforceConsumerDeletion=True)


@pytest.fixture
def virtual_clock() -> "VirtualClock":
    """A clock that moves only when told to."""
    from kcl_core.simulation.clock import VirtualClock  # noqa: PLC0415

    return VirtualClock()


@pytest.fixture
def application_name(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test of this machine uses: for applications, tables and streams."""
    import os  # noqa: PLC0415
    import re  # noqa: PLC0415

    node = request.node.nodeid
    readable = re.sub(r"[^a-zA-Z0-9_.-]+", "-", request.node.name)[:60]
    return f"{readable}-{os.getpid()}-{abs(hash(node)):x}"
