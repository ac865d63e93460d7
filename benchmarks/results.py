"""The table that all benchmarks print, also as JSON and as Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from benchmarks.measure import Line

_COLUMN_TITLES = ("stage", "rate", "rival", "ratio", "asked", "Java MiB", "Python MiB", "shuffle", "spill")


def as_json(command: str, lines: Sequence[Line]) -> str:
    """Return one JSON object with the time, the machine, its load, and every line with its rate and ratio."""
    document = {
        "benchmark": command,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "lines": [{**asdict(line), "rate": line.rate, "ratio": line.ratio} for line in lines],
    }
    return json.dumps(document, indent=2)


def as_text(lines: Iterable[Line]) -> str:
    """Return the table in aligned columns. Each note follows below its line."""
    rows = [_COLUMN_TITLES, *(_cells(line) for line in lines)]
    column_widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMN_TITLES))]
    notes = ["", *(line.note for line in lines)]
    text_lines = []
    for table_row, note in zip(rows, notes, strict=True):
        cells = [
            table_row[0].ljust(column_widths[0]),
            *(
                cell.rjust(column_width)
                for cell, column_width in zip(table_row[1:], column_widths[1:], strict=True)
            ),
        ]
        text_lines.append("  ".join(cells).rstrip())
        if note:
            text_lines.append(f"    {note}")
    return "\n".join(text_lines)


def as_markdown(command: str, lines: Sequence[Line]) -> str:
    """Return a section for RESULTS.md: the time, the load, the table and the notes."""
    end_time = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    table_header = (
        f"## {command}\n\n{end_time}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.\n\n"
    )
    table = [f"| {' | '.join(_COLUMN_TITLES)} |", "| --- " + "| ---: " * (len(_COLUMN_TITLES) - 1) + "|"]
    table += [f"| {' | '.join(_cells(line))} |" for line in lines]
    notes = [f"- {line.stage}: {line.note}" for line in lines if line.note]
    return table_header + "\n".join(table) + "\n" + ("\n" + "\n".join(notes) + "\n" if notes else "")


def _cells(line: Line) -> tuple[str, ...]:
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}x"
    return (
        line.stage,
        f"{_number_text(line.rate)} {line.unit}/s",
        line.rival or "",
        ratio,
        _goals_text(line),
        *("" if mib is None else _number_text(mib) for mib in (line.java_mib, line.python_mib)),
        *(
            "" if byte_count is None else f"{_number_text(byte_count)}B"
            for byte_count in (line.shuffle_bytes, line.spill_bytes)
        ),
    )


def _goals_text(line: Line) -> str:
    comparison = "<=" if line.most else ">="
    goals = [] if line.goal is None else [f"{comparison} {line.goal:g}x"]
    return " ".join([*goals, *([] if line.target is None else [f"(wish {comparison} {line.target:g}x)"])])


def _number_text(number: float) -> str:
    """Return a number with three digits and the letter of its unit prefix."""
    for prefix_factor, unit_prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= prefix_factor:
            return f"{number / prefix_factor:.3g} {unit_prefix}"
    return f"{number:.3g}"
