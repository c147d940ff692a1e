"""The `kcl` command as a user runs it."""

import json
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import boto3

from kcl_core.testing.server import CREDENTIALS

KCL = str(Path(sys.executable).with_name("kcl"))


def test_the_version_is_that_of_the_distribution() -> None:
    ended = subprocess.run([KCL, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert version("kcl-dagster") in ended.stdout


def test_help_names_the_commands() -> None:
    ended = subprocess.run([KCL, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "local-aws" in ended.stdout


def test_local_aws_serves_a_stream_until_it_is_interrupted() -> None:
    process = subprocess.Popen(
        [KCL, "local-aws", "--json", "--stream", "orders", "--shards", "3"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        endpoint = told["environment"]["KCL_AWS__KINESIS_ENDPOINT_URL"]
        client = boto3.client(
            "kinesis",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        summary = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
        assert summary["OpenShardCount"] == 3
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout.close()
