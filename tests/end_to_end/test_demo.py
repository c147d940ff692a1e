"""`make demo` as a user runs it."""

import json
import os
import subprocess
import sys

import psutil
import pytest

from kcl_dagster.demo.system import REPOSITORY

MARK = "DEMO_TEST_MARK"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def processes_marked(mark: str) -> list[str]:
    """Return the command lines of all processes that inherited the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue  # ended meanwhile, or not ours to look at
    return found


def test_the_demo_ends_well_and_leaves_no_process_behind(application_name: str) -> None:
    command = [sys.executable, "-m", "kcl_dagster.demo", "--json"]
    environment = {**os.environ, MARK: application_name}
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    summary = json.loads(ended.stdout)
    assert summary["exactly_once"] is True
    assert summary["sent"] == summary["landed"] == 27_004
    assert summary["duplicates"] == summary["missing"] == summary["unexpected"] == 0
    assert summary["aggregated"] > 9_000
    assert len(summary["stream_shards"]) == 6
    assert summary["recovery_seconds"] > 0
    assert all(window["computed"] for window in summary["windows"])
    assert processes_marked(application_name) == []
