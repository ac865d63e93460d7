"""Owners of ledgers, such as Pulsar topics: totals by owner, a topic with its ledgers, and leaked ledgers.

Leaked ledgers have no owner. The module renders text, Markdown, CSV, JSON and values for the HTML page. No
form contains a command that deletes.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from auditor.model.amounts import and_more, duration, plural, size
from auditor.model.finding import Severity
from auditor.model.report_source import (
    NO_OWNER_LABEL,
    NOBODY,
    Leak,
    LeakTotals,
    OwnerFigures,
    OwnerLevel,
    OwnerTotal,
)
from auditor.model.states import LedgerClass, Reach
from auditor.model.views import OtherReference, TopicCursor, TopicLedger, TopicView
from auditor.reports.csv import escape_formula
from auditor.reports.layout import NameTable, name_table_lines
from auditor.reports.markdown import escape_markdown
from auditor.reports.plain_text import fold_text, printable, shorten


def totals_text(totals: Sequence[OwnerTotal], level: OwnerLevel, width: int | None = None) -> str:
    """Return a table of all tenants, namespaces or topics, with lines of at most ``width`` columns.

    If ``width`` is None, lines may have any width.

    >>> print(totals_text([OwnerTotal("shop", 2, 700, 1, entries=9, findings={"error": 1})], "tenant"))
    tenant  ledgers  bytes  entries  dangling  leaked  leaked bytes  leaked entries  findings
    shop    2        700 B  9        1         0       0 B           0               1 error
    """
    column_titles = (
        *(level, "ledgers", "bytes", "entries", "dangling", "leaked", "leaked bytes", "leaked entries"),
        "findings",
    )
    return "\n".join(name_table_lines(NameTable(column_titles, [*map(_total_row, totals)]), width))


def findings_text(total: OwnerTotal) -> str:
    """Return the number of findings of each severity, the worst first. Empty if there are no findings.

    >>> findings_text(OwnerTotal("shop", findings={"note": 1_000, "error": 2}))
    '2 error, 1,000 note'
    """
    severity_counts = ((severity, total.findings.get(str(severity), 0)) for severity in Severity)
    return ", ".join(f"{count:,} {severity}" for severity, count in severity_counts if count)


def _total_row(total: OwnerTotal) -> tuple[str, ...]:
    return (
        NO_OWNER_LABEL if total.name == NOBODY else printable(total.name),
        f"{total.ledgers:,}",
        size(total.bytes),
        f"{total.entries:,}",
        f"{total.dangling:,}",
        f"{total.unowned:,}",
        size(total.leaked_bytes),
        f"{total.leaked_entries:,}",
        findings_text(total) or "-",
    )


_EMPTY_CELL = "-"
_LEDGER_TITLES = ("ledger", "class", "standing", "entries", "size", "offload", "subscriptions")
_CURSOR_TITLES = ("subscription", "acknowledged up to", "own ledger", "")
_REFERENCE_TITLES = ("besides", "ledger", "standing", "")


def topic_text(view: TopicView, width: int | None = None) -> str:
    """Return the page of a topic in lines of at most ``width`` columns. None: lines may have any width."""
    lines = [*_folded_lines(f"topic {view.name}", width, ""), *_folded_lines(view.path, width)]
    if view.unread_reason is not None:
        lines += _folded_lines(f"the topic's list of ledgers could not be read: {view.unread_reason}", width)
    else:
        lines += ["", *_table_lines(_LEDGER_TITLES, map(_ledger_row, view.ledgers), width)]
        if not view.ledgers:
            lines.append("  the list has no ledgers")
        lines += _unavailable_lines(view, width)
    lines += ["", *_table_lines(_CURSOR_TITLES, map(_cursor_row, view.cursors), width)]
    if view.unlisted_reason is not None:
        lines += _folded_lines(f"the subscriptions could not be listed: {view.unlisted_reason}", width)
    elif not view.cursors:
        lines.append("  no subscription")
    if view.other_references:
        lines += ["", *_table_lines(_REFERENCE_TITLES, map(_reference_row, view.other_references), width)]
    return "\n".join(lines)


def _unavailable_lines(view: TopicView, width: int | None) -> list[str]:
    """Return the lines on the topic's ledgers that cannot be read or closed now. Empty if there are none."""
    count = sum(ledger.reachability in (Reach.UNAVAILABLE, Reach.UNRECOVERABLE) for ledger in view.ledgers)
    if not count:
        return []
    ledgers_text = plural(count, "ledger has", "ledgers have")
    return _folded_lines(f"{ledgers_text} too few registered ensemble members to be read or closed", width)


def _class_and_reach_text(ledger: TopicLedger) -> str:
    """Return a text on the class of a ledger, and on what limits reading it.

    The class is judged from the copies on disk. Reading is limited if bookies are not registered. In this
    case, the class "healthy" is left out.
    """
    if ledger.replication_class is None:
        return "not in the store"
    if ledger.reachability is None:
        return ledger.replication_class
    return (
        ledger.reachability
        if ledger.replication_class == LedgerClass.HEALTHY
        else f"{ledger.reachability}, {ledger.replication_class}"
    )


def _ledger_row(ledger: TopicLedger) -> tuple[str, ...]:
    return (
        str(ledger.ledger_id),
        _class_and_reach_text(ledger),
        f"{ledger.fault or ledger.ownership_status}{', borrowed' if ledger.is_borrowed else ''}",
        _EMPTY_CELL if ledger.entries is None else f"{ledger.entries:,}",
        _EMPTY_CELL if ledger.size is None else size(ledger.size),
        ledger.offload or _EMPTY_CELL,
        ledger.backlog,
    )


def _cursor_row(cursor: TopicCursor) -> tuple[str, ...]:
    if cursor.unread_reason is not None:
        return printable(cursor.name), "not known", _EMPTY_CELL, printable(cursor.unread_reason)
    position_text = "nothing" if cursor.position is None else f"{cursor.position[0]}:{cursor.position[1]}"
    cursor_ledger_text = _EMPTY_CELL if cursor.ledger_id is None else str(cursor.ledger_id)
    position_clause = (
        "" if cursor.ledger_id is None else ("or a later position, stored in the subscription's own ledger")
    )
    cursor_note = (
        "this ledger is not in the store" if cursor.ownership_status == "dangling" else position_clause
    )
    return printable(cursor.name), position_text, cursor_ledger_text, cursor_note


def _reference_row(reference: OtherReference) -> tuple[str, ...]:
    ledger_text = _EMPTY_CELL if reference.ledger_id is None else str(reference.ledger_id)
    return (
        reference.kind,
        ledger_text,
        reference.fault or reference.ownership_status or "not known",
        printable(reference.detail or ""),
    )


def _table_lines(column_titles: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    text_width = None if width is None else width - 2
    return [f"  {line}".rstrip() for line in name_table_lines(NameTable(column_titles, [*rows]), text_width)]


def _folded_lines(text: str, width: int | None, indent: str = "  ") -> list[str]:
    """Return an indented sentence in lines of at most ``width`` columns. None: do not fold."""
    return [indent + printable(text)] if width is None else fold_text(text, width, indent, f"{indent}  ")


LEAKS_SCHEMA = "bookkeeper-auditor/leaks/1"
MAX_TEXT_LEAKS = 200
"""Largest number of leaks in text and Markdown. CSV, JSON and jsonl have all leaks."""

LEAK_ORDER_TEXT = (
    "Check confirmed ledgers first; the largest are at the top. To confirm a suspect ledger, run another "
    "audit at least --owner-grace later. Before you delete a ledger, make sure that its last owner "
    "is gone for good."
)
_LEAK_TITLES = ("ledger", "confidence", "age", "bytes", "entries", "last known owner", "why")

LeakRenderer = Callable[[LeakTotals, Iterable[Leak], int], Iterator[str]]
"""Renderer of leaks: a function of totals, leaks and scan time in ms that yields the parts of a text."""


def leaks_text(
    leak_totals: LeakTotals, leaks: Iterable[Leak], now_ms: int, width: int | None = None
) -> Iterator[str]:
    """Yield a table of leaks (ledgers without an owner), totals, and in which order to look at the leaks."""
    shown_leaks = list(islice(leaks, MAX_TEXT_LEAKS))
    if shown_leaks:
        table = NameTable(_LEAK_TITLES, [_leak_cells(leak, now_ms) for leak in shown_leaks])
        yield "\n".join(name_table_lines(table, width)) + "\n"
    yield from and_more(leak_totals.ledgers - len(shown_leaks), "; --format csv or jsonl lists all\n")
    for sentence in ("", _totals_sentence(leak_totals), *([LEAK_ORDER_TEXT] if leak_totals.ledgers else [])):
        yield "\n".join(_folded_lines(sentence, width, "")) + "\n"


def leaks_markdown(totals: LeakTotals, leaks: Iterable[Leak], now_ms: int) -> Iterator[str]:
    """Yield the leaks (ledgers without an owner) as a Markdown table, for a ticket."""
    yield f"**{_totals_sentence(totals)}**\n\n"
    if not totals.ledgers:
        return
    yield f"{LEAK_ORDER_TEXT}\n\n| {' | '.join(_LEAK_TITLES)} |\n|{'---|' * len(_LEAK_TITLES)}\n"
    shown_count = 0
    for leak in islice(leaks, MAX_TEXT_LEAKS):
        shown_count += 1
        yield f"| {' | '.join(map(escape_markdown, _leak_cells(leak, now_ms)))} |\n"
    yield from and_more(totals.ledgers - shown_count, "\n", "\n")


def leaks_csv(totals: LeakTotals, leaks: Iterable[Leak], now_ms: int) -> Iterator[str]:
    """Yield a header and one row for each leak (unowned ledger). Formulas get an apostrophe in front."""
    names = [*_leak_object(Leak(0, "", "", "", None, None, None, None, "", None), now_ms)]
    yield _csv_line(names)
    for leak in leaks:
        leak_values = _leak_object(leak, now_ms).values()
        yield _csv_line([escape_formula(value) if isinstance(value, str) else value for value in leak_values])


def leaks_json(totals: LeakTotals, leaks: Iterable[Leak], now_ms: int) -> Iterator[str]:
    """Yield one JSON object with the totals and every leak (a ledger without an owner)."""
    document_head = {"schema": LEAKS_SCHEMA, "totals": asdict(totals), "order": LEAK_ORDER_TEXT}
    yield json.dumps(document_head, ensure_ascii=False)[:-1] + ', "leaks": ['
    for number, leak in enumerate(leaks):
        yield f"{',' if number else ''}\n{json.dumps(_leak_object(leak, now_ms), ensure_ascii=False)}"
    yield "\n]}\n"


def leaks_jsonl(totals: LeakTotals, leaks: Iterable[Leak], now_ms: int) -> Iterator[str]:
    """Yield one JSON line for each leak (a ledger without an owner)."""
    for leak in leaks:
        yield json.dumps(_leak_object(leak, now_ms), ensure_ascii=False, separators=(",", ":")) + "\n"


LEAK_FORMS: dict[str, LeakRenderer] = {
    "text": leaks_text,
    "markdown": leaks_markdown,
    "csv": leaks_csv,
    "json": leaks_json,
    "jsonl": leaks_jsonl,
}
"""Renderer of leaks for each value of ``--format``."""


def _totals_sentence(totals: LeakTotals) -> str:
    if not totals.ledgers:
        return "No leaked ledger is known."
    return (
        f"{plural(totals.ledgers, 'ledger has', 'ledgers have')} no owner: {size(totals.bytes)} in "
        f"{totals.entries:,} entries, each counted once; {totals.confirmed:,} confirmed, "
        f"{size(totals.confirmed_bytes)}."
    )


def _leak_cells(leak: Leak, now_ms: int) -> tuple[str, ...]:
    return (
        str(leak.ledger_id),
        leak.confidence,
        "not known" if leak.made is None else duration(max(now_ms - leak.made, 0) / 1000),
        "not known" if leak.bytes is None else size(leak.bytes),
        "not known" if leak.entries is None else f"{leak.entries:,}",
        printable(leak.owner),
        printable(
            "; ".join(part for part in (leak.why, leak.doubt and f"unconfirmed: {leak.doubt}") if part)
        ),
    )


def _leak_object(leak: Leak, now_ms: int) -> dict[str, Any]:
    age = None if leak.made is None else max(now_ms - leak.made, 0) // 1000
    leak_object = {**asdict(leak), "age_seconds": age}
    return {**leak_object, "ledger_id": str(leak.ledger_id)}


def _csv_line(leak_values: Iterable[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow(leak_values)
    return buffer.getvalue()


MAX_HTML_OWNERS = {"tenant": 20, "namespace": 30, "topic": 50}
"""Largest number of owners of each level on the HTML page. Owners with the worst findings come first."""

MAX_HTML_LEAKS = 40

_MAX_NAME_CHARACTERS = 120
_EXPANDED_LEVEL = "namespace"
"""Level of owners that the HTML page shows without a click."""


def owner_page_values(owners: OwnerFigures | None) -> dict[str, Any]:
    """Return values for the HTML page: totals of tenants, namespaces and topics, and leaks with their ages.

    >>> from auditor.model.report_source import LeakTotals
    >>> one = OwnerFigures({"tenant": (OwnerTotal("shop"),)}, {"tenant": 7}, (), LeakTotals(), 0)
    >>> levels = owner_page_values(one)["owners"]
    >>> [(level["name"], level["total"], level["rows"][0]["name"]) for level in levels]
    [('tenant', 7, 'shop')]
    """
    if owners is None or not (any(owners.totals.values()) or owners.leaks):
        return {"owners": [], "leaks": [], "leaked": None, "leak_order": LEAK_ORDER_TEXT}
    levels = [
        {
            "name": level,
            "total": owners.totals[level],
            "open": level == _EXPANDED_LEVEL,
            "rows": [_owner_page_row(total) for total in totals],
        }
        for level, totals in owners.levels.items()
    ]
    ages = [None if leak.made is None else max(owners.scan_time - leak.made, 0) for leak in owners.leaks]
    leaks = [
        {
            "leak": leak,
            "age": "" if age is None else age,
            "age_text": "not known" if age is None else duration(age / 1000),
        }
        for leak, age in zip(owners.leaks, ages, strict=True)
    ]
    return {"owners": levels, "leaks": leaks, "leaked": owners.leaked, "leak_order": LEAK_ORDER_TEXT}


def _owner_page_row(total: OwnerTotal) -> dict[str, Any]:
    name = NO_OWNER_LABEL if total.name == NOBODY else shorten(total.name, _MAX_NAME_CHARACTERS)
    return {"name": name, "total": total, "findings": findings_text(total)}
