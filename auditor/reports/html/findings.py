"""Findings as the page has them: each short, as a row that is seen at first, or as a line of a block.

Blocks are text, deflated and in base64, that the script of the page unpacks: findings, one a line, or
drawings, a JSON array of pairs of name and HTML. No letter of base64 means anything to HTML.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from markupsafe import Markup

from auditor.model.amounts import format_time
from auditor.model.finding import Finding, Standing, Urgency
from auditor.reports.finding_text import class_text, entries, explained, positions_text
from auditor.reports.plain_text import printable, shorten

BOOKIES_SHOWN = 3  # with missing entries, and unknown ones, in one finding
ID = 80  # characters of a bookie's id, and of what else there is
_MESSAGE, _ENTRIES, _EVIDENCE, _COMMAND = 300, 120, 400, 200

BETWEEN = "\x1f"
"""Between the items of one field."""

FINDINGS_PACKED = 1_000_000
"""Findings on a page at most: a browser needs some 500 bytes for each."""

_BLOCK = 4_000
"""Findings of a block, which is whole by itself: who writes or reads a page has one of them at hand."""
_DRAWINGS_BLOCK = 200


class FindingShown(NamedTuple):
    """What a page says of a finding, in the order of a line: bounded texts of visible characters.

    What there is not is empty. The fingerprint is last, where no search for a number looks.
    """

    urgency: str
    severity: str
    check: str
    confidence: str
    scope: str
    ledger: str
    bookie: str
    message: str
    entries: str
    positions: str
    lacking: str
    unknown: str
    cause: str
    change: str
    since: str
    suppressed: str
    evidence: str
    explain: str
    fingerprint: str


def finding_shown(finding: Finding, standing: Standing | None) -> FindingShown:
    """A finding as the page has it.

    >>> from auditor.model.finding import Confidence, Severity
    >>> shown = finding_shown(Finding("x", Severity.NOTE, Confidence.SUSPECT, 0, 42, message="a\\tlie"), None)
    >>> shown.message, shown.ledger, shown.bookie, shown.explain
    ('a?lie', '42', '', 'ledger 42')
    """
    lacking = [
        f"{shorten(part.bookie_id, ID)} lacks {shorten(entries(part.groups, part.count), _ENTRIES)}"
        for part in finding.missing[:BOOKIES_SHOWN]
    ]
    unknown = [shorten(name, ID) for name in finding.unknown[:BOOKIES_SHOWN]]
    suppressed = standing.suppressed if standing else None
    return FindingShown(
        urgency="" if finding.urgency == Urgency.REST else finding.urgency,
        severity=finding.severity,
        check=printable(finding.id),
        confidence=finding.confidence,
        scope=str(finding.scope_id) if finding.scope_id else "",
        ledger="" if finding.ledger_id is None else str(finding.ledger_id),
        bookie="" if finding.bookie_id is None else shorten(finding.bookie_id, ID),
        message=shorten(finding.message, _MESSAGE),
        entries=shorten(class_text(finding), _ENTRIES),
        positions=shorten(positions_text(finding), _MESSAGE),
        lacking=_items(lacking, len(finding.missing)),
        unknown=_items(unknown, len(finding.unknown)),
        cause="" if finding.cause is None else str(finding.cause),
        change=printable(standing.change) if standing else "",
        since=format_time(standing.first_seen) if standing else "",
        suppressed="" if suppressed is None else f"suppressed: {shorten(suppressed)}",
        evidence=shorten(json.dumps(finding.evidence, sort_keys=True), _EVIDENCE) if finding.evidence else "",
        explain=shorten(explained(finding), _COMMAND),
        fingerprint=shorten(finding.fingerprint, 32),
    )


def _items(some: Iterable[str], total: int) -> str:
    more = [f"and {total - BOOKIES_SHOWN:,} more bookies"] if total > BOOKIES_SHOWN else []
    return BETWEEN.join([*some, *more])


def rows_that_fit(checks: Sequence[str], row: Callable[[int], str], room: int) -> list[Markup]:
    """As many rows as fit into ``room`` bytes, in their order; no more than one other is rendered.

    ``checks`` has the check of every row. Every check's first row comes before any check's second one.

    >>> rows_that_fit(["a", "a", "a", "b"], lambda number: f"{number};", room=6)
    [Markup('0;'), Markup('1;'), Markup('3;')]
    """
    by_check: defaultdict[str, list[int]] = defaultdict(list)
    for number, check in enumerate(checks):
        by_check[check].append(number)
    kept: dict[int, str] = {}
    for number in (each for turn in zip_longest(*by_check.values()) for each in turn if each is not None):
        rendered = row(number)
        room -= len(rendered.encode())
        if room < 0:
            break
        kept[number] = rendered
    return [Markup(kept[number]) for number in sorted(kept)]  # rendered with autoescape


def findings_packed(findings: Iterable[tuple[Finding, Standing | None]]) -> Iterator[str]:
    """Blocks of the first `FINDINGS_PACKED` findings, in their order."""
    lines = ("\t".join(finding_shown(*each)) for each in islice(findings, FINDINGS_PACKED))
    while block := "\n".join(islice(lines, _BLOCK)):
        yield _pack(block)


def drawings_packed(drawings: Iterable[tuple[str, str]], room: int) -> Iterator[str]:
    """Blocks of drawings by name: as many, from the first on, as fit into ``room`` characters unpacked."""
    fitting = _fitting(drawings, room)
    while block := list(islice(fitting, _DRAWINGS_BLOCK)):
        yield _pack(json.dumps(block))


def _pack(text: str) -> str:
    """A text as a block: zlib's form, in base64.

    >>> from base64 import b64decode
    >>> zlib.decompress(b64decode(_pack("ledger 42"))).decode()
    'ledger 42'
    """
    return b64encode(zlib.compress(text.encode())).decode()


def _fitting(drawings: Iterable[tuple[str, str]], room: int) -> Iterator[tuple[str, str]]:
    for name, drawing in drawings:
        room -= len(drawing)
        if room < 0:
            return
        yield name, drawing
