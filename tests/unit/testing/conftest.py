"""Servers of our own: these tests move the time and reset everything."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from kcl_core.testing.control import KinesisControl
from kcl_core.testing.fixtures import KinesisStream
from kcl_core.testing.server import REGION, EmbeddedAws

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


@pytest.fixture(scope="session")
def own_aws(embedded_aws: EmbeddedAws) -> Iterator[EmbeddedAws]:
    """Beside the shared one, which sets the credentials."""
    assert embedded_aws.process_ids
    with EmbeddedAws.start() as aws:
        yield aws


@pytest.fixture
def control(own_aws: EmbeddedAws) -> KinesisControl:
    """Of a server that holds nothing."""
    own_aws.kinesis_control.reset()
    return own_aws.kinesis_control


@pytest.fixture
def client(own_aws: EmbeddedAws, control: KinesisControl) -> "KinesisClient":
    """Repeats nothing, so that every answer is seen."""

    assert control.status().calls == {}
    once = Config(retries={"total_max_attempts": 1})
    made: KinesisClient = boto3.client(
        "kinesis", region_name=REGION, endpoint_url=own_aws.kinesis_endpoint, config=once
    )
    return made


@pytest.fixture
def stream(client: "KinesisClient") -> KinesisStream:
    """One shard, made at the server's present time."""
    client.create_stream(StreamName="stream", ShardCount=1)
    arn = client.describe_stream_summary(StreamName="stream")["StreamDescriptionSummary"]["StreamARN"]
    return KinesisStream("stream", client, arn)
