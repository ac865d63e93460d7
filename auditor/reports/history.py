"""Runs one per line: those of a directory as text, CSV and JSON, and one run with its age."""

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
from auditor.reports.coverage import extents, severity_words
from auditor.reports.plain_text import columns_of, pad, printable

_CHANGES: tuple[Literal["new", "fixed", "worse", "better", "unseen"], ...] = (
    "new",
    "fixed",
    "worse",
    "better",
    "unseen",
)
_SEVERITIES = tuple(str(severity) for severity in Severity)


def text(runs: Sequence[RunSummary]) -> str:
    """A table for a terminal, the oldest run first; a dash where there was no run before to compare with."""
    if not runs:
        return "no finished run is here"
    # With runs that are named by their time a line has 80 columns.
    rows = [("finished", "verdict", "crit", "err", "warn", "note", *_CHANGES[:3], "run")]
    for run in runs:
        changed = [str(run.changes[key]) if run.changes else "-" for key in _CHANGES[:3]]
        found = [str(run.severities[severity]) for severity in _SEVERITIES]
        rows.append((format_time(run.finished)[:-7], run.verdict, *found, *changed, printable(run.name)))
    widths = [max(columns_of(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        texts = [pad(cell, width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:-1], strict=True)]
        lines.append(" ".join([*texts, *numbers, row[-1]]).rstrip())
    clusters = {cluster_key(run) for run in runs}
    if len(clusters) > 1:
        lines.append(f"these are runs of {len(clusters)} clusters; only those of one are compared")
    return "\n".join(lines)


def to_csv(runs: Sequence[RunSummary]) -> str:
    """One row per run; times in milliseconds since 1970, UTC."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fixed = ("path", "started", "finished", "scan_time", "instance_id", "verdict", "complete")
    writer.writerow([*fixed, *_SEVERITIES, "previous", *_CHANGES, "metadata_uri"])
    for run in runs:
        changes = run.changes
        changed = [changes["previous"], *(changes[key] for key in _CHANGES)] if changes else [""] * 6
        found = [run.severities[severity] for severity in _SEVERITIES]
        writer.writerow([*(getattr(run, name) for name in fixed), *found, *changed, run.metadata_uri])
    return out.getvalue().rstrip("\n")


def to_json(runs: Sequence[RunSummary]) -> str:
    """A JSON array, one object a run."""
    return json.dumps([asdict(run) for run in runs], indent=2, ensure_ascii=False)


def status_line(report: Report, run: str, now: int) -> str:
    """One line about the run in the directory ``run``, at the time ``now``, ms since 1970."""
    facts = report.run
    found = severity_words(report, suppressed=False)
    ledgers, _, bookies = extents(report)
    suppressed = sum(each["suppressed"] for each in facts.tally)
    parts = [
        found or ("nothing but what is suppressed" if suppressed else "no finding"),
        *([f"do now: {printable(report.do_now['action'] or '')}"] if report.do_now else []),
        *([f"{suppressed:,} suppressed"] if suppressed else []),
        _status_changes(report),
        f"{ledgers.seen:,} of {ledgers.total:,} ledgers decided",
        f"{bookies.seen:,} of {bookies.total:,} bookies read",
        *([f"{plural(len(facts.blind), 'check')} saw nothing"] if facts.blind else []),
        *(["what its checks saw is not known"] if facts.blind is None else []),
        f"{duration(max(0, now - facts.finished) / 1000)} old ({format_time(facts.finished)})",
        printable(run),
    ]
    return f"{report.verdict.upper()} {printable(report.cluster.name)}: {'; '.join(parts)}"


def _status_changes(report: Report) -> str:
    changes = report.run.changes
    if changes is None:
        return "no run before it"
    return f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed"
