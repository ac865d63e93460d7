"""The leaks of a run as a list for review: text, Markdown, CSV, JSON and JSON lines.

Nothing here deletes anything, and no form has a command that does.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from auditor.model.amounts import duration, plural, size
from auditor.model.owners import Leak, LeakTotals
from auditor.reports.csv import escape_formula
from auditor.reports.markdown import escape_markdown
from auditor.reports.plain_text import printable
from auditor.reports.text_table import text_table

LEAKS_SCHEMA = "bookkeeper-auditor/leaks/1"
SHOWN = 200
"""So many stand in text and Markdown; csv, json and jsonl have all."""

ORDER = (
    "Look at confirmed ones first, from the top: they are the largest. A suspect is confirmed by the next "
    "run that is --owner-grace later. Before a ledger is deleted, see that its last owner is gone for good."
)
_HEAD = ("ledger", "confidence", "age", "bytes", "entries", "last known owner", "why")

Listing = Callable[[LeakTotals, Iterable[Leak], int], Iterator[str]]
"""From totals, leaks in order, and the scan time (ms), to the parts of a text."""


def leaks_text(totals: LeakTotals, leaks: Iterable[Leak], now: int) -> Iterator[str]:
    """A table for a terminal, what it adds up to, and in which order to look."""
    some = list(islice(leaks, SHOWN))
    if some:
        yield "\n".join(text_table(_HEAD, (_cells(each, now) for each in some))) + "\n"
    if totals.ledgers > len(some):
        yield f"and {totals.ledgers - len(some):,} more; --format csv or jsonl has all\n"
    yield f"\n{_sentence(totals)}\n"
    if totals.ledgers:
        yield f"{ORDER}\n"


def leaks_markdown(totals: LeakTotals, leaks: Iterable[Leak], now: int) -> Iterator[str]:
    """The same as a table of Markdown, for a ticket."""
    yield f"**{_sentence(totals)}**\n\n"
    if not totals.ledgers:
        return
    yield f"{ORDER}\n\n| {' | '.join(_HEAD)} |\n|{'---|' * len(_HEAD)}\n"
    shown = 0
    for each in islice(leaks, SHOWN):
        shown += 1
        yield f"| {' | '.join(map(escape_markdown, _cells(each, now)))} |\n"
    if totals.ledgers > shown:
        yield f"\nand {totals.ledgers - shown:,} more\n"


def leaks_csv(totals: LeakTotals, leaks: Iterable[Leak], now: int) -> Iterator[str]:
    """A head, and a row for every leak; what a spreadsheet would take for a formula gets an apostrophe."""
    names = [*_object(Leak(0, "", "", "", None, None, None, None, "", None), now)]
    yield _line(names)
    for each in leaks:
        values = _object(each, now).values()
        yield _line([escape_formula(value) if isinstance(value, str) else value for value in values])


def leaks_json(totals: LeakTotals, leaks: Iterable[Leak], now: int) -> Iterator[str]:
    """One JSON object: what they add up to, and every leak."""
    head = {"schema": LEAKS_SCHEMA, "totals": asdict(totals), "order": ORDER}
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "leaks": ['
    for number, each in enumerate(leaks):
        yield f"{',' if number else ''}\n{json.dumps(_object(each, now), ensure_ascii=False)}"
    yield "\n]}\n"


def leaks_jsonl(totals: LeakTotals, leaks: Iterable[Leak], now: int) -> Iterator[str]:
    """A line for every leak."""
    for each in leaks:
        yield json.dumps(_object(each, now), ensure_ascii=False, separators=(",", ":")) + "\n"


LISTINGS: dict[str, Listing] = {
    "text": leaks_text,
    "markdown": leaks_markdown,
    "csv": leaks_csv,
    "json": leaks_json,
    "jsonl": leaks_jsonl,
}
"""By the name that ``--format`` takes."""


def _sentence(totals: LeakTotals) -> str:
    if not totals.ledgers:
        return "No ledger is known to belong to nobody."
    return (
        f"{plural(totals.ledgers, 'ledger belongs', 'ledgers belong')} to nobody: {size(totals.bytes)} in "
        f"{totals.entries:,} entries, one copy of each; {totals.confirmed:,} confirmed, "
        f"{size(totals.confirmed_bytes)}."
    )


def _cells(each: Leak, now: int) -> tuple[str, ...]:
    return (
        str(each.ledger_id),
        each.confidence,
        "not known" if each.made is None else duration(max(now - each.made, 0) / 1000),
        "not known" if each.bytes is None else size(each.bytes),
        "not known" if each.entries is None else f"{each.entries:,}",
        printable(each.owner),
        printable("; ".join(part for part in (each.why, each.doubt and f"in doubt: {each.doubt}") if part)),
    )


def _object(each: Leak, now: int) -> dict[str, Any]:
    age = None if each.made is None else max(now - each.made, 0) // 1000
    value = {**asdict(each), "age_seconds": age}
    return {**value, "ledger_id": str(each.ledger_id)}


def _line(values: Iterable[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow(values)
    return buffer.getvalue()
