"""The producer as a process of its own, and what it says of its progress."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kcl_core.errors import EndpointUnavailableError
from kcl_dagster.demo.system import REPOSITORY

END_SECONDS = 10


class ReplayProcess:
    """A running `kcl_dagster.demo.flights`.

    Attributes:
        sent: rows acknowledged so far.
        total: rows to send; None if there is no end, or it is not known yet.
        done: whether the producer came to its end.
    """

    def __init__(self, ledger: Path, log: Path, options: Sequence[str]) -> None:
        self.sent = 0
        self.total: int | None = None
        self.done = False
        self._unfinished = b""
        self._log_path = log
        self._log = log.open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "kcl_dagster.demo.flights", f"--ledger={ledger}", *options],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C is for the demo, which then ends the producer in order.
            start_new_session=True,
        )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def news(self) -> list[dict[str, Any]]:
        """Return what the producer said since the last call, and take over its counts.

        Raises:
            EndpointUnavailableError: it ended before its end.
        """
        status = self._process.poll()
        output = self._process.stdout
        said = (output.read() if output is not None else None) or b""
        *lines, self._unfinished = (self._unfinished + said).split(b"\n")
        news: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
        for each in news:
            self.sent = each["sent"]
            self.total = each["total"]
            self.done = self.done or each["event"] == "done"
        if status is not None and not self.done:
            raise EndpointUnavailableError(
                service="the producer", operation="replay", cause=f"it ended with status {status}, see {self._log_path}"
            )
        return news

    def close(self) -> None:
        """End the producer; what it has sent by then is in its ledger."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
