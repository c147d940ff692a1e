"""Embedded AWS: our Kinesis and moto's DynamoDB, each a process on loopback that ends with this one."""

import importlib.util
import select
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from kcl_core.clock import SystemClock
from kcl_core.config import AwsConfig
from kcl_core.errors import ConfigurationError, EndpointUnavailableError
from kcl_core.testing.control import KinesisControl

HOST = "127.0.0.1"
REGION = "us-east-1"
START_SECONDS = 60.0
"""Generous: a laptop that compiles something else starts Python slowly."""

_NEEDED = ("moto", "flask", "flask_cors", "cbor2")


class _Ready(msgspec.Struct):
    port: int


@dataclass(slots=True)
class ServerProcess:
    """One server: a process that reported its port."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: IO[bytes]
    port: int = 0

    @classmethod
    def spawn(cls, name: str, arguments: list[str], log_dir: Path | None) -> Self:
        """Start ``python -m arguments``; `await_ready` must follow."""
        log: IO[bytes] = (log_dir / f"{name}.log").open("ab+") if log_dir else tempfile.TemporaryFile()  # noqa: SIM115
        process = subprocess.Popen(  # noqa: S603 - our own modules
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # Ctrl-C in the terminal is for the parent, which then ends us in order.
            start_new_session=True,
            bufsize=0,
        )
        return cls(name, process, log)

    def await_ready(self) -> None:
        """Wait for the readiness line.

        Raises:
            EndpointUnavailableError: the process ended, or did not get ready in time; with the end of its log.
        """
        clock, line = SystemClock(), b""
        deadline = clock.monotonic() + START_SECONDS
        output = self.process.stdout
        while output is not None and not line.endswith(b"\n"):
            left = deadline - clock.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                break
            part = output.read(256)
            if not part:
                break
            line += part
        if not line.endswith(b"\n"):
            self.log.seek(0)
            tail = self.log.read().decode(errors="replace")[-2000:].strip()
            self.close()
            raise EndpointUnavailableError(
                service=f"the embedded {self.name}", operation="start", cause=tail or f"not ready in {START_SECONDS} s"
            )
        self.port = msgspec.json.decode(line, type=_Ready).port

    def close(self) -> None:
        """End the process and wait until it is gone."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()


class EmbeddedAws:
    """A running embedded Kinesis and DynamoDB; also a context manager.

    Attributes:
        kinesis_endpoint: as ``http://127.0.0.1:PORT``.
        dynamodb_endpoint: as ``http://127.0.0.1:PORT``.
        kinesis_control: moves Kinesis's time, switches its quotas, orders faults.
    """

    def __init__(self, kinesis: ServerProcess, dynamodb: ServerProcess) -> None:
        self._processes = (kinesis, dynamodb)
        self.kinesis_endpoint = f"http://{HOST}:{kinesis.port}"
        self.dynamodb_endpoint = f"http://{HOST}:{dynamodb.port}"
        self.kinesis_control = KinesisControl(HOST, kinesis.port)

    @classmethod
    def start(cls, *, log_dir: Path | None = None, kinesis_port: int = 0, dynamodb_port: int = 0) -> Self:
        """Start both and return when they answer, in about a second.

        Args:
            log_dir: gets ``kinesis.log`` and ``dynamodb.log``; by default nothing is kept.
            kinesis_port: 0 takes a free one.
            dynamodb_port: 0 takes a free one.

        Raises:
            ConfigurationError: the extra ``testing`` is not installed.
            EndpointUnavailableError: a server did not start; nothing is left running.
        """
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigurationError(
                f"the embedded AWS needs {', '.join(missing)}",
                setting="testing",
                next_step="install the extra: pip install 'kcl-dagster[testing]'",
            )
        if log_dir is not None:
            log_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            started = []
            for name, arguments in (
                ("kinesis", ["kcl_core.testing.kinesis", "--with-parent", f"--port={kinesis_port}"]),
                ("dynamodb", ["kcl_core.testing.dynamodb", "--with-parent", f"--port={dynamodb_port}"]),
            ):
                started.append(ServerProcess.spawn(name, arguments, log_dir))
                undo.callback(started[-1].close)
            for process in started:
                process.await_ready()
            undo.pop_all()
        return cls(*started)

    def close(self) -> None:
        """End both servers; what they held is gone."""
        for process in self._processes:
            process.close()

    def check(self) -> None:
        """Raise if a server has ended by itself.

        Raises:
            EndpointUnavailableError: with the server's name and exit status.
        """
        for process in self._processes:
            status = process.process.poll()
            if status is not None:
                raise EndpointUnavailableError(
                    service=f"the embedded {process.name}", operation="any call", cause=f"it ended with status {status}"
                )

    @property
    def process_ids(self) -> tuple[int, int]:
        """Process ids of Kinesis and DynamoDB."""
        kinesis, dynamodb = self._processes
        return kinesis.process.pid, dynamodb.process.pid

    def config(self) -> AwsConfig:
        """Return the settings that lead here. Credentials are none of them: see `environment`."""
        return AwsConfig(
            region_name=REGION,
            kinesis_endpoint_url=self.kinesis_endpoint,
            dynamodb_endpoint_url=self.dynamodb_endpoint,
        )

    def environment(self) -> dict[str, str]:
        """Return the environment variables that lead a process here, dummy credentials included."""
        return {
            "KCL_AWS__KINESIS_ENDPOINT_URL": self.kinesis_endpoint,
            "KCL_AWS__DYNAMODB_ENDPOINT_URL": self.dynamodb_endpoint,
            "KCL_AWS__REGION_NAME": REGION,
            **CREDENTIALS,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What boto3 needs before it sends anything; the embedded servers check no signature."""
