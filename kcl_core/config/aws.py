"""Where AWS is, and as whom to call it. The only module besides the repositories that knows boto3."""

from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from kcl_core.config.section import Section

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient


class AwsConfig(Section):
    """Region, endpoints and profile. Credentials come from AWS's default chain, never from settings."""

    region_name: str | None = None
    """Default: AWS's own chain (AWS_REGION, the profile, the instance)."""

    profile_name: str | None = None
    """Named profile of the shared credentials file."""

    kinesis_endpoint_url: str | None = None
    """Only for emulators and private endpoints."""

    dynamodb_endpoint_url: str | None = None
    """Only for emulators and private endpoints."""

    def session(self) -> boto3.Session:
        """Return a session that refreshes its credentials by itself."""
        return boto3.Session(region_name=self.region_name, profile_name=self.profile_name)

    def dynamodb(self) -> "DynamoDBClient":
        """Return a DynamoDB client; thread-safe, to be shared."""
        return self.session().client("dynamodb", endpoint_url=self.dynamodb_endpoint_url, config=_client_config())

    def kinesis(self) -> "KinesisClient":
        """Return a boto3 Kinesis client, for administration and for writing; reading goes through `streams`."""
        return self.session().client("kinesis", endpoint_url=self.kinesis_endpoint_url, config=_client_config())


def _client_config() -> Config:
    # 60 s is KCL's dynamoDbRequestTimeout; "standard" retries throttling with full jitter.
    return Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=32,
    )
