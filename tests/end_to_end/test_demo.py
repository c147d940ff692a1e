"""`make demo` as a user runs it."""

import json
import subprocess
import sys

import psutil
import pytest

from kcl_dagster.demo.system import REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_the_demo_ends_well_and_leaves_no_process_behind() -> None:
    before = {process.pid for process in psutil.process_iter()}
    command = [sys.executable, "-m", "kcl_dagster.demo", "--json"]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    summary = json.loads(ended.stdout)
    assert summary["exactly_once"] is True
    assert summary["sent"] == summary["landed"] == 27_004
    assert summary["duplicates"] == summary["missing"] == summary["unexpected"] == 0
    assert summary["aggregated"] > 9_000
    assert len(summary["shards"]) == 6
    assert summary["recovery_seconds"] > 0
    assert all(window["computed"] for window in summary["windows"])
    # What Dagster or Spark started and did not end would show here.
    left = [process for process in psutil.process_iter(["cmdline"]) if process.pid not in before]
    assert not [
        process
        for process in left
        if "kcl_" in " ".join(process.info["cmdline"] or ()) or "dagster" in str(process.info)
    ]
