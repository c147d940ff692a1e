"""`python -m kcl_core.testing.kinesis`: serves on loopback until told to stop or until its parent is gone."""

import argparse
import asyncio
import signal

from kcl_core.testing.child import ParentWatch, report_ready
from kcl_core.testing.kinesis.account import Account, Durations
from kcl_core.testing.kinesis.http import Connection

HOST = "127.0.0.1"


async def serve(account: Account, port: int, *, watch_parent: bool) -> None:
    """Serve until a signal, a shutdown request or the end of the parent."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: Connection(account, stop), HOST, port, backlog=1024)
    report_ready(server.sockets[0].getsockname()[1])
    watch = ParentWatch() if watch_parent else None
    while not stop.is_set() and (watch is None or watch.is_alive()):
        try:
            await asyncio.wait_for(stop.wait(), 0.5)
        except TimeoutError:
            continue
    server.close()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m kcl_core.testing.kinesis", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--region", default="us-east-1", help="region in ARNs (default: %(default)s)")
    parser.add_argument("--create-seconds", type=float, default=0.0, help="how long CREATING and DELETING last")
    parser.add_argument("--update-seconds", type=float, default=0.0, help="how long UPDATING lasts")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input or the parent ends")
    options = parser.parse_args()
    durations = Durations(create=options.create_seconds, update=options.update_seconds)
    account = Account(region=options.region, durations=durations)
    asyncio.run(serve(account, options.port, watch_parent=options.with_parent))


if __name__ == "__main__":
    main()
