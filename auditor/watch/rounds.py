"""Rounds of audits in one process, each with its own run, and their metrics over HTTP for Prometheus.

    a round         is an audit into a new directory next to the others. If the previous round was interrupted
                    and can still be resumed, the new round resumes it in its directory
    a round fails   if a store, a file or a disk is missing, or if another audit of the cluster is in
                    progress. The next round then starts sooner. After further failures, the wait grows
    all rounds end  if Spark is gone, if an option of the first round is invalid, or because of a bug
    `RoundStopped`  is raised before the next table once ``stop`` is set. Finished tables stay, and an audit
                    within --resume-within continues from them

Rounds never overlap, because each holds the lock of its cluster (`auditor.audit.lock`).

The server answers GET /metrics. The response has the metrics of the rounds, and the text of
`auditor.reports.openmetrics` for the newest run that this process finished. Before the first run is
finished, the response has only the metrics of the rounds.
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
from auditor.reports.openmetrics import END_LINE, Sample, gauges
from auditor.runs.directory import RunDirectory
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import run_files
from auditor.spark.types import SparkSession

FIRST_RETRY_S = 30.0
"""Wait after a failed round, in seconds. The wait doubles with each further failure, up to the interval."""


class RoundStopped(KeyboardInterrupt):
    """Raised during a round if the event ``stop`` of `rounds` was set."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the path of its run, its duration in seconds, and its report or the error that ended it.

    ``wait_seconds`` is the time from the start of this round to the start of the next one. If this round
    takes longer, the next one starts at a later multiple of ``wait_seconds``.
    """

    number: int
    run: str
    seconds: float
    report: Report | None
    error: AuditorError | OSError | None
    wait_seconds: float


class StoppableProgress:
    """Progress of an audit. Once ``stop`` is set, it raises `RoundStopped` before the next table or stage."""

    def __init__(self, stop: Event, progress: Progress) -> None:
        self._stop = stop
        self._progress = progress

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Begin the next stage.

        Raises:
            RoundStopped: the event ``stop`` is set.
        """
        self._check_stop()
        self._progress.stage(name, number, total)

    def table(self, name: str, total: int | None = None) -> None:
        """Begin the next table.

        Raises:
            RoundStopped: the event ``stop`` is set.
        """
        self._check_stop()
        self._progress.table(name, total)

    def note(self, text: str) -> None:
        """Show a line."""
        self._progress.note(text)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise RoundStopped

    def expect(self, count: int) -> None:
        """Add ``count`` units of work to the current table."""
        self._progress.expect(count)

    def advance(self, finished_units: int) -> None:
        """Report that ``finished_units`` more units of work of the current table are finished."""
        self._progress.advance(finished_units)


def rounds(
    make_audit: Callable[[str], Audit],
    next_run_path: Callable[[], str],
    interval_seconds: float,
    stop: Event,
    spark: SparkSession,
    progress: Callable[[], AbstractContextManager[Progress]],
) -> Iterator[Round]:
    """Audit every ``interval_seconds`` seconds until ``stop`` is set.

    Args:
        make_audit: Function that makes an audit that writes to the given directory.
        next_run_path: Function that returns the directory for the next round.
        interval_seconds: Seconds between the starts of two rounds. If a round takes longer, the starts that
            fall into it are skipped.
        stop: Event that ends the rounds once it is set.
        spark: The session of all rounds.
        progress: Function that returns a context manager, which shows the progress of a round while it
            runs.

    Raises:
        RoundStopped: ``stop`` was set during a round. Its finished tables stay.
        UsageError: an option of the first round is invalid. In a later round, an invalid option only makes
            the round fail.
        SparkError, JavaMissingError: the session is gone.
    """
    round_number = failures_in_a_row = 0
    unfinished_run: str | None = None
    while not stop.is_set():
        start_time = time.monotonic()
        round_number, run_path = round_number + 1, next_run_path()
        if unfinished_run is not None and unfinished_run != run_path:
            _remove_run(unfinished_run)  # too old to be resumed, and no other program uses it
        with progress() as shown_progress:
            report, error = _run_audit(
                make_audit(run_path),
                spark,
                StoppableProgress(stop, shown_progress),
                is_first_round=round_number == 1,
            )
        unfinished_run = run_path if error is not None else None
        failures_in_a_row = failures_in_a_row + 1 if error is not None else 0
        wait_seconds = (
            interval_seconds
            if error is None
            else min(interval_seconds, FIRST_RETRY_S * 2 ** min(failures_in_a_row - 1, 20))
        )
        yield Round(round_number, run_path, time.monotonic() - start_time, report, error, wait_seconds)
        stop.wait(wait_seconds - (time.monotonic() - start_time) % wait_seconds)


def _run_audit(
    audit: Audit, spark: SparkSession, progress: Progress, is_first_round: bool
) -> tuple[Report | None, AuditorError | OSError | None]:
    try:
        return audit.run(spark, progress), None
    except (SparkError, JavaMissingError):
        raise
    except LockedError as error:
        return None, error
    except UsageError as error:
        if is_first_round:
            raise
        return None, error
    except (AuditorError, OSError) as error:
        return None, error


def _remove_run(run_path: str) -> None:
    """Delete the run directory of an interrupted round. Keep it if the run is finished."""
    from pyarrow import fs

    files, directory = run_files(run_path)
    if files.get_file_info(directory).type == fs.FileType.Directory and not RunDirectory(run_path).exists(
        REPORT
    ):
        files.delete_dir(directory)


CLIENT_TIMEOUT_S = 10.0
"""Longest time to wait until a connected client sends its request, in seconds."""

METRICS = {
    "bkaudit_watch_rounds": "Rounds of this process, including failed ones.",
    "bkaudit_watch_rounds_failed": "Consecutive failed rounds up to the newest; 0 if the newest succeeded.",
    "bkaudit_watch_round_finished_timestamp_seconds": "End of the newest round; absent before the first.",
    "bkaudit_watch_round_duration_seconds": "Duration of the newest round; absent before the first.",
}
"""Names and help texts of all metrics about rounds, in order. They have one label, the cluster."""


@dataclass
class MetricsPage:
    """The page served at /metrics: the metrics of the newest run and of the rounds.

    One thread updates the page, and many threads may read it. ``cluster`` is the value of the label
    ``cluster``. The first finished run replaces it with the name of the cluster.
    """

    cluster: str
    run_text: str = END_LINE
    newest_round: int = 0
    failures_since_success: int = 0
    newest_end_ms: int = 0
    newest_seconds: float = 0.0

    def update(self, finished_round: Round, run: ReportSource | None) -> None:
        """Record the end of a round. ``run`` is the round's finished run, or None if the round failed."""
        self.newest_round, self.newest_seconds, self.newest_end_ms = (
            finished_round.number,
            finished_round.seconds,
            now_ms(),
        )
        self.failures_since_success = 0 if run is not None else self.failures_since_success + 1
        if run is not None:
            page_buffer = BytesIO()
            FORMS["openmetrics"].write(run, page_buffer)
            self.cluster, self.run_text = run.report.cluster.name, page_buffer.getvalue().decode()

    def text(self) -> str:
        """Return the whole page.

        >>> print(MetricsPage("zk://h1/ledgers").text().splitlines()[2])
        bkaudit_watch_rounds{cluster="zk://h1/ledgers"} 0
        """
        metric_values: tuple[float, ...] = (self.newest_round, self.failures_since_success)
        if self.newest_end_ms:
            metric_values += (self.newest_end_ms / 1000, self.newest_seconds)
        samples = (Sample(name, {}, value) for name, value in zip(METRICS, metric_values, strict=False))
        return (
            self.run_text.removesuffix(END_LINE)
            + gauges(METRICS, {"cluster": self.cluster}, samples)
            + END_LINE
        )


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT. An empty host stands for all addresses of the machine.

    >>> [parse_listen_address(text) for text in ("127.0.0.1:9418", ":9418", "[::1]:9418")]
    [('127.0.0.1', 9418), ('', 9418), ('::1', 9418)]

    Raises:
        UsageError: the text does not have this form.
    """
    host, separator, port = text.rpartition(":")
    if (
        not separator
        or not port.isdecimal()
        or int(port) > 65535
        or (":" in host and not host.startswith("["))
    ):
        raise UsageError(f"--listen {text}: not of the form HOST:PORT")
    return host.strip("[]"), int(port)


@contextmanager
def metrics_server(listen_option: str, page: MetricsPage) -> Iterator[int]:
    """Serve the page at ``listen_option`` (HOST:PORT) during the ``with`` block, and yield the port.

    With port 0, the system chooses a free port.

    Raises:
        UsageError: nothing can listen at this address.
    """
    host, port = parse_listen_address(listen_option)

    class MetricsHTTPServer(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    class MetricsHandler(BaseHTTPRequestHandler):
        timeout: ClassVar[float] = CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            """Answer a request."""
            is_metrics_path = self.path.partition("?")[0] == "/metrics"
            response_body = page.text().encode() if is_metrics_path else b"/metrics\n"
            self.send_response(200 if is_metrics_path else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(response_body)))
            self.end_headers()
            self.wfile.write(response_body)

        def version_string(self) -> str:
            """Return the program's name, to hide the Python version."""
            return "bkaudit"

        def log_message(self, *_: object) -> None:
            """Log nothing, because each request would be a line."""

    try:
        server = MetricsHTTPServer((host, port), MetricsHandler)
    except OSError as error:
        raise UsageError(f"--listen {listen_option}: {error.strerror or error}") from error
    with server:
        server_thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        server_thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server_thread.join()
