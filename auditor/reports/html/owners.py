"""Whose the ledgers are: tables by tenant, namespace and topic, and the leaks to look at first."""

from __future__ import annotations

from typing import Any

from auditor.model.amounts import duration
from auditor.model.figures import OwnerFigures
from auditor.model.owners import NO_OWNER, NOBODY, OwnerTotal
from auditor.reports.owners import ORDER, findings_text
from auditor.reports.plain_text import shorten

OWNERS_SHOWN = {"tenant": 20, "namespace": 30, "topic": 50}
"""So many owners of each level are on the page: those with the worst findings."""

LEAKS_SHOWN = 40

_NAME = 120
_OPEN = "namespace"
"""The level that is there to read without a click."""


def owners_shown(owners: OwnerFigures | None) -> dict[str, Any]:
    """The rows of every level, and the leaks with their ages.

    >>> from auditor.model.leak import LeakTotals
    >>> one = OwnerFigures({"tenant": (OwnerTotal("shop"),)}, {"tenant": 7}, (), LeakTotals(), 0)
    >>> [(level["name"], level["total"], level["rows"][0]["name"]) for level in owners_shown(one)["owners"]]
    [('tenant', 7, 'shop')]
    """
    if owners is None or not (any(owners.totals.values()) or owners.leaks):
        return {"owners": [], "leaks": [], "leaked": None, "leak_order": ORDER}
    levels = [
        {
            "name": level,
            "total": owners.totals[level],
            "open": level == _OPEN,
            "rows": [_row(total) for total in totals],
        }
        for level, totals in owners.levels.items()
    ]
    ages = [None if each.made is None else max(owners.scan_time - each.made, 0) for each in owners.leaks]
    leaks = [
        {
            "leak": leak,
            "age": "" if age is None else age,
            "age_text": "not known" if age is None else duration(age / 1000),
        }
        for leak, age in zip(owners.leaks, ages, strict=True)
    ]
    return {"owners": levels, "leaks": leaks, "leaked": owners.leaked, "leak_order": ORDER}


def _row(total: OwnerTotal) -> dict[str, Any]:
    name = NO_OWNER if total.name == NOBODY else shorten(total.name, _NAME)
    return {"name": name, "total": total, "findings": findings_text(total)}
