"""What the embedded servers' processes have in common: they report their port, and end with their parent."""

import json
import os
import select
import sys


def report_ready(port: int) -> None:
    """Write the readiness line, ``{"port": 1234}``, and leave standard output to nobody else."""
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


class ParentWatch:
    """Tells whether the process that started this one still lives, however it may have ended.

    The parent holds the other end of our standard input; the kernel closes it even after a SIGKILL. A process that
    the parent forked may still hold it too, so the parent's id is compared as well.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()

    def is_alive(self, wait_seconds: float = 0.0) -> bool:
        """Return whether the parent lives; waits up to ``wait_seconds`` for its end."""
        if os.getppid() != self._parent:
            return False
        readable, _, _ = select.select([0], [], [], wait_seconds)
        return not readable or bool(os.read(0, 1024))
