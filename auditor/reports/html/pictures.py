"""A broken ledger as rows of SVG: one bookie a row, entries across, holes seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import Groups
from auditor.errors import CoverageLimitError
from auditor.model.amounts import plural
from auditor.model.finding import Finding, Group
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import IndexState
from auditor.model.views import LedgerView
from auditor.reports.finding_text import command_for, entries
from auditor.reports.plain_text import shorten
from auditor.reports.stripes import Cell, Replica, column_width, replicas_of, stripes_of

COLUMNS = 120
ROWS = 20
SINGLE = 80
"""Up to so many columns every cell stands alone; beyond, equal neighbours are drawn as one."""

_CHECKS = 6
_SEGMENTS_MARKED = 20
_GAP = 0.14
# Kind, top and height, of a column ten high: told apart by shape as well as by colour.
_BOXES: dict[Cell, tuple[tuple[str, float, float], ...]] = {
    Cell.HELD: (("held", 1, 8),),
    Cell.MISSING: (("missing", 1.5, 7),),
    Cell.PART: (("part", 1.5, 7), ("left", 6, 2.5)),
    Cell.UNKNOWN: (("unknown", 1.5, 7),),
    Cell.SURPLUS: (("surplus", 3.5, 3),),
    Cell.NONE: (),
}


def picture(ledger: LedgerView, findings: Sequence[Finding], run: str) -> dict[str, Any]:
    """A ledger's facts, its rows of cells as SVG paths, and in words what each bookie lacks.

    ``findings`` are samples of the run that commands name ``run``, the worst first; those about the ledger
    are named.
    """
    named = [
        each for each in findings if (each.ledger_id, each.scope_id) == (ledger.ledger_id, ledger.scope_id)
    ]
    shown: dict[str, Any] = {
        "ledger": ledger,
        "command": command_for(named[0], run) if named else None,
        "checks": list(dict.fromkeys(each.id for each in named))[:_CHECKS],
        "rows": [],
    }
    try:
        replicas = replicas_of(ledger)
        drawn = _worst(replicas)
        stripes = stripes_of(ledger, drawn, COLUMNS, ROWS)
    except CoverageLimitError as limit:
        return shown | {"fault": str(limit)}
    columns = max(len(stripes.edges) - 1, 0)
    shown |= {
        "fault": None,
        "columns": columns,
        "column_width": column_width(stripes.edges[-1] - 1, columns) if columns else "",
        "last": stripes.edges[-1] - 1 if stripes.edges else -1,
        "rows_left": len(replicas) - len(drawn),
        "segments": _segments(ledger, stripes.edges),
    }
    for replica, cells in zip(drawn, stripes.cells, strict=False):
        shown["rows"].append(
            {
                "bookie_id": replica.view.bookie_id,
                "paths": _paths(cells),
                "words": _words(ledger, replica),
            }
        )
    return shown


def _worst(replicas: Sequence[Replica]) -> list[Replica]:
    """As many as are drawn, those with trouble first, in their own order."""

    def trouble(number: int) -> tuple[int, int]:
        replica = replicas[number]
        if len(replica.lacking):
            return (0 if replica.view.known else 1), number
        return (2 if len(replica.extra) else 3), number

    return [replicas[number] for number in sorted(sorted(range(len(replicas)), key=trouble)[:ROWS])]


def _paths(cells: Sequence[Cell]) -> dict[str, str]:
    """One path of each kind of box, in columns of width 1 and height 10; what is on top comes last."""
    alone = len(cells) <= SINGLE
    parts: dict[str, list[str]] = {kind: [] for boxes in _BOXES.values() for kind, _, _ in boxes}
    column = 0
    for cell, run in groupby(cells):
        length = len(list(run))
        starts = range(column, column + length) if alone else [column]
        width = 1 - _GAP if alone else length
        for kind, top, height in _BOXES[cell]:
            parts[kind] += [f"M{start} {top:g}h{width:g}v{height:g}h-{width:g}z" for start in starts]
        column += length
    return {kind: "".join(paths) for kind, paths in parts.items() if paths}


def _segments(ledger: LedgerView, edges: Sequence[int]) -> str:
    """Where new segments begin, as one path; none where lines would hide the cells."""
    columns = {
        bisect_right(edges, each.first_entry_id) - 1
        for each in ledger.segments[1:]
        if edges and 0 < each.first_entry_id < edges[-1]
    }
    if len(columns) > _SEGMENTS_MARKED:
        return ""
    return "".join(f"M{column - _GAP / 2:g} 0v10" for column in sorted(columns))


def _words(ledger: LedgerView, replica: Replica) -> str:
    """What the row shows, in a sentence."""
    view = replica.view
    parts = []
    if len(replica.lacking):
        # The writer of a ledger that is not closed may still be sending them.
        lacks = "lacks" if ledger.state in (LedgerState.CLOSED, None) else "lacks, as yet,"
        parts.append(f"{lacks if view.known else 'unknown:'} {_entries(replica.lacking)}")
    if len(replica.extra):
        parts.append(f"holds, not expected there: {_entries(replica.extra)}")
    if not view.known or view.state not in (IndexState.OK, IndexState.ABSENT):
        parts.append(f"its index is {view.state}{f': {shorten(view.reason)}' if view.reason else ''}")
    elif len(replica.expected) and view.state == IndexState.ABSENT:
        parts.append("was read and has no index of this ledger")
    if not len(replica.lacking) and len(replica.expected):
        parts.insert(0, f"has all {plural(coverage.count(replica.expected), 'entry')} that it should hold")
    return "; ".join(parts) or "nothing is expected of it"


def _entries(groups: Groups) -> str:
    listed: list[Group] = [(a, b, c, d) for a, b, c, d in groups.tolist()]
    return shorten(entries(listed, coverage.count(groups)), 240)
