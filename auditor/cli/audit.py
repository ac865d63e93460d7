"""``bkaudit audit``, the whole audit, and ``bkaudit scan``, which reads only the metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.defaults import sources
from auditor.cli.options import (
    BOOKIES_HELP,
    SCAN_OPTIONS,
    GroupedCommand,
    bookies_option,
    choose_run,
    option_flags,
    options_from_flags,
    out_option,
    source_options,
    tuning_options,
)
from auditor.cli.output import TextChoice, flat_option, outputs, outputs_option, show
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import catch_interrupts, say, verbosity_options
from auditor.model.amounts import duration, plural
from auditor.model.audit_stage import AuditStage
from auditor.model.options import AuditOptions
from auditor.model.report import Report, exit_code
from auditor.spark.types import SparkSession

if TYPE_CHECKING:
    from auditor.audit.audit import StoppedRun


stop_after_option = click.option(
    "--stop-after",
    metavar="STAGE",
    type=click.Choice([str(stage) for stage in AuditStage]),
    help="Stop after this stage; its tables are written, but no report. The same command without this option "
    f"continues the run. Stages: {', '.join(AuditStage)}.",
)


@click.command(cls=GroupedCommand)
@source_options
@bookies_option(f"{BOOKIES_HELP} Without it, only metadata is checked, and the exit code is 3 at best.")
@out_option
@stop_after_option
@outputs_option
@flat_option
@verbosity_options
@tuning_options
@click.pass_obj
def audit(
    session: Callable[[], SparkSession] | None,
    /,
    metadata: str | None,
    cluster: str | None,
    bookies: tuple[str, ...],
    out: str | None,
    stop_after: str | None,
    forms: tuple[str, ...],
    flat: bool,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Compare a cluster's metadata with its bookies' indexes, and report what is wrong.

    Exit codes: 0 no finding at or above --fail-on, and everything was checked; 1 confirmed findings at or
    above --fail-on; 2 wrong usage; 3 only unconfirmed findings, or not everything was checked (always with
    --stop-after); 4 the metadata could not be read; 5 the metadata is too damaged to judge.
    """
    options = options_from_flags(conf, flags)
    audit_sources = sources(metadata, bookies, cluster, conf)
    from auditor.audit.audit import Audit
    from auditor.notebook.run import open_run
    from auditor.sources.metadata.uri import parse_metadata_uri

    parse_metadata_uri(audit_sources.metadata)  # fail before a Spark session starts

    out = out or choose_run("audit", audit_sources, options)
    report_outputs = outputs(forms, out)
    cluster_audit = Audit(audit_sources.metadata, audit_sources.bookies, out, options)
    with catch_interrupts(out), shown_progress() as progress:
        spark = session() if session else None
        report_or_stop = (
            cluster_audit.run_until(stop_after, spark, progress)
            if stop_after
            else cluster_audit.run(spark, progress)
        )
    if not isinstance(report_or_stop, Report):
        say(_stopped_text(report_or_stop, out, audit_sources.metadata, options))
        raise click.exceptions.Exit(STOPPED_EXIT_CODE)
    say(f"the run is in {out}")
    show(open_run(out), report_outputs, TextChoice(explained_findings=flat))
    raise click.exceptions.Exit(exit_code(report_or_stop, options.fail_on, options.fail_on_suspect))


STOPPED_EXIT_CODE = 3
"""Exit code of an audit that ``--stop-after`` ended: not everything was checked."""


def _stopped_text(stopped_run: StoppedRun, out: str, metadata: str, options: AuditOptions) -> str:
    """Return a text on a stopped run: the tables that it wrote, and how to continue it."""
    from auditor.sources.metadata.stores import is_live

    resume_time_limit_text = f" within {duration(options.resume_within)}" if is_live(metadata) else ""
    tables_text = plural(len(stopped_run.tables), "table is", "tables are")
    return (
        f"stopped after {stopped_run.stage_text}: {tables_text} in {out}/tables; there is no report. "
        f"The same command without --stop-after continues the run{resume_time_limit_text}"
    )


@click.command(cls=GroupedCommand)
@source_options
@out_option
@verbosity_options
@option_flags(*SCAN_OPTIONS)
@click.pass_obj
def scan(
    session: Callable[[], SparkSession] | None,
    /,
    metadata: str | None,
    cluster: str | None,
    out: str | None,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Read a cluster's metadata into tables, without comparing or judging it."""
    options = options_from_flags(conf, flags)
    audit_sources = sources(metadata, (), cluster, conf)
    from auditor.audit.audit import Audit
    from auditor.sources.metadata.uri import parse_metadata_uri

    parse_metadata_uri(audit_sources.metadata)  # fail before a Spark session starts

    out = out or choose_run("scan", audit_sources, options)
    with catch_interrupts(out), shown_progress() as progress:
        row_counts = Audit(audit_sources.metadata, (), out, options).scan(
            session() if session else None, progress
        )
    for table_name, row_count in row_counts.items():
        click.echo(f"{row_count:>12,}  {table_name}")
    say(f"the tables are in {out}/tables")
