"""`python -m kcl_core.testing.dynamodb`: moto's DynamoDB behind one lock, on loopback.

moto checks a condition and then writes, with nothing between to keep other threads out: without the lock two
conditional writes may both win.
"""

import argparse
import io
import logging
import signal
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import Client

from kcl_core.clock import SystemClock
from kcl_core.runtime import Runtime, new_mutex
from kcl_core.testing.child import ParentWatch, report_ready

HOST = "127.0.0.1"
_LIST_TABLES = {
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/dynamodb/aws4_request",
}

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class QuietHandler(WSGIRequestHandler):
    """Keeps connections open, sends at once and logs no requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""

    def log_error(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing of clients that went away."""


def one_at_a_time(application: Application) -> Application:
    """Return the application, each request alone and answered whole."""
    mutex = new_mutex()

    def locked(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        # A client that stops half-way through its request must not stop the others.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with mutex:
            return [b"".join(application(environ, start_response))]

    return locked


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m kcl_core.testing.dynamodb", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input or the parent ends")
    options = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    # The first request imports moto's DynamoDB; better now than in a client's time.
    Client(application).post("/", data=b"{}", headers=_LIST_TABLES)
    server = make_server(HOST, options.port, one_at_a_time(application), threaded=True, request_handler=QuietHandler)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    runtime = Runtime(SystemClock())
    runtime.start("dynamodb", server.serve_forever, timedelta(days=1))
    report_ready(server.port)
    watch = ParentWatch() if options.with_parent else None
    while watch is None or watch.is_alive():
        runtime.raise_failure()
        signal.sigtimedwait((), 0.5)


if __name__ == "__main__":
    main()
