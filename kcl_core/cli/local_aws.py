"""`kcl local-aws`: the embedded Kinesis and DynamoDB on the command line."""

import json
import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from kcl_core.runtime import StopSignal
from kcl_core.testing.server import EmbeddedAws

_CHECK_EVERY = timedelta(seconds=1)


def local_aws(
    *,
    stream: Annotated[str | None, typer.Option(help="Create this stream.", metavar="NAME")] = None,
    shards: Annotated[int, typer.Option(help="Shards of the stream.", min=1)] = 1,
    kinesis_port: Annotated[int, typer.Option(help="0 takes a free port.", min=0, max=65535)] = 0,
    dynamodb_port: Annotated[int, typer.Option(help="0 takes a free port.", min=0, max=65535)] = 0,
    log_dir: Annotated[Path | None, typer.Option(help="Keep the servers' logs here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run Kinesis and DynamoDB on this machine, in memory, until Ctrl-C."""
    stop = StopSignal()
    with (
        _ending_signals(stop),
        EmbeddedAws.start(log_dir=log_dir, kinesis_port=kinesis_port, dynamodb_port=dynamodb_port) as aws,
    ):
        if stream is not None:
            _create_stream(aws, stream, shards)
        typer.echo(_as_json(aws, stream, shards) if as_json else _as_text(aws, stream, shards))
        while not stop.wait(_CHECK_EVERY):
            aws.check()
    if not as_json:
        typer.echo("Stopped.")


@contextmanager
def _ending_signals(stop: StopSignal) -> Iterator[None]:
    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _create_stream(aws: EmbeddedAws, name: str, shards: int) -> None:
    # This process only: whoever uses the servers gets the same from the lines that we print.
    os.environ.update(aws.environment())
    aws.config().kinesis().create_stream(StreamName=name, ShardCount=shards)


def _as_json(aws: EmbeddedAws, stream: str | None, shards: int) -> str:
    facts = {
        "kinesis_endpoint": aws.kinesis_endpoint,
        "dynamodb_endpoint": aws.dynamodb_endpoint,
        "environment": aws.environment(),
        "stream": None if stream is None else {"name": stream, "shards": shards},
        "process_ids": list(aws.process_ids),
    }
    return json.dumps(facts)


def _as_text(aws: EmbeddedAws, stream: str | None, shards: int) -> str:
    name = stream or "my-stream"
    heading = [f"Kinesis   {aws.kinesis_endpoint}", f"DynamoDB  {aws.dynamodb_endpoint}"]
    if stream is not None:
        heading.append(f"Stream    {stream} ({shards} {'shard' if shards == 1 else 'shards'})")
    lines = [
        *heading,
        "",
        "Paste into the shell that runs your program:",
        *_exports(aws.environment()),
        "",
        "From Python:",
        "  import boto3",
        f'  kinesis = boto3.client("kinesis", endpoint_url="{aws.kinesis_endpoint}")',
        f'  kinesis.put_record(StreamName="{name}", PartitionKey="1", Data=b"hello")',
        "",
        "Everything is in memory. Ctrl-C ends both.",
    ]
    return "\n".join(lines)


def _exports(environment: Mapping[str, str]) -> list[str]:
    return [f"  export {name}={shlex.quote(value)}" for name, value in environment.items()]
