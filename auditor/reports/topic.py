"""A topic as text: its ledgers in order, one per line, then its subscriptions, then what else it needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditor.model.amounts import size
from auditor.model.views import OtherReference, TopicCursor, TopicLedger, TopicView
from auditor.reports.plain_text import printable
from auditor.reports.text_table import text_table

_NOTHING = "-"
_LEDGERS = ("ledger", "class", "standing", "entries", "size", "offload", "subscriptions")
_CURSORS = ("subscription", "acknowledged up to", "own ledger", "")
_OTHERS = ("besides", "ledger", "standing", "")


def render(view: TopicView) -> str:
    """The topic as lines of text."""
    lines = [f"topic {printable(view.name)}", f"  {printable(view.path)}"]
    if view.unread is not None:
        lines.append(f"  its list could not be read: {printable(view.unread)}")
    else:
        lines += ["", *_table(_LEDGERS, map(_ledger, view.ledgers))]
        if not view.ledgers:
            lines.append("  no ledger is listed")
    lines += ["", *_table(_CURSORS, map(_cursor, view.cursors))]
    if view.unlisted is not None:
        lines.append(f"  its subscriptions could not be listed: {printable(view.unlisted)}")
    elif not view.cursors:
        lines.append("  no subscription")
    if view.others:
        lines += ["", *_table(_OTHERS, map(_other, view.others))]
    return "\n".join(lines)


def _ledger(ledger: TopicLedger) -> tuple[str, ...]:
    return (
        str(ledger.ledger_id),
        ledger.klass or "not in the store",
        f"{ledger.fault or ledger.standing}{', borrowed' if ledger.borrowed else ''}",
        _NOTHING if ledger.entries is None else f"{ledger.entries:,}",
        _NOTHING if ledger.size is None else size(ledger.size),
        ledger.offload or _NOTHING,
        ledger.backlog,
    )


def _cursor(cursor: TopicCursor) -> tuple[str, ...]:
    if cursor.unread is not None:
        return printable(cursor.name), "not known", _NOTHING, printable(cursor.unread)
    place = "nothing" if cursor.position is None else f"{cursor.position[0]}:{cursor.position[1]}"
    own = _NOTHING if cursor.ledger_id is None else str(cursor.ledger_id)
    newer = "" if cursor.ledger_id is None else "or later: its own ledger has newer positions"
    gone = "its own ledger is not in the store" if cursor.standing == "dangling" else newer
    return printable(cursor.name), place, own, gone


def _other(other: OtherReference) -> tuple[str, ...]:
    named = _NOTHING if other.ledger_id is None else str(other.ledger_id)
    return other.kind, named, other.fault or other.standing or "not known", printable(other.detail or "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"  {line}" for line in text_table(head, rows)]
