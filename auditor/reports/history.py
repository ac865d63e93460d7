"""Lists of runs as text, CSV and JSON, and a line on the state of one run."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from typing import Literal

from auditor.model.amounts import duration, format_time, plural
from auditor.model.finding import Severity
from auditor.model.history import RunSummary, cluster_key
from auditor.model.report import Report
from auditor.model.run_facts import RunFacts
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.reports.coverage import checked_extents, severity_counts_text, unaccepted_holds, verdict_word
from auditor.reports.plain_text import columns_of, fold_text, printable

_DATA_AGE_SHOWN_MS = 3_600_000
"""Least time between the oldest data and the end of a run for which the age of the data is shown, in ms."""

_CHANGE_KEYS: tuple[Literal["new", "fixed", "worse", "better", "unseen"], ...] = (
    "new",
    "fixed",
    "worse",
    "better",
    "unseen",
)
_SEVERITIES = tuple(str(severity) for severity in Severity)


def text(runs: Sequence[RunSummary], width: int | None = None) -> str:
    """Return a table of runs for a terminal, the oldest run first.

    A dash takes the place of the changes of a run that was not compared with an earlier run.

    Args:
        runs: The runs, oldest first.
        width: Columns of a line. If a row would be wider, each run takes two rows: its numbers, and below
            them its verdict and its name. None: rows may have any width.
    """
    if not runs:
        return "this directory has no finished run"
    lines = _table_lines(runs, fits_one_row=True)
    if width is not None and max(map(columns_of, lines)) > width:
        lines = _table_lines(runs, fits_one_row=False)
    cluster_keys = {cluster_key(run) for run in runs}
    if len(cluster_keys) > 1:
        clusters_warning = (
            f"the runs belong to {len(cluster_keys)} clusters; only runs of the same cluster are compared"
        )
        lines += [clusters_warning] if width is None else fold_text(clusters_warning, width)
    return "\n".join(lines)


def _table_lines(runs: Sequence[RunSummary], fits_one_row: bool) -> list[str]:
    """Return the lines of the header and of each run.

    The header and each run take one row if ``fits_one_row`` is True, and otherwise two.
    """
    number_rows = [("crit", "err", "warn", "note", *_CHANGE_KEYS[:3])]
    for run in runs:
        change_cells = [
            str(run.changes[change_key]) if run.changes else "-" for change_key in _CHANGE_KEYS[:3]
        ]
        number_rows.append((*(str(run.severities[severity]) for severity in _SEVERITIES), *change_cells))
    widths = [max(map(len, column)) for column in zip(*number_rows, strict=True)]
    counts = [
        " ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in number_rows
    ]
    times = ["finished", *(format_time(run.finished)[:-7] for run in runs)]
    verdicts = ["verdict", *(run.verdict for run in runs)]
    names = ["run", *(printable(run.name) for run in runs)]
    time_width, verdict_width = (max(map(len, column)) for column in (times, verdicts))
    rows = zip(times, verdicts, counts, names, strict=True)
    if fits_one_row:
        return [
            f"{time:<{time_width}} {verdict:<{verdict_width}} {count} {name}"
            for time, verdict, count, name in rows
        ]
    lines = []
    for time_text, verdict, count, name in rows:
        lines += [f"{time_text:<{time_width}} {count}", f"  {verdict:<{verdict_width}} {name}"]
    return lines


def to_csv(runs: Sequence[RunSummary]) -> str:
    """Return one CSV row for each run. Times are milliseconds since 1970, UTC."""
    csv_buffer = StringIO()
    writer = csv.writer(csv_buffer, lineterminator="\n")
    fact_columns = ("path", "started", "finished", "scan_time", "instance_id", "verdict", "complete")
    writer.writerow([*fact_columns, *_SEVERITIES, "previous", *_CHANGE_KEYS, "metadata_uri"])
    for run in runs:
        changes = run.changes
        change_cells = (
            [changes["previous"], *(changes[change_key] for change_key in _CHANGE_KEYS)]
            if changes
            else [""] * 6
        )
        counts = [run.severities[severity] for severity in _SEVERITIES]
        writer.writerow(
            [*(getattr(run, name) for name in fact_columns), *counts, *change_cells, run.metadata_uri]
        )
    return csv_buffer.getvalue().rstrip("\n")


def to_json(runs: Sequence[RunSummary]) -> str:
    """Return a JSON array with one object for each run."""
    return json.dumps([asdict(run) for run in runs], indent=2, ensure_ascii=False)


def status_line(report: Report, run: str, now_ms: int, data_ms: int | None = None) -> str:
    """Return one line on the state of a run.

    Args:
        report: The report of the run.
        run: The run's directory.
        now_ms: Current time in ms since 1970, UTC.
        data_ms: Time of the oldest data on which the run is based, in ms since 1970, UTC. None: unknown.
            The line shows the age of data that is much older than the run.
    """
    run_facts = report.run
    counts = severity_counts_text(report, suppressed=False)
    ledgers, _, bookies = checked_extents(report)
    suppressed_count = sum(tally["suppressed"] for tally in run_facts.tally)
    parts = [
        counts or ("only suppressed findings" if suppressed_count else "no finding"),
        *([f"first action: {printable(action['text'])}"] if (action := report.first_action) else []),
        *_unavailable_texts(run_facts),
        *([f"{suppressed_count:,} suppressed"] if suppressed_count else []),
        *(
            [f"{plural(hold_count, 'urgent hold')} not accepted"]
            if (hold_count := unaccepted_holds(report))
            else []
        ),
        _changes_text(report),
        f"{ledgers.covered_count:,} of {ledgers.total:,} ledgers checked",
        *([f"{plural(ledgers.open_count, 'ledger')} still open"] if ledgers.open_count else []),
        f"{bookies.covered_count:,} of {bookies.total:,} bookies read",
        *([f"{plural(len(run_facts.blind), 'check')} skipped"] if run_facts.blind else []),
        *(["it is unknown which checks were skipped"] if run_facts.blind is None else []),
        f"{duration(max(0, now_ms - run_facts.finished) / 1000)} old ({format_time(run_facts.finished)})",
        *_data_age_texts(run_facts.finished, data_ms, now_ms),
        printable(run),
    ]
    return f"{verdict_word(report.verdict)} {printable(report.cluster.name)}: {'; '.join(parts)}"


def _data_age_texts(finished_ms: int, data_ms: int | None, now_ms: int) -> list[str]:
    """Return a text on the age of the run's oldest data, or an empty list.

    There is a text if the data is over an hour older than the end of the run. There is also a text if the
    time of the data is in the future.
    """
    if data_ms is not None and data_ms - now_ms > MAX_CLOCK_AHEAD_MS:
        return [f"its data is dated in the future ({format_time(data_ms)}): a clock is wrong"]
    if data_ms is None or finished_ms - data_ms <= _DATA_AGE_SHOWN_MS:
        return []
    return [f"its oldest data is {duration(max(0, now_ms - data_ms) / 1000)} old ({format_time(data_ms)})"]


def _unavailable_texts(run_facts: RunFacts) -> list[str]:
    """Return a text on the number of ledgers that nobody can read or close now.

    Empty if there are none, or if the number is unknown.
    """
    count = run_facts.repair["unavailable"] + run_facts.repair["unrecoverable"] if run_facts.repair else 0
    return [f"{plural(count, 'ledger')} unavailable"] if count else []


def _changes_text(report: Report) -> str:
    changes = report.run.changes
    if changes is None:
        return "no earlier run"
    return f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed"
