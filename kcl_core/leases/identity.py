"""Who a worker is, and which boot of which host a monotonic time belongs to."""

import os
import socket
import uuid
from pathlib import Path

import psutil

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def new_worker_id(prefix: str | None = None) -> str:
    """Return an id that no other worker has or had, readable enough to find the process by.

    Args:
        prefix: what to name the worker after; the host's name by default.
    """
    return f"{prefix or socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def new_version() -> str:
    """Return a text that was never given before: a version number for what is compared by equality only."""
    return str(uuid.uuid4())


def boot_id() -> str:
    """Return an id of this host's present boot: monotonic times may be compared within it only."""
    if _LINUX_BOOT_ID.is_file():
        return _LINUX_BOOT_ID.read_text(encoding="ascii").strip()
    return f"{socket.gethostname()}-{int(psutil.boot_time())}"
