"""Dagster's webserver, daemon and code server as child processes, and questions to its GraphQL."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import urllib3

from kcl_core.clock import Clock
from kcl_core.errors import EndpointUnavailableError
from kcl_core.runtime import StopSignal

LOOPBACK = "127.0.0.1"
STARTUP = timedelta(seconds=90)
SHUTDOWN = timedelta(seconds=20)
POLL = timedelta(milliseconds=250)
RUNS_END = timedelta(seconds=20)

ACTIVE_RUNS = """
query { runsOrError(filter: {statuses: [QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING]}) {
  ... on Runs { results { runId } } } }
"""
TERMINATE_RUNS = """
mutation ($runIds: [String!]!) { terminateRuns(runIds: $runIds) { __typename } }
"""

_log = logging.getLogger(__name__)


class DagsterServices:
    """A running Dagster of this repository's `workspace.yaml`, with its own home folder.

    Attributes:
        url: address of the UI.
    """

    def __init__(self, home: Path, repository: Path, environment: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._http = urllib3.PoolManager(retries=False, timeout=10)
        self._log = (home.parent / "dagster.log").open("ab")
        home.mkdir(parents=True, exist_ok=True)
        (home / "dagster.yaml").write_text((repository / "dagster.yaml").read_text())
        port = _free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        self.home = home
        self._process = subprocess.Popen(  # noqa: S603 - our own arguments
            [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", LOOPBACK, "-p", str(port)],
            cwd=repository,
            env={**os.environ, **environment, "DAGSTER_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_until_up(self, pause: StopSignal) -> bool:
        """Wait until GraphQL answers with our code location loaded; False if ``pause`` was set before.

        Raises:
            EndpointUnavailableError: Dagster ended, or is not up after 90 s; its log says why.
        """
        deadline = self._clock.monotonic() + STARTUP.total_seconds()
        query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"
        while not pause.wait(POLL):
            if self._process.poll() is not None:
                raise self._unavailable(f"it ended with status {self._process.returncode}")
            if self._clock.monotonic() > deadline:
                raise self._unavailable(f"it is not up after {STARTUP.total_seconds():.0f} s")
            try:
                if self.ask(query)["repositoriesOrError"].get("nodes"):
                    return True
            except EndpointUnavailableError:
                continue
        return False

    def ask(self, query: str, /, **variables: object) -> dict[str, Any]:
        """Return the data that GraphQL answers.

        Raises:
            EndpointUnavailableError: no answer, or an answer with errors.
        """
        try:
            answer = self._http.request("POST", f"{self.url}/graphql", json={"query": query, "variables": variables})
            body: dict[str, Any] = answer.json()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise self._unavailable(str(error)) from error
        if body.get("errors"):
            raise self._unavailable(str(body["errors"][0]["message"]))
        data: dict[str, Any] = body["data"]
        return data

    def close(self) -> None:
        """End the runs in good order, then everything that was started; return when no process is left."""
        if self._process.poll() is None:
            self._end_runs()
        family = self._family()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            psutil.wait_procs([psutil.Process(self._process.pid)], timeout=SHUTDOWN.total_seconds())
        family += [process for process in self._family() if process not in family]
        _, alive = psutil.wait_procs(family, timeout=2)
        for process in alive:
            process.terminate()
        _, alive = psutil.wait_procs(alive, timeout=5)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=5)
        self._process.wait(timeout=5)
        self._log.close()

    def _end_runs(self) -> None:
        """Ask Dagster to terminate what runs, as a user would, and wait: workers give their leases up."""
        pause, deadline = StopSignal(), self._clock.monotonic() + RUNS_END.total_seconds()
        try:
            runs = [run["runId"] for run in self._active_runs()]
            if runs:
                self.ask(TERMINATE_RUNS, runIds=runs)
            while self._active_runs() and self._clock.monotonic() < deadline:
                pause.wait(POLL)
        except EndpointUnavailableError:
            # Dagster does not answer any more; its processes are ended below all the same.
            _log.warning("Dagster did not end its runs", exc_info=True)

    def _active_runs(self) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = self.ask(ACTIVE_RUNS)["runsOrError"]["results"]
        return runs

    def _family(self) -> list[psutil.Process]:
        """Return the child and all its descendants, also those whose own parent is gone."""
        session = self._process.pid
        members = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == session:
                    members.append(process)
            except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
                continue
        return members

    def _unavailable(self, cause: str) -> EndpointUnavailableError:
        return EndpointUnavailableError(
            service="Dagster", operation=f"at {self.url}, log {self._log.name}", cause=cause
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
