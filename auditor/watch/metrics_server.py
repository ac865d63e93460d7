"""The metrics of the newest round over HTTP, for Prometheus: GET /metrics, and nothing else.

The text is that of `auditor.reports.openmetrics`, of the newest run that was finished here, and what only the
rounds themselves can say: before the first run is finished, it is these alone.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import ClassVar

from auditor.errors import UsageError
from auditor.model.report_source import ReportSource
from auditor.reports.forms import FORMS
from auditor.reports.openmetrics import END, Sample, gauges
from auditor.sources.clock import now_ms
from auditor.watch.rounds import Round

CLIENT_S = 10.0
"""Whoever asks and then takes longer to say what is left alone."""

METRICS = {
    "bkaudit_watch_rounds": "Rounds of this process, failed ones among them.",
    "bkaudit_watch_rounds_failed": "Rounds that failed one after the other, up to the newest; 0: it did not.",
    "bkaudit_watch_round_finished_timestamp_seconds": "When the newest round ended; absent before the first.",
    "bkaudit_watch_round_duration_seconds": "How long the newest round took; absent before the first.",
}
"""Every metric of the rounds, in order, and its help; the cluster is their only label."""


@dataclass
class MetricsPage:
    """What is served: the text of the newest run, and figures of the rounds. One thread writes, many read.

    ``cluster`` is what the label says before a run tells the cluster's name.
    """

    cluster: str
    run: str = END
    number: int = 0
    failed: int = 0
    finished: int = 0
    seconds: float = 0.0

    def update(self, done: Round, run: ReportSource | None) -> None:
        """A round has ended; ``run`` is what it finished, None where it failed."""
        self.number, self.seconds, self.finished = done.number, done.seconds, now_ms()
        self.failed = 0 if run is not None else self.failed + 1
        if run is not None:
            out = BytesIO()
            FORMS["openmetrics"].write(run, out)
            self.cluster, self.run = run.report.cluster.name, out.getvalue().decode()

    def text(self) -> str:
        """The whole page.

        >>> print(MetricsPage("zk://h1/ledgers").text().splitlines()[2])
        bkaudit_watch_rounds{cluster="zk://h1/ledgers"} 0
        """
        values: tuple[float, ...] = (self.number, self.failed)
        if self.finished:
            values += (self.finished / 1000, self.seconds)
        samples = (Sample(name, {}, value) for name, value in zip(METRICS, values, strict=False))
        return self.run.removesuffix(END) + gauges(METRICS, {"cluster": self.cluster}, samples) + END


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; without a host all addresses of the machine.

    >>> listen_address("127.0.0.1:9418"), listen_address(":9418"), listen_address("[::1]:9418")
    (('127.0.0.1', 9418), ('', 9418), ('::1', 9418))

    Raises:
        UsageError: it is not of that form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise UsageError(f"--listen {text}: it is not HOST:PORT")
    return host.strip("[]"), int(port)


@contextmanager
def metrics_server(listen: str, page: MetricsPage) -> Iterator[int]:
    """Serve the page at ``listen``, HOST:PORT, while the block runs; gives the port, a free one for 0.

    Raises:
        UsageError: nothing can listen there.
    """
    host, port = listen_address(listen)

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    class Handler(BaseHTTPRequestHandler):
        timeout: ClassVar[float] = CLIENT_S

        def do_GET(self) -> None:
            """Answer a request."""
            found = self.path.partition("?")[0] == "/metrics"
            body = page.text().encode() if found else b"/metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            """Not which Python it is."""
            return "bkaudit"

        def log_message(self, *_: object) -> None:
            """Nothing: each scrape would be a line."""

    try:
        server = Server((host, port), Handler)
    except OSError as error:
        raise UsageError(f"--listen {listen}: {error.strerror or error}") from error
    with server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
