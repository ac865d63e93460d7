"""``bkaudit watch``: repeated audits in one process. Each audit is a round."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from auditor.cli import completion
from auditor.cli.defaults import Sources, sources
from auditor.cli.options import (
    ScaledNumber,
    bookies_option,
    choose_run,
    options_from_flags,
    source_options,
    tuning_options,
)
from auditor.cli.output import outputs, outputs_option, show
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import say, verbosity_options
from auditor.errors import AuditorError
from auditor.model.amounts import duration, format_time
from auditor.model.options import LAST_RUN, AuditOptions
from auditor.model.report import exit_code
from auditor.sources.file_systems import child_of

if TYPE_CHECKING:
    from auditor.watch.rounds import Round

_INTERVAL_TYPE = ScaledNumber(
    "interval",
    {"s": 1, "m": 60, "h": 3600, "d": 86400},
    "a time of at least one second, such as 90s, 15m or 1h",
)


@click.command()
@click.argument("runs", metavar="[RUNS]", required=False, shell_complete=completion.paths)
@source_options
@bookies_option()
@click.option(
    "--interval",
    type=_INTERVAL_TYPE,
    default="1h",
    show_default=True,
    metavar="TIME",
    help=(
        "Time from the start of a round to the start of the next, such as 15m. Starts that "
        "fall within a longer round are skipped."
    ),
)
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Stop after N rounds.")
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="After each round, keep only the newest N runs, as bkaudit prune --keep-last N does.",
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Serve the metrics of the newest round at http://HOST:PORT/metrics."
)
@outputs_option
@verbosity_options
@tuning_options
def watch(
    runs: str | None,
    metadata: str | None,
    cluster: str | None,
    bookies: tuple[str, ...],
    interval: float,
    rounds: int | None,
    keep: int | None,
    listen: str | None,
    forms: tuple[str, ...],
    conf: Path | None,
    **flags: Any,
) -> None:
    """Audit a cluster repeatedly, in one process and one Spark session.

    Each audit is a round. It makes a new run in the directory RUNS (by default ./runs), and prints one line
    on standard output. It reuses what has not changed since the last complete run (--since last). With
    --format, it also writes reports.

    A round fails if a store cannot be reached. The next round then starts after 30 seconds. This pause
    grows with each further failure, up to the interval. After SIGTERM or SIGINT, the command ends before
    the next table of the round.

    Exit codes: 0 a signal ended the command; with --rounds the code of the last round, as for bkaudit
    audit; 2 wrong usage; 4 Spark does not start, or has ended.
    """
    options = options_from_flags(conf, flags)
    if options.since is None:
        options = options.with_overrides({"since": LAST_RUN})
    default_sources = sources(metadata, bookies, cluster, conf)
    inputs = Sources(default_sources.metadata, default_sources.bookies, runs or default_sources.runs)
    outputs(forms, child_of(inputs.runs, "run"))
    stop_event, last_code = Event(), 0
    with (
        _stop_signals(stop_event) as reinstall_handlers,
        _published_metrics(listen, inputs.metadata) as update_metrics,
    ):
        for finished_round in islice(
            _audit_rounds(inputs, options, interval, stop_event, reinstall_handlers), rounds
        ):
            last_code = _exit_code(finished_round, options)
            is_last = stop_event.is_set() or finished_round.number == rounds
            _print_round(finished_round, last_code, is_last)
            for round_step in (
                update_metrics,
                partial(_write_reports, forms),
                partial(_prune_runs, inputs.runs, keep, options),
            ):
                try:
                    round_step(finished_round)
                except (
                    AuditorError,
                    OSError,
                ) as error:  # the audit succeeded, so that the next round can run
                    click.echo(f"bkaudit: {error}", err=True)
    raise click.exceptions.Exit(0 if stop_event.is_set() else last_code)


def _audit_rounds(
    inputs: Sources,
    options: AuditOptions,
    interval: float,
    stop_event: Event,
    reinstall_handlers: Callable[[], None],
) -> Iterator[Round]:
    from auditor.audit.audit import Audit
    from auditor.spark.session import build_session
    from auditor.watch.rounds import RoundStopped
    from auditor.watch.rounds import rounds as audit_rounds

    spark = build_session(
        options.master,
        _LONG_PROCESS_SETTINGS,
        options.driver_memory,
        log_path=None if "://" in inputs.runs else Path(inputs.runs, "spark.log"),
        keep_classes=True,
    )
    reinstall_handlers()  # starting Spark replaced the handlers
    next_run = partial(choose_run, "audit", inputs, options)

    def audit(out: str) -> Audit:
        return Audit(inputs.metadata, inputs.bookies, out, options)

    try:
        yield from audit_rounds(audit, next_run, interval, stop_event, spark, shown_progress)
    except RoundStopped:
        say("stopped; repeat the command within --resume-within to resume this round")


_LONG_PROCESS_SETTINGS = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.cleaner.periodicGC.interval": "1min",
}
"""Settings of Spark for a process that runs for days.

With these settings, Spark forgets finished queries, and Java regularly collects its whole heap and returns
free memory. Without these settings, the memory of both grows for days.
"""


@contextmanager
def _stop_signals(stop_event: Event) -> Iterator[Callable[[], None]]:
    """Set ``stop_event`` on SIGTERM or SIGINT while the block runs. A second signal ends the process at once.

    Yields a function that installs the handlers again, because Spark replaces them.
    """

    def handle_signal(number: int, _: Any) -> None:
        stop_event.set()
        signal.signal(number, signal.default_int_handler)

    def install_handlers() -> None:
        for number in previous_handlers:
            signal.signal(number, handle_signal)

    previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    install_handlers()
    try:
        yield install_handlers
    finally:
        for signal_number, previous_handler in previous_handlers.items():
            signal.signal(signal_number, previous_handler)


@contextmanager
def _published_metrics(listen: str | None, metadata_uri: str) -> Iterator[Callable[[Round], None]]:
    """Serve metrics at ``listen`` while the block runs. Yield a function that publishes a round's metrics.

    If ``listen`` is None, no metrics are served, and the yielded function does nothing.
    """
    from auditor.notebook.run import open_run
    from auditor.watch.rounds import MetricsPage, metrics_server

    metrics_page = MetricsPage(metadata_uri)
    with metrics_server(listen, metrics_page) if listen is not None else nullcontext() as port:
        if port is not None:
            say(f"metrics: served at port {port}")
            yield lambda finished_round: metrics_page.update(
                finished_round, open_run(finished_round.run) if finished_round.report is not None else None
            )
        else:
            yield lambda _: None


def _print_round(finished_round: Round, code: int, is_last: bool) -> None:
    """Print the line of a round. If the round failed, the line also has the time until the next round."""
    from auditor.reports.history import status_line
    from auditor.reports.plain_text import printable
    from auditor.sources.clock import now_ms

    if finished_round.report is not None:
        outcome_text = status_line(finished_round.report, finished_round.run, now_ms())
    else:
        retry_text = "" if is_last else f"; next round in {duration(finished_round.wait_seconds)}"
        outcome_text = f"failed, exit code {code}: {printable(str(finished_round.error))}{retry_text}"
    round_text = f"round {finished_round.number}, {duration(finished_round.seconds)}"
    click.echo(f"{format_time(now_ms())} {round_text}: {outcome_text}")


def _exit_code(finished_round: Round, options: AuditOptions) -> int:
    if finished_round.report is not None:
        return exit_code(finished_round.report, options.fail_on, options.fail_on_suspect)
    return (
        finished_round.error.exit_code
        if isinstance(finished_round.error, AuditorError)
        else AuditorError.exit_code
    )


def _write_reports(forms: tuple[str, ...], finished_round: Round) -> None:
    """Write the requested reports of a round."""
    from auditor.notebook.run import open_run

    if forms and finished_round.report is not None:
        show(open_run(finished_round.run), outputs(forms, finished_round.run))


def _prune_runs(runs_path: str, keep: int | None, options: AuditOptions, finished_round: Round) -> None:
    """Remove old runs after a round that succeeded.

    The newest ``keep`` runs and the runs in use are kept. If ``keep`` is None, no run is removed.
    """
    from auditor.runs.history import history
    from auditor.runs.siblings import RetentionRules, decide_retention, remove_run, runs_in_use

    if keep is None or finished_round.report is None:
        return
    for decision in decide_retention(
        history(runs_path).runs, RetentionRules(last=keep), runs_in_use(options, (), runs_path)
    ):
        if not decision.reasons:
            remove_run(decision.run.path)
