"""A finding in words: what it is about, what is missing where, how sure, since when, and what tells more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from auditor.model.amounts import format_time
from auditor.model.finding import Confidence, Finding, Group, Standing
from auditor.model.ledger_id import LedgerId
from auditor.model.states import Change
from auditor.reports.plain_text import printable

BOOKIES_SHOWN = 5
"""Bookies with missing entries that a text names of one finding."""

SPELLED_RUNS = 2
"""A group of so many runs or fewer is shown run by run; of more, by its period."""

ITEMS_SHOWN = 8
"""Of a set without pattern no more than this is shown: the jsonl report has all of it."""


def finding_line(finding: Finding, standing: Standing | None = None) -> str:
    """A finding for a pipe, in a line that grep finds whole: SEVERITY check object: what [confidence, ...].

    >>> from auditor.model.finding import Confidence, Severity
    >>> found = Finding("stray-file", Severity.NOTE, Confidence.SUSPECT, bookie_id="bk1:3181", message="x")
    >>> finding_line(found, Standing("new", 1_795_237_669_000))
    'note stray-file bookie bk1:3181: x [suspect, new]'
    """
    scope, ledger, bookie = _subject(finding)
    about = " ".join(filter(None, (ledger, ledger and scope and f"of {scope}", bookie))) or "cluster"
    what = "; ".join(filter(None, (finding.message, missing_text(finding, BOOKIES_SHOWN))))
    tags = ", ".join([str(finding.confidence), *_standing_words(standing)])
    return printable(" ".join(f"{finding.severity} {finding.id} {about}: {what} [{tags}]".split()))


def subject(finding: Finding) -> list[str]:
    """What a finding is about, from the widest to the narrowest; the scope only where it is not 0.

    >>> from auditor.model.finding import Confidence, Severity
    >>> subject(Finding("orphan-ledger", Severity.NOTE, Confidence.CONFIRMED, 0, 42, "bk1:3181"))
    ['ledger 42', 'bookie bk1:3181']
    """
    return [part for part in _subject(finding) if part is not None]


def names_subject(finding: Finding) -> bool:
    """Whether the message is a whole sentence that names all that it is about, as most are."""
    words = f"{finding.message} "
    return finding.message[:1].isalpha() and all(f"{part} " in words for part in subject(finding))


def tags(finding: Finding, standing: Standing | None) -> list[str]:
    """How sure a finding is, since when it has been there and who knows of it; what is usual is left out.

    >>> from auditor.model.finding import Confidence, Severity
    >>> tags(Finding("x", Severity.NOTE, Confidence.SUSPECT), Standing("worse", 1_795_237_669_000, "known"))
    ['suspect', 'worse', 'since 2026-11-21', 'suppressed: known']
    """
    unsure = [str(finding.confidence)] if finding.confidence != Confidence.CONFIRMED else []
    return unsure + _standing_words(standing)


def sentence(finding: Finding, standing: Standing | None) -> tuple[str, str, str]:
    """What a finding is about, empty where its message says so; its message; its tags in brackets.

    >>> from auditor.model.finding import Confidence, Severity
    >>> sentence(Finding("x", Severity.NOTE, Confidence.SUSPECT, 0, 42, message="lies"), None)
    ('ledger 42', 'lies', ' (suspect)')
    """
    # A message that begins with no letter could begin a list or a heading of Markdown.
    about = "" if names_subject(finding) else ", ".join(subject(finding)) or "cluster"
    words = ", ".join(tags(finding, standing))
    return about, finding.message, f" ({words})" if words else ""


def missing_text(finding: Finding, bookies: int) -> str:
    """What is missing where, as ranges, of at most so many bookies; empty where nothing is.

    >>> from auditor.model.finding import Confidence, Missing, Severity
    >>> part = Missing("bk1:3181", ((4, 4, 1, 0),), 1)
    >>> missing_text(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, missing=(part,)), 5)
    'bk1:3181 lacks 4 (1 entry)'
    """
    return "; ".join(missing_parts(finding, bookies))


def missing_parts(finding: Finding, bookies: int) -> list[str]:
    """A part for each of at most so many bookies that lack entries, and how many more there are."""
    shown = finding.missing[:bookies]
    parts = [f"{each.bookie_id} lacks {entries(each.groups, each.count)}" for each in shown]
    more = [f"{len(finding.missing) - bookies:,} more bookies"] if len(finding.missing) > bookies else []
    return [*parts, *more]


def command_for(finding: Finding, run: str) -> str | None:
    """The command that tells more of a finding; None for one of the whole cluster."""
    if finding.ledger_id is not None:
        return f"bkaudit explain ledger {_ledger_argument(finding)} --run {shlex.quote(printable(run))}"
    if finding.bookie_id is not None:
        name = shlex.quote(printable(finding.bookie_id))
        return f"bkaudit explain bookie {name} --run {shlex.quote(printable(run))}"
    return None


def _ledger_argument(finding: Finding) -> str:
    """A finding's ledger as the command line takes it; a number below 0 would be taken for an option."""
    if finding.ledger_id is not None and (finding.scope_id or finding.ledger_id < 0):
        return f"--ledger-qualified-name {LedgerId(finding.ledger_id, finding.scope_id or 0).qualified_name}"
    return str(finding.ledger_id)


def _subject(finding: Finding) -> tuple[str | None, str | None, str | None]:
    """Scope, ledger and bookie, None for what is not meant."""
    return (
        f"scope {finding.scope_id}" if finding.scope_id else None,
        f"ledger {finding.ledger_id}" if finding.ledger_id is not None else None,
        f"bookie {finding.bookie_id}" if finding.bookie_id is not None else None,
    )


def _standing_words(standing: Standing | None) -> list[str]:
    if standing is None:
        return []
    return [
        *([standing.change] if standing.change != Change.SAME else []),
        *([f"since {format_time(standing.first_seen)[:10]}"] if standing.change != Change.NEW else []),
        *([f"suppressed: {standing.suppressed}"] if standing.suppressed is not None else []),
    ]


def entries(groups: Sequence[Group], count: int) -> str:
    """Show a set of entries, given as BP-34 groups, with its size.

    >>> entries([(1, 1, 2, 0), (4, 4, 5, 0)], 7)
    '1,2,4-8 (7 entries)'
    >>> entries([(0, 2997, 2, 3)], 2000)
    '0-2998 every 3, 2 long (2,000 entries)'
    >>> entries([(5, 5, 1, 0)], 1)
    '5 (1 entry)'
    """
    items = [(_periodic(group), False) if _is_long(group) else (_runs(group), True) for group in groups]
    text = ""
    plain = True
    for shown, is_plain in items[:ITEMS_SHOWN]:
        # A periodic group has a comma of its own.
        separator = "," if plain and is_plain else "; "
        text += (separator if text else "") + shown
        plain = is_plain
    if len(items) > ITEMS_SHOWN:
        text += f" and {len(items) - ITEMS_SHOWN:,} more ranges"
    return f"{text} ({count:,} {'entry' if count == 1 else 'entries'})"


def _is_long(group: Group) -> bool:
    first, last, _, period = group
    return period > 0 and (last - first) // period >= SPELLED_RUNS


def _periodic(group: Group) -> str:
    first, last, size, period = group
    length = f", {size} long" if size > 1 else ""
    return f"{first}-{last + size - 1} every {period}{length}"


def _runs(group: Group) -> str:
    first, last, size, _ = group
    return ",".join(_run(start, size) for start in ([first] if first == last else [first, last]))


def _run(start: int, size: int) -> str:
    if size <= 2:
        return ",".join(str(entry) for entry in range(start, start + size))
    return f"{start}-{start + size - 1}"
