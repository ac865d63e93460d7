"""Text that the cluster chose, made harmless for whoever reads it."""

from __future__ import annotations

from datetime import UTC, datetime

from auditor.model.finding import Confidence, Finding, Standing
from auditor.model.states import Change
from auditor.reports.ranges import entries


def printable(text: str) -> str:
    """The same text with a question mark for what is no visible character.

    Control characters would break lines, colour a terminal, or turn its reading direction.

    >>> printable("bk-1\\x1b[31m\\n:3181")
    'bk-1?[31m?:3181'
    """
    if text.isprintable():  # as nearly every text is
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def shorten(text: str, limit: int = 120) -> str:
    """Text of at most so many characters, all of them visible; both ends are kept, as ids differ at both.

    >>> shorten("bk-17.storage.example.com:3181", 20)
    'bk-17.sto...com:3181'
    """
    if len(text) > limit:  # cut first: a text may be long
        tail = (limit - 3) // 2
        text = f"{text[: limit - 3 - tail]}...{text[-tail:]}"
    return printable(text)


def missing_text(finding: Finding, bookies: int) -> str:
    """What is missing where, as ranges, of at most so many bookies; empty where nothing is.

    >>> from auditor.model.finding import Confidence, Missing, Severity
    >>> part = Missing("bk1:3181", ((4, 4, 1, 0),), 1)
    >>> missing_text(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, missing=(part,)), 5)
    'bk1:3181 lacks 4 (1 entry)'
    """
    shown = finding.missing[:bookies]
    parts = [f"{each.bookie_id} lacks {entries(each.groups, each.count)}" for each in shown]
    more = [f"{len(finding.missing) - bookies:,} more bookies"] if len(finding.missing) > bookies else []
    return "; ".join([*parts, *more])


def subject(finding: Finding) -> list[str]:
    """What a finding is about, from the widest to the narrowest; the scope only where it is not 0.

    >>> from auditor.model.finding import Confidence, Severity
    >>> subject(Finding("orphan-ledger", Severity.NOTE, Confidence.CONFIRMED, 0, 42, "bk1:3181"))
    ['ledger 42', 'bookie bk1:3181']
    """
    return [
        *([f"scope {finding.scope_id}"] if finding.scope_id else []),
        *([f"ledger {finding.ledger_id}"] if finding.ledger_id is not None else []),
        *([f"bookie {finding.bookie_id}"] if finding.bookie_id is not None else []),
    ]


def names_subject(finding: Finding) -> bool:
    """Whether the message is a whole sentence that names all that it is about, as most are."""
    words = f"{finding.message} "
    return finding.message[:1].isalpha() and all(f"{part} " in words for part in subject(finding))


def tags(finding: Finding, standing: Standing | None) -> str:
    """How sure a finding is, since when it has been there and who knows of it, in brackets; empty for none.

    >>> from auditor.model.finding import Confidence, Severity
    >>> tags(Finding("x", Severity.NOTE, Confidence.SUSPECT), Standing("worse", 1_795_237_669_000, "known"))
    ' (suspect, worse, since 2026-11-21, suppressed: known)'
    """
    parts = [str(finding.confidence)] if finding.confidence != Confidence.CONFIRMED else []
    if standing is not None:
        since = datetime.fromtimestamp(standing.first_seen / 1000, UTC).date()
        parts += [standing.change] if standing.change != Change.SAME else []
        parts += [f"since {since}"] if standing.change != Change.NEW else []
        parts += [f"suppressed: {standing.suppressed}"] if standing.suppressed is not None else []
    return f" ({', '.join(parts)})" if parts else ""
