"""Findings as rows of the page: each short, and no more of them than there is room for."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from markupsafe import Markup

from auditor.checks import BY_ID
from auditor.model.finding import Finding, Standing
from auditor.reports.finding_text import class_text, command_for, entries, positions_text
from auditor.reports.plain_text import shorten

BOOKIES_SHOWN = 3  # with missing entries, and unknown ones, in one finding
_MESSAGE, _ID, _ENTRIES, _EVIDENCE = 300, 80, 120, 400  # characters


def finding_shown(finding: Finding, standing: Standing | None, run: str) -> dict[str, Any]:
    """What the row of a finding says, of a run that commands name ``run``; every text of it is bounded."""
    lacking = [
        (shorten(part.bookie_id, _ID), shorten(entries(part.groups, part.count), _ENTRIES))
        for part in finding.missing[:BOOKIES_SHOWN]
    ]
    return {
        "severity": finding.severity,
        "rank": finding.severity.rank,
        "confidence": str(finding.confidence),
        "check": finding.id,
        "documented": finding.id in BY_ID,  # a later version may know more checks
        "scope_id": finding.scope_id,
        "ledger_id": finding.ledger_id,
        "bookie_id": None if finding.bookie_id is None else shorten(finding.bookie_id, _ID),
        "message": shorten(finding.message, _MESSAGE),
        "entries": shorten(class_text(finding), _ENTRIES),
        "positions": shorten(positions_text(finding), _MESSAGE),
        "lacking": lacking,
        "lacking_left": len(finding.missing) - len(lacking),
        "unknown": [shorten(name, _ID) for name in finding.unknown[:BOOKIES_SHOWN]],
        "unknown_left": max(len(finding.unknown) - BOOKIES_SHOWN, 0),
        "evidence": shorten(json.dumps(finding.evidence, sort_keys=True), _EVIDENCE)
        if finding.evidence
        else "",
        "command": command_for(finding, run),
        "fingerprint": finding.fingerprint,
        "standing": standing,
    }


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
