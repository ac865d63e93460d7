"""Values for the parts of the HTML page on the whole cluster.

The parts are verdict, coverage, counts, earlier runs and bookies. Bookies are on a map, in rows of the worst
ones, and with the contents of their entry logs and disks.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from auditor.checks import BY_ID
from auditor.checks.needs import AvailableInputs
from auditor.model.finding import Severity
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.report_source import BookieFigure, Figures
from auditor.model.run_facts import sentence_of
from auditor.model.space import DISK_BYTES, DiskTotal, SpaceTotal
from auditor.model.states import BookieRead, SpaceClass
from auditor.reports.action_text import forbidden_sentence, object_command, unconfirmed_note
from auditor.reports.blind_spots import blind_spots
from auditor.reports.coverage import (
    checked_extents,
    count_by_check,
    count_by_severity,
    reuse_sentence,
    verdict_clauses,
)
from auditor.reports.finding_text import cause_sentence, causes_of, explained_findings_text
from auditor.reports.plain_text import shorten
from auditor.reports.space import free_words

_MAX_ITEMS = 20  # gaps, notes, positions, sources, unread bookies
_MAX_TEXT = 300
_VERDICTS = {"healthy": "Healthy", "not-healthy": "Not healthy", "incomplete": "Incomplete"}


def overview(report: Report, notes: Sequence[str], run_name: str) -> dict[str, Any]:
    """Return all values for the page that come from the report, and the notices.

    Args:
        report: The report of a run.
        notes: Notices to show after those of the report.
        run_name: Name of the run in commands.
    """
    run, coverage = report.run, report.coverage
    checks = _checks(report)
    ids = [*(check["id"] for check in checks), *(finding.id for finding in report.findings)]
    return {
        "verdict": report.verdict,
        "verdict_text": _VERDICTS.get(report.verdict, report.verdict),
        "verdict_clauses": verdict_clauses(report),
        "cluster": {
            "instance_id": shorten(report.cluster.instance_id or "no instance id"),
            "metadata_uri": shorten(report.cluster.metadata_uri, _MAX_TEXT),
            "layout": report.cluster.layout,
        },
        "actions": [
            {
                "text": shorten(action["text"], _MAX_TEXT) + unconfirmed_note(action),
                "checks": action["checks"],
                "severity": action["severity"],
                "count": action["count"],
                "command": shorten(object_command(action["checks"][0], action, run_name), _MAX_TEXT),
            }
            for action in run.actions or ()
        ],
        "forbidden": [
            {
                "text": shorten(forbidden_sentence(refused), _MAX_TEXT),
                "way_out": shorten(refused["way_out"], _MAX_TEXT),
            }
            for refused in run.forbidden or ()
        ],
        "causes": [
            (
                cause["number"],
                shorten(cause_sentence(cause), _MAX_TEXT),
                shorten(explained_findings_text(cause), _MAX_TEXT),
            )
            for cause in causes_of(report)
        ],
        "run": run,
        "coverage": [
            (extent.name.capitalize(), extent.word, extent.covered_count, extent.total)
            for extent in checked_extents(report)
        ],
        "unread": _first_items(coverage.bookies.unread),
        "severities": _severities(report),
        "checks": checks,
        "found": sum(check["count"] for check in checks),
        "sampled": len(report.findings),
        "pages": [BY_ID[id] for id in dict.fromkeys(ids) if id in BY_ID],
        "changes": run.changes,
        "suppressions": run.suppressions,
        "gaps": _first_items(run.gaps),
        "blind": blind_spots(AvailableInputs.from_report(report)),
        "constants": run.checks["constants"] if run.checks is not None else [],
        "notes": _first_items([*map(sentence_of, run.remarks), *notes]),
        "reused": shorten(reuse_sentence(run.reused), _MAX_TEXT) if run.reused else None,
        "read_again": _first_items(run.reused["notes"] if run.reused else []),
        "positions": _first_items(dict.fromkeys(run.positions)),
        "sources": _first_items(run.bookie_sources),
        "operations": sorted(run.operations.items()),
    }


def _first_items(texts: Any) -> dict[str, Any]:
    shown_texts = list(texts)
    return {
        "texts": [shorten(text, _MAX_TEXT) for text in shown_texts[:_MAX_ITEMS]],
        "left": max(len(shown_texts) - _MAX_ITEMS, 0),
    }


def _severities(report: Report) -> list[dict[str, Any]]:
    """Return the counts of every severity. A severity without findings is included: a zero is information."""
    impact = {impact_row["severity"]: impact_row for impact_row in report.run.impact}
    return [
        {
            "severity": str(severity),
            "impact": impact.get(str(severity)),
            **{name: sums[name] for name in ("count", "new", "worse", "suppressed")},
        }
        for severity, sums in count_by_severity(report).items()
    ]


def _checks(report: Report) -> list[dict[str, Any]]:
    """Return the counts of all findings by severity and check, the worst first."""
    names = ("count", "unsure", "new", "worse", "suppressed")
    return [
        {
            "id": check_count.id,
            "severity": str(check_count.severity),
            "rank": check_count.severity.rank,
            "title": BY_ID[check_count.id].title if check_count.id in BY_ID else "",
            **{name: check_count.sums[name] for name in names},
        }
        for check_count in count_by_check(report)
    ]


RUNS = 40
_COLUMN_HEIGHT = 100
_DRAWN_SEVERITIES = (Severity.CRITICAL, Severity.ERROR, Severity.WARNING)


def trend(history: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the newest runs as rows, the newest first, and as columns of a drawing, the oldest first.

    Findings of the severity note are not drawn.
    """
    runs = list(history)[-RUNS:]
    highest_count = (
        max(
            (sum(run.severities.get(severity, 0) for severity in _DRAWN_SEVERITIES) for run in runs),
            default=0,
        )
        or 1
    )
    columns = []
    for number, run in enumerate(runs):
        top = _COLUMN_HEIGHT
        for severity in _DRAWN_SEVERITIES:
            count = run.severities.get(severity, 0)
            # What was found at all is seen.
            height = max(count * _COLUMN_HEIGHT // highest_count, 2) if count else 0
            top -= height
            columns.append({"x": number * 10, "y": top, "height": height, "severity": str(severity)})
    return {
        "history": runs[::-1],
        "history_left": len(history) - len(runs),
        "columns": [column for column in columns if column["height"]],
        "columns_wide": len(runs) * 10,
        "columns_most": highest_count,
    }


ROWS = 100
MAP_FROM = 20  # of fewer bookies the rows alone are a map
_SQUARES_A_ROW = 80  # squares in a row of the map
_SQUARE_PITCH = 12

KINDS = {
    "missing": "lacking entries",
    "unknown": "partly unknown",
    "surplus": "whole, with surplus entries",
    "whole": "whole",
    "idle": "with nothing expected",
}
"""Labels of the kinds of squares on the map, the worst first. A bookie has the first kind that applies."""


def bookies_shown(figures: Figures) -> dict[str, Any]:
    """Return the worst bookies as rows with bars in per mille, and all bookies as paths of a map."""
    rows = figures.bookies[:ROWS]
    highest_count = max((max(bookie.missing, bookie.too_much) for bookie in rows), default=0) or 1
    return {
        "bookies": [
            {
                "figure": bookie,
                "kind": kind_of(bookie),
                "bar": _stack_widths((bookie.whole, bookie.missing, bookie.unknown)),
                "left": _scale(bookie.missing, highest_count),
                "right": _scale(bookie.too_much, highest_count),
            }
            for bookie in rows
        ],
        "bookies_total": figures.bookies_total,
        "kinds": KINDS,
        **(_bookie_map(figures) if len(figures.bookies) >= MAP_FROM else {"squares": {}}),
    }


def kind_of(bookie: BookieFigure) -> str:
    """Return the worst key of `KINDS` that applies to a bookie.

    >>> kind_of(BookieFigure("bk-a:3181", replicas=9, unknown=1)), kind_of(BookieFigure("bk-b:3181"))
    ('unknown', 'idle')
    """
    if bookie.missing:
        return "missing"
    if bookie.unknown or bookie.read != BookieRead.READ:
        return "unknown"
    if bookie.too_much:
        return "surplus"
    return "whole" if bookie.replicas else "idle"


def _stack_widths(parts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the parts of a bar as (start, width) in per mille. Every part above 0 has a visible width."""
    total = sum(parts)
    if not total:
        return [(0, 0)] * len(parts)
    widths = [max(part_count * 1000 // total, 8) if part_count else 0 for part_count in parts]
    widest_position = widths.index(max(widths))
    widths[widest_position] += 1000 - sum(widths)
    return [(sum(widths[:number]), width) for number, width in enumerate(widths)]


def _scale(number: int, highest_count: int) -> int:
    return max(number * 1000 // highest_count, 12) if number else 0


def _bookie_map(figures: Figures) -> dict[str, Any]:
    """Return the map of bookies: one SVG path for each kind, with squares in the order of bookie ids.

    A bookie stays at its place in later runs as long as no bookie is added before it.
    """
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    ordered_figures = sorted(figures.bookies, key=lambda figure: figure.bookie_id)
    for number, bookie in enumerate(ordered_figures):
        x, y = number % _SQUARES_A_ROW * _SQUARE_PITCH, number // _SQUARES_A_ROW * _SQUARE_PITCH
        by_kind[kind_of(bookie)].append(f"M{x} {y}")
    counts = Counter(kind_of(figure) for figure in ordered_figures)
    return {
        "squares": {
            kind: "".join(f"{square_corner}{_SHAPES[kind]}" for square_corner in by_kind[kind])
            for kind in KINDS
        },
        "square_counts": {kind: counts[kind] for kind in KINDS},
        "key": {kind: f"M0 0{shape}" for kind, shape in _SHAPES.items()},
        "map_size": (
            min(len(ordered_figures), _SQUARES_A_ROW) * _SQUARE_PITCH,
            ((len(ordered_figures) - 1) // _SQUARES_A_ROW + 1) * _SQUARE_PITCH,
        ),
    }


# Each from the corner of its square, ten wide; told apart by shape as well as by colour.
_SHAPES = {
    "missing": "m1 1h8v8h-8zm1 1l6 6m0-6l-6 6",
    "unknown": "m1 1h8v8h-8zm0 4l4-4m0 8l4-4",
    "surplus": "m1 1h8v8h-8zm4 1.5v5m-2.5-2.5h5",
    "whole": "m1 1h8v8h-8z",
    "idle": "m4 4h2v2h-2z",
}


SPACE_ROWS = 50
_WIDTH = 1000

SPACE_WORDS = {
    SpaceClass.LIVE: "live",
    SpaceClass.NOT_INDEXED: "needed but not indexed",
    SpaceClass.OWNER_NAMED: "no metadata, named by an owner",
    SpaceClass.SURPLUS: "surplus entries",
    SpaceClass.OVER_REPLICATED: "over-replicated",
    SpaceClass.ORPHAN: "orphans",
    SpaceClass.SUPERSEDED: "superseded",
    SpaceClass.OWNER_UNKNOWN: "owner unknown",
    SpaceClass.NOT_YET_MAPPED: "not yet mapped",
    SpaceClass.HEADERS_AND_MAPS: "headers and maps",
}
"""Labels of the classes of bytes in entry logs, in a bar's order: in use, reclaimable, unknown, the rest."""


def space_shown(totals: Sequence[SpaceTotal]) -> dict[str, Any]:
    """Return the fullest bookies, each with the parts of its bar as (class, start, width).

    The longest bar has a width of 1,000.

    >>> space_shown([SpaceTotal("bk1:3181", {"live": 30, "orphan": 10})])["space"][0]["parts"]
    [('live', 0, 750), ('orphan', 750, 250)]
    """
    fullest_directories = sorted(totals, key=lambda total: (-total.bytes, total.name))
    highest_count = max((total.bytes for total in fullest_directories), default=0) or 1
    used_classes = [
        space_class
        for space_class in SPACE_WORDS
        if any(total.classes.get(space_class) for total in fullest_directories)
    ]
    return {
        "space": [
            {"total": total, "parts": _space_parts(total, highest_count)}
            for total in fullest_directories[:SPACE_ROWS]
        ],
        "space_left": len(fullest_directories[SPACE_ROWS:]),
        "space_words": {str(space_class): SPACE_WORDS[space_class] for space_class in used_classes},
    }


def _space_parts(total: SpaceTotal, highest_count: int) -> list[tuple[str, int, int]]:
    parts, left_edge = [], 0
    for space_class in SPACE_WORDS:
        if size := total.classes.get(space_class, 0):
            # What is there at all is seen.
            width = max(size * _WIDTH // highest_count, 2)
            parts.append((str(space_class), left_edge, width))
            left_edge += width
    return parts


DISK_WORDS = {kind.name: kind.words[0].upper() + kind.words[1:] for kind in DISK_BYTES}
"""Label of each kind of bytes on a disk other than entry logs."""


def disks_shown(space: Sequence[SpaceTotal], disks: Sequence[DiskTotal]) -> dict[str, Any]:
    """Return the disks of the bookies that have bars, in the order of the bars, with the free space as text.

    >>> disks_shown([], [DiskTotal("bk1:3181", 10, 0, 0, 0, ())])["disks"][0][1]
    'not seen'
    """
    sizes = {total.name: total.bytes for total in space}
    ordered_figures = sorted(disks, key=lambda disk: (-sizes.get(disk.name, 0), disk.name))
    return {
        "disks": [(disk, free_words(disk)) for disk in ordered_figures[:SPACE_ROWS]],
        "disk_words": DISK_WORDS,
    }
