"""Rounds of audits in one process, a run of its own for each, and their metrics over HTTP for Prometheus.

    a round     is an audit into a new directory beside the others; or, where the round before broke off and
                may still be gone on with, into that one
    it fails    where a store, a file or a disk is away, or another audit of the cluster runs: the round has
                that as its status, and the next one comes sooner, then less and less soon
    it ends all where Spark is gone, where the first round is asked something invalid, or by a bug
    `Stop`      is raised before a table is made, once ``stop`` is set: what has landed stays, for whoever
                audits the same within --resume-within

Rounds never overlap: each holds the lock of its cluster (`auditor.audit.lock`).

GET /metrics, and nothing else, answers with the text of `auditor.reports.openmetrics` of the newest run that
was finished here, and what only the rounds themselves can say: before the first run is finished, it is these
alone.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from threading import Event
from typing import ClassVar

from auditor.audit.audit import Audit
from auditor.errors import AuditorError, JavaMissingError, LockedError, SparkError, UsageError
from auditor.model.progress import Progress
from auditor.model.report import Report
from auditor.model.report_source import ReportSource
from auditor.model.run_facts import REPORT
from auditor.reports.forms import FORMS
from auditor.reports.openmetrics import END, Sample, gauges
from auditor.runs.directory import RunDirectory
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import run_files
from auditor.spark.types import SparkSession

FIRST_RETRY_S = 30.0
"""After a round that failed; twice as long after each that fails again, never longer than the interval."""


class Stop(KeyboardInterrupt):
    """The rounds were asked to end while one of them ran."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: into which run, how long, and its report, or the error that it failed with.

    ``wait`` is how many seconds lie between its begin and the next round's, where it does not take longer.
    """

    number: int
    run: str
    seconds: float
    report: Report | None
    error: AuditorError | OSError | None
    wait: float


class StoppableProgress:
    """The progress of an audit that ends before the next table once ``stop`` is set."""

    def __init__(self, stop: Event, progress: Progress) -> None:
        self._stop = stop
        self._progress = progress

    def stage(self, name: str, total: int | None = None) -> None:
        """The next stage begins.

        Raises:
            Stop: it does not.
        """
        if self._stop.is_set():
            raise Stop
        self._progress.stage(name, total)

    def expect(self, count: int) -> None:
        """There is so much more of the stage to do."""
        self._progress.expect(count)

    def advance(self, done: int) -> None:
        """So much more of the stage is done."""
        self._progress.advance(done)


def rounds(
    audit: Callable[[str], Audit],
    place: Callable[[], str],
    interval: float,
    stop: Event,
    spark: SparkSession,
    progress: Callable[[], AbstractContextManager[Progress]],
) -> Iterator[Round]:
    """Audit every ``interval`` seconds until ``stop`` is set.

    ``place`` names the directory of a round, ``audit`` is the audit into it, ``progress`` is shown while it
    runs. A round that takes longer than the interval leaves the beats out that it misses.

    Raises:
        Stop: ``stop`` was set during a round; what it has landed stays.
        UsageError: of the first round.
        SparkError, JavaMissingError: of any: the session is gone.
    """
    number = failures = 0
    unfinished: str | None = None
    while not stop.is_set():
        began = time.monotonic()
        number, out = number + 1, place()
        if unfinished is not None and unfinished != out:
            _remove(unfinished)  # too old to be gone on with, and nobody else knows of it
        with progress() as shown:
            report, error = _audit(audit(out), spark, StoppableProgress(stop, shown), first=number == 1)
        unfinished = out if error is not None else None
        failures = failures + 1 if error is not None else 0
        wait = interval if error is None else min(interval, FIRST_RETRY_S * 2 ** min(failures - 1, 20))
        yield Round(number, out, time.monotonic() - began, report, error, wait)
        stop.wait(wait - (time.monotonic() - began) % wait)


def _audit(
    audit: Audit, spark: SparkSession, progress: Progress, first: bool
) -> tuple[Report | None, AuditorError | OSError | None]:
    try:
        return audit.run(spark, progress), None
    except (SparkError, JavaMissingError):
        raise
    except LockedError as error:
        return None, error
    except UsageError as error:
        if first:
            raise
        return None, error
    except (AuditorError, OSError) as error:
        return None, error


def _remove(run: str) -> None:
    """Take away what a round left that broke off."""
    from pyarrow import fs

    files, base = run_files(run)
    if files.get_file_info(base).type == fs.FileType.Directory and not RunDirectory(run).exists(REPORT):
        files.delete_dir(base)


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
            is_metrics = self.path.partition("?")[0] == "/metrics"
            body = page.text().encode() if is_metrics else b"/metrics\n"
            self.send_response(200 if is_metrics else 404)
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
