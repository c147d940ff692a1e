"""kinesis-mock (npm package kinesis-local), the independent referee of our own Kinesis."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import urllib3

from kcl_core.clock import SystemClock
from kcl_core.runtime import StopSignal

VERSION = "0.6.2"
FOLDER = Path(__file__).parents[2] / "node_modules"
START = timedelta(seconds=60)
# Without a host setting it would listen on every interface.
LOOPBACK_ONLY = """
const net = require("net"); const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  if (typeof args[0] === "object" && args[0] !== null && "port" in args[0]) args[0].host = "127.0.0.1";
  else if (typeof args[0] === "number") args.splice(1, typeof args[1] === "string" ? 1 : 0, "127.0.0.1");
  return listen.apply(this, args);
};
"""


def why_absent() -> str | None:
    """Return why it cannot be had here, or None after installing it if need be."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "Node.js and npm are not installed"
    if not (FOLDER / "kinesis-local" / "main.js").is_file():
        command = ["npm", "install", "--no-save", "--no-package-lock", "--silent", f"kinesis-local@{VERSION}"]
        try:
            ended = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, timeout=180, check=False)
        except subprocess.TimeoutExpired:
            return "npm could not install kinesis-local in three minutes"
        if ended.returncode != 0:
            return f"npm could not install kinesis-local: {ended.stderr.decode()[-200:]}"
    return None


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run it on free ports; give its endpoint."""
    plain, tls = _free_ports()
    preload = folder / "loopback.js"
    preload.write_text(LOOPBACK_ONLY)
    package = FOLDER / "kinesis-local"
    changes = (
        "CREATE_STREAM",
        "DELETE_STREAM",
        "SPLIT_SHARD",
        "MERGE_SHARDS",
        "UPDATE_SHARD_COUNT",
        "REGISTER_STREAM_CONSUMER",
    )
    environment = {
        **os.environ,
        "KINESIS_MOCK_CERT_PATH": str(package / "server.json"),
        "KINESIS_MOCK_PLAIN_PORT": str(plain),
        "KINESIS_MOCK_TLS_PORT": str(tls),
        "SHARD_LIMIT": "1000",
        "LOG_LEVEL": "ERROR",
        "NODE_NO_WARNINGS": "1",
        **{f"{change}_DURATION": "5ms" for change in changes},
    }
    command = ["node", "-r", str(preload), str(package / "main.js")]
    with (folder / "kinesis-mock.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            endpoint = f"http://127.0.0.1:{plain}"
            _wait_until_up(endpoint, process)
            yield endpoint
        finally:
            # It does not end on SIGTERM while a client keeps a connection.
            process.kill()
            process.wait()


def _wait_until_up(endpoint: str, process: "subprocess.Popen[bytes]") -> None:
    clock, pause, http = SystemClock(), StopSignal(), urllib3.PoolManager(retries=False, timeout=2)
    deadline = clock.monotonic() + START.total_seconds()
    while True:
        assert process.poll() is None, f"kinesis-mock ended with status {process.returncode}"
        assert clock.monotonic() < deadline, "kinesis-mock did not start"
        try:
            http.request("GET", f"{endpoint}/healthcheck")
        except urllib3.exceptions.HTTPError:
            pause.wait(timedelta(milliseconds=100))
        else:
            return


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
