"""How fast one GetRecords answer becomes records: `KinesisHttp` beside boto3, on the same bytes in the same run.

    python benchmarks/decode.py [--rounds 15] [--sizes 100 1024]

Prints its method and the machine with the figures. Only the ratios can be compared between machines.
"""

import argparse
import os
import platform
import resource
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import urllib3
from botocore.parsers import create_parser
from botocore.session import get_session

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig
from kcl_core.streams.api import IteratorPosition, StreamAddress
from kcl_core.streams.decode import decode_get_records
from kcl_core.streams.signed_http import KinesisHttp
from kcl_core.testing.server import CREDENTIALS, EmbeddedAws

SHARD = "shardId-000000000000"
RECORDS = 8_000
PER_PUT = 500
METHOD = f"""\
One shard of the embedded Kinesis holds {RECORDS} records of random bytes. One GetRecords answer with all of them is
read again and again by both, in turn, in one process with one thread; the server is another process on loopback.
Two rounds to warm up, then the median of each. MB is 10**6 bytes of record data, before base64.
  parser:   bytes of the body in memory -> records. Ours: decode_get_records. boto3's: botocore's JSON parser.
  request:  signing, HTTP without TLS, parsing. Ours: KinesisHttp.get_records. boto3's: client.get_records.
  wall:     time passed, the server's included.   cpu: user and system time of this process alone."""


class Spent(NamedTuple):
    """Seconds of one round, or the medians of many."""

    wall: float
    cpu: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds of each (15)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1024], help="bytes per record (100 1024)")
    arguments = parser.parse_args()
    os.environ.update(CREDENTIALS)
    os.environ.pop("AWS_PROFILE", None)
    print(machine(), METHOD, sep="\n\n", end="\n\n")
    print(f"{'record':>8} {'path':<8} {'time':<5} {'ours MB/s':>10} {'boto3 MB/s':>11} {'ratio':>7}")
    with EmbeddedAws.start() as aws:
        for size in arguments.sizes:
            measure(aws.config(), size, arguments.rounds)


def measure(aws: AwsConfig, size: int, rounds: int) -> None:
    """Fill a stream with records of ``size`` bytes and print the figures for it."""
    stream = fill(aws, size)
    ours, boto = KinesisHttp(aws), aws.kinesis()
    iterator = ours.get_shard_iterator(stream, SHARD, IteratorPosition("TRIM_HORIZON"))
    body, headers = captured(aws, iterator)
    shape = get_session().get_service_model("kinesis").operation_model("GetRecords").output_shape
    if shape is None:
        message = "botocore does not know the answer of GetRecords"
        raise RuntimeError(message)
    botocore_parser = create_parser("json")
    answer = {"status_code": 200, "headers": headers, "body": body}
    agree(decode_get_records(body, headers).records, botocore_parser.parse(answer, shape)["Records"])
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "parser": (lambda: decode_get_records(body, headers), lambda: botocore_parser.parse(answer, shape)),
        "request": (
            lambda: ours.get_records(stream, iterator),
            lambda: boto.get_records(ShardIterator=iterator, Limit=10_000),
        ),
    }
    megabytes = RECORDS * size / 1e6
    for path, (our_call, boto_call) in pairs.items():
        our, their = in_turn(our_call, boto_call, rounds)
        for name, mine, peers in (("wall", our.wall, their.wall), ("cpu", our.cpu, their.cpu)):
            figures = f"{megabytes / mine:>10.0f} {megabytes / peers:>11.1f} {peers / mine:>6.1f}x"
            print(f"{size:>6} B {path:<8} {name:<5} {figures}", flush=True)


def fill(aws: AwsConfig, size: int) -> StreamAddress:
    """Create a stream and put the records."""
    client, name = aws.kinesis(), f"decode-{size}"
    client.create_stream(StreamName=name, ShardCount=1)
    for first in range(0, RECORDS, PER_PUT):
        answer = client.put_records(
            StreamName=name,
            Records=[{"Data": os.urandom(size), "PartitionKey": f"key-{first + i}"} for i in range(PER_PUT)],
        )
        if answer["FailedRecordCount"]:
            message = f"{answer['FailedRecordCount']} records were not stored"
            raise RuntimeError(message)
    return StreamAddress(name)


def captured(aws: AwsConfig, iterator: str) -> tuple[bytes, dict[str, str]]:
    """Return the answer's body and headers as they come; the embedded Kinesis asks for no signature."""
    answer = urllib3.request(
        "POST",
        f"{aws.kinesis_endpoint_url}/",
        json={"ShardIterator": iterator, "Limit": 10_000},
        headers={"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "Kinesis_20131202.GetRecords"},
    )
    return answer.data, dict(answer.headers)


def agree(ours: tuple[Any, ...], theirs: list[dict[str, Any]]) -> None:
    """Raise unless both read the same: a parser that loses records is fast, too."""
    mine = [(each.sequence_number, each.partition_key, each.data) for each in ours]
    if len(mine) != RECORDS or mine != [
        (each["SequenceNumber"], each["PartitionKey"], each["Data"]) for each in theirs
    ]:
        message = "the two read different records"
        raise RuntimeError(message)


def in_turn(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple[Spent, Spent]:
    """Call both in turn and return the medians of each."""
    clock = SystemClock()
    spent: tuple[list[Spent], list[Spent]] = ([], [])
    for number in range(rounds + 2):
        for call, into in zip((one, other), spent, strict=True):
            wall, cpu = clock.monotonic(), cpu_seconds()
            call()
            if number > 1:
                into.append(Spent(clock.monotonic() - wall, cpu_seconds() - cpu))
    first, second = (Spent(median(each.wall for each in of), median(each.cpu for each in of)) for of in spent)
    return first, second


def cpu_seconds() -> float:
    """Return what this process has used so far; `os.times` counts in hundredths, too coarse for one answer."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def machine() -> str:
    """Say what this ran on."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    packages = ", ".join(f"{name} {version(name)}" for name in ("boto3", "botocore", "msgspec", "urllib3"))
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    return (
        f"{model or platform.processor() or platform.machine()}, {os.cpu_count()} cores ({load} at the start), "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}\n{packages}"
    )


if __name__ == "__main__":
    main()
