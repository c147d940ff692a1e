"""The whole demo system on one machine: embedded AWS, Dagster and a state folder of its own."""

import os
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
STATE_ROOT = REPOSITORY / ".demo"
OWNER_FILE = "owner.pid"

APPLICATION = "flights-demo"
STREAM = "flights"


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Where one run of the demo keeps everything; two runs at a time never share one.

    Attributes:
        root: absolute path.
    """

    root: Path

    @property
    def table(self) -> Path:
        """The Delta table of raw records."""
        return self.root / "tables" / STREAM

    @property
    def dagster_home(self) -> Path:
        """DAGSTER_HOME."""
        return self.root / "dagster"

    @property
    def ledger(self) -> Path:
        """The producer's own count."""
        return self.root / "ledger.jsonl"

    @property
    def logs(self) -> Path:
        """Logs of the embedded AWS."""
        return self.root / "logs"


def new_state_folder(now: datetime) -> StateFolder:
    """Create an empty state folder, and remove those whose owner has ended."""
    STATE_ROOT.mkdir(exist_ok=True)
    for old in STATE_ROOT.iterdir():
        if old.is_dir() and not _is_in_use(old):
            shutil.rmtree(old)
    root = STATE_ROOT / f"{now:%Y%m%d-%H%M%S}-{os.getpid()}"
    for folder in (root, root / "logs", root / "tables"):
        folder.mkdir()
    owner = psutil.Process()
    (root / OWNER_FILE).write_text(f"{owner.pid} {owner.create_time()}")
    return StateFolder(root)


def _is_in_use(folder: Path) -> bool:
    """Whether the process that made ``folder`` still runs (and is not another one with its number)."""
    try:
        pid, created = (folder / OWNER_FILE).read_text().split()
        return abs(psutil.Process(int(pid)).create_time() - float(created)) < 1
    except (OSError, ValueError, psutil.NoSuchProcess):
        return False


def demo_environment(state: StateFolder, first_window: datetime) -> dict[str, str]:
    """Return the settings of the demo as environment: KCL's defaults but for what would make one wait.

    The stream is read from its start, windows last a minute, and the leader looks every few seconds.
    """
    return {
        "KCL_APPLICATION_NAME": APPLICATION,
        "KCL_STREAM_NAME": STREAM,
        "KCL_INITIAL_POSITION__POSITION": "TRIM_HORIZON",
        "KCL_LEASES__FAILOVER_TIME_MILLIS": "10000",
        "KCL_LEASES__LEASE_ASSIGNMENT_INTERVAL_MILLIS": "4000",
        "KCL_ASSIGNMENT__WORKER_METRICS_REPORTER_FREQ_IN_MILLIS": "4000",
        "KCL_PIPELINE__TABLE_LOCATION": str(state.table),
        "KCL_PIPELINE__WINDOW_MINUTES": "1",
        "KCL_PIPELINE__FIRST_WINDOW": (first_window - timedelta(minutes=2)).isoformat(),
        "KCL_PIPELINE__ALLOWED_LATENESS_SECONDS": "2",
        "KCL_PIPELINE__MATERIALIZATION_INTERVAL_SECONDS": "10",
        "KCL_PIPELINE__SENSOR_INTERVAL_SECONDS": "5",
        "KCL_PIPELINE__CLEANUP_CRON": "* * * * *",
        "PYTHONWARNINGS": "ignore",
    }
