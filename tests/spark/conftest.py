"""One Spark session for all tests here: starting one takes seconds."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kcl_core.testing.server import EmbeddedAws
from kcl_dagster.spark.config import SparkPathConfig
from kcl_dagster.spark.session import open_session


@pytest.fixture(scope="session")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    """A session on two cores. Started after the embedded AWS: its Python workers inherit the dummy credentials."""
    assert embedded_aws.kinesis_endpoint
    session = open_session(SparkPathConfig(master="local[2]", driver_memory="512m"), "tests")
    yield session
    session.stop()
