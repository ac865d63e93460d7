"""Values for the parts of the HTML page that describe the whole cluster.

These parts are the verdict, the coverage, the counts, the earlier runs and the bookies. The page shows all
bookies on a map, and the worst bookies in rows. It also shows the contents of bookies' entry logs and disks.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from auditor.checks import CHECK_BY_ID
from auditor.checks.needs import AvailableInputs
from auditor.model.action_facts import Action
from auditor.model.finding import Severity
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.report_source import BookieFigure, Figures
from auditor.model.run_facts import sentence_of
from auditor.model.space import DISK_BYTES, DiskTotal, SpaceTotal
from auditor.model.states import BookieRead, SpaceClass
from auditor.reports.action_text import explain_command, forbidden_sentence, unconfirmed_note
from auditor.reports.blind_spots import make_blind_spots
from auditor.reports.coverage import (
    checked_extents,
    count_by_check,
    count_by_severity,
    reuse_sentence,
    verdict_clauses,
)
from auditor.reports.finding_text import cause_sentence, causes_of, explained_findings_text
from auditor.reports.plain_text import shorten
from auditor.reports.space import free_space_text

_MAX_ITEMS_SHOWN = 20  # gaps, notes, positions, sources, unread bookies
_MAX_TEXT_CHARACTERS = 300
_VERDICT_TITLES = {"healthy": "Healthy", "not-healthy": "Not healthy", "incomplete": "Incomplete"}


def report_values(report: Report, notes: Sequence[str], run_name: str) -> dict[str, Any]:
    """Return the values for the page that come from the report, together with further notices.

    Args:
        report: The report of a run.
        notes: Notices to show after those of the report.
        run_name: Name of the run in commands.
    """
    run, coverage = report.run, report.coverage
    check_rows = _check_rows(report)
    check_ids = [*(check["id"] for check in check_rows), *(finding.id for finding in report.findings)]
    return {
        "verdict": report.verdict,
        "verdict_text": _VERDICT_TITLES.get(report.verdict, report.verdict),
        "verdict_clauses": verdict_clauses(report),
        "cluster": {
            "instance_id": shorten(report.cluster.instance_id or "no instance id"),
            "metadata_uri": shorten(report.cluster.metadata_uri, _MAX_TEXT_CHARACTERS),
            "layout": report.cluster.layout,
        },
        "actions": [_action_values(action, run_name) for action in run.actions or ()],
        "forbidden": [
            {
                "text": shorten(forbidden_sentence(forbidden_action), _MAX_TEXT_CHARACTERS),
                "way_out": shorten(forbidden_action["way_out"], _MAX_TEXT_CHARACTERS),
            }
            for forbidden_action in run.forbidden or ()
        ],
        "causes": [
            (
                cause["number"],
                shorten(cause_sentence(cause), _MAX_TEXT_CHARACTERS),
                shorten(explained_findings_text(cause), _MAX_TEXT_CHARACTERS),
            )
            for cause in causes_of(report)
        ],
        "run": run,
        "coverage": [
            (extent.name.capitalize(), extent.label, extent.covered_count, extent.total)
            for extent in checked_extents(report)
        ],
        "unread": _limited_texts(coverage.bookies.unread),
        "severities": _severity_rows(report),
        "checks": check_rows,
        "found": sum(check["count"] for check in check_rows),
        "sampled": len(report.findings),
        "pages": [CHECK_BY_ID[id] for id in dict.fromkeys(check_ids) if id in CHECK_BY_ID],
        "changes": run.changes,
        "suppressions": run.suppressions,
        "gaps": _limited_texts(run.gaps),
        "blind": make_blind_spots(AvailableInputs.from_report(report)),
        "constants": run.checks["constants"] if run.checks is not None else [],
        "notes": _limited_texts([*map(sentence_of, run.remarks), *notes]),
        "reused": shorten(reuse_sentence(run.reused), _MAX_TEXT_CHARACTERS) if run.reused else None,
        "read_again": _limited_texts(run.reused["notes"] if run.reused else []),
        "positions": _limited_texts(dict.fromkeys(run.positions)),
        "sources": _limited_texts(run.bookie_sources),
        "operations": sorted(run.operations.items()),
    }


def _action_values(action: Action, run_name: str) -> dict[str, Any]:
    """Return an action as texts and numbers, with the command that explains it."""
    command = explain_command(action["checks"][0], action, run_name)
    return {
        "text": shorten(action["text"], _MAX_TEXT_CHARACTERS) + unconfirmed_note(action),
        "checks": action["checks"],
        "severity": action["severity"],
        "count": action["count"],
        "command": shorten(command, _MAX_TEXT_CHARACTERS),
    }


def _limited_texts(texts: Any) -> dict[str, Any]:
    texts_to_show = list(texts)
    return {
        "texts": [shorten(text, _MAX_TEXT_CHARACTERS) for text in texts_to_show[:_MAX_ITEMS_SHOWN]],
        "left": max(len(texts_to_show) - _MAX_ITEMS_SHOWN, 0),
    }


def _severity_rows(report: Report) -> list[dict[str, Any]]:
    """Return the counts of every severity, including severities without findings."""
    impacts_by_severity = {impact_row["severity"]: impact_row for impact_row in report.run.impact}
    return [
        {
            "severity": str(severity),
            "impact": impacts_by_severity.get(str(severity)),
            **{name: severity_counts[name] for name in ("count", "new", "worse", "suppressed")},
        }
        for severity, severity_counts in count_by_severity(report).items()
    ]


def _check_rows(report: Report) -> list[dict[str, Any]]:
    """Return the counts of all findings by severity and check, the worst first."""
    count_names = ("count", "unsure", "new", "worse", "suppressed")
    return [
        {
            "id": check_count.id,
            "severity": str(check_count.severity),
            "rank": check_count.severity.rank,
            "title": CHECK_BY_ID[check_count.id].title if check_count.id in CHECK_BY_ID else "",
            **{name: check_count.totals[name] for name in count_names},
        }
        for check_count in count_by_check(report)
    ]


MAX_TREND_RUNS = 40
_TREND_HEIGHT = 100
_DRAWN_SEVERITIES = (Severity.CRITICAL, Severity.ERROR, Severity.WARNING)


def trend_values(history: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the newest runs as rows, the newest first, and as columns of a drawing, the oldest first.

    Findings of the severity note are not drawn.
    """
    runs = list(history)[-MAX_TREND_RUNS:]
    highest_count = (
        max(
            (sum(run.severities.get(severity, 0) for severity in _DRAWN_SEVERITIES) for run in runs),
            default=0,
        )
        or 1
    )
    column_values = []
    for number, run in enumerate(runs):
        column_top = _TREND_HEIGHT
        for severity in _DRAWN_SEVERITIES:
            count = run.severities.get(severity, 0)
            # Any count above 0 has a visible height.
            column_height = max(count * _TREND_HEIGHT // highest_count, 2) if count else 0
            column_top -= column_height
            column_values.append(
                {"x": number * 10, "y": column_top, "height": column_height, "severity": str(severity)}
            )
    return {
        "history": runs[::-1],
        "history_left": len(history) - len(runs),
        "columns": [column for column in column_values if column["height"]],
        "columns_wide": len(runs) * 10,
        "columns_most": highest_count,
    }


MAX_BOOKIE_ROWS = 100
MIN_MAP_BOOKIES = 20  # fewer bookies have only rows
_SQUARES_PER_ROW = 80  # squares in a row of the map
_SQUARE_PITCH = 12

SQUARE_KIND_LABELS = {
    "missing": "lacking entries",
    "unknown": "partly unknown",
    "surplus": "complete, with surplus entries",
    "whole": "complete",
    "idle": "with no expected entry",
}
"""Labels of the kinds of squares on the map, the worst first. A bookie has the first kind that applies."""


def bookie_values(figures: Figures) -> dict[str, Any]:
    """Return the worst bookies as rows, and all bookies as paths of a map.

    Each row has bars. The lengths of their parts are in per mille.
    """
    rows = figures.bookies[:MAX_BOOKIE_ROWS]
    highest_count = max((max(bookie.missing, bookie.unexpected_ledgers) for bookie in rows), default=0) or 1
    return {
        "bookies": [
            {
                "figure": bookie,
                "kind": find_square_kind(bookie),
                "bar": _stack_widths((bookie.whole_replicas, bookie.missing, bookie.unknown)),
                "left": _scale_to_bar(bookie.missing, highest_count),
                "right": _scale_to_bar(bookie.unexpected_ledgers, highest_count),
            }
            for bookie in rows
        ],
        "bookies_total": figures.bookies_total,
        "kinds": SQUARE_KIND_LABELS,
        **(_bookie_map(figures) if len(figures.bookies) >= MIN_MAP_BOOKIES else {"squares": {}}),
    }


def find_square_kind(bookie: BookieFigure) -> str:
    """Return the worst key of `SQUARE_KIND_LABELS` that applies to a bookie.

    >>> find_square_kind(BookieFigure("bk-a:3181", replicas=9, unknown=1))
    'unknown'
    >>> find_square_kind(BookieFigure("bk-b:3181"))
    'idle'
    """
    if bookie.missing:
        return "missing"
    if bookie.unknown or bookie.read != BookieRead.READ:
        return "unknown"
    if bookie.unexpected_ledgers:
        return "surplus"
    return "whole" if bookie.replicas else "idle"


def _stack_widths(part_counts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the parts of a bar as (start, width) in per mille. Every part above 0 has a visible width."""
    total_count = sum(part_counts)
    if not total_count:
        return [(0, 0)] * len(part_counts)
    widths = [max(part_count * 1000 // total_count, 8) if part_count else 0 for part_count in part_counts]
    widest_position = widths.index(max(widths))
    widths[widest_position] += 1000 - sum(widths)
    return [(sum(widths[:position]), width) for position, width in enumerate(widths)]


def _scale_to_bar(count_to_scale: int, highest_count: int) -> int:
    return max(count_to_scale * 1000 // highest_count, 12) if count_to_scale else 0


def _bookie_map(figures: Figures) -> dict[str, Any]:
    """Return the map of bookies, with squares in the order of bookie ids.

    Each kind of square is one SVG path. A bookie keeps its place in later runs as long as no bookie is
    added before it.
    """
    corners_by_kind: defaultdict[str, list[str]] = defaultdict(list)
    sorted_figures = sorted(figures.bookies, key=lambda figure: figure.bookie_id)
    for square_index, bookie in enumerate(sorted_figures):
        corner_x, corner_y = (
            square_index % _SQUARES_PER_ROW * _SQUARE_PITCH,
            square_index // _SQUARES_PER_ROW * _SQUARE_PITCH,
        )
        corners_by_kind[find_square_kind(bookie)].append(f"M{corner_x} {corner_y}")
    counts = Counter(find_square_kind(figure) for figure in sorted_figures)
    return {
        "squares": {
            kind: "".join(f"{corner}{_SQUARE_SHAPES[kind]}" for corner in corners_by_kind[kind])
            for kind in SQUARE_KIND_LABELS
        },
        "square_counts": {kind: counts[kind] for kind in SQUARE_KIND_LABELS},
        "key": {kind: f"M0 0{shape_path}" for kind, shape_path in _SQUARE_SHAPES.items()},
        "map_size": (
            min(len(sorted_figures), _SQUARES_PER_ROW) * _SQUARE_PITCH,
            ((len(sorted_figures) - 1) // _SQUARES_PER_ROW + 1) * _SQUARE_PITCH,
        ),
    }


# Paths from the corner of a square that is ten wide. Kinds differ in shape and in colour.
_SQUARE_SHAPES = {
    "missing": "m1 1h8v8h-8zm1 1l6 6m0-6l-6 6",
    "unknown": "m1 1h8v8h-8zm0 4l4-4m0 8l4-4",
    "surplus": "m1 1h8v8h-8zm4 1.5v5m-2.5-2.5h5",
    "whole": "m1 1h8v8h-8z",
    "idle": "m4 4h2v2h-2z",
}


MAX_SPACE_ROWS = 50
_SPACE_BAR_WIDTH = 1000

SPACE_LABELS = {
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


def space_values(totals: Sequence[SpaceTotal]) -> dict[str, Any]:
    """Return the fullest bookies, each with the parts of its bar as (class, start, width).

    The longest bar has a width of 1,000.

    >>> space_values([SpaceTotal("bk1:3181", {"live": 30, "orphan": 10})])["space"][0]["parts"]
    [('live', 0, 750), ('orphan', 750, 250)]
    """
    fullest_bookies = sorted(totals, key=lambda bookie_total: (-bookie_total.bytes, bookie_total.name))
    highest_bytes = max((part_total.bytes for part_total in fullest_bookies), default=0) or 1
    present_classes = [
        space_class
        for space_class in SPACE_LABELS
        if any(part_total.classes.get(space_class) for part_total in fullest_bookies)
    ]
    return {
        "space": [
            {"total": part_total, "parts": _space_parts(part_total, highest_bytes)}
            for part_total in fullest_bookies[:MAX_SPACE_ROWS]
        ],
        "space_left": len(fullest_bookies[MAX_SPACE_ROWS:]),
        "space_words": {str(space_class): SPACE_LABELS[space_class] for space_class in present_classes},
    }


def _space_parts(bookie_total: SpaceTotal, highest_bytes: int) -> list[tuple[str, int, int]]:
    bar_parts, left_edge = [], 0
    for space_class in SPACE_LABELS:
        if byte_count := bookie_total.classes.get(space_class, 0):
            # Any size above 0 has a visible width.
            width = max(byte_count * _SPACE_BAR_WIDTH // highest_bytes, 2)
            bar_parts.append((str(space_class), left_edge, width))
            left_edge += width
    return bar_parts


DISK_LABELS = {kind.name: kind.label[0].upper() + kind.label[1:] for kind in DISK_BYTES}
"""Label of each kind of bytes on a disk other than entry logs."""


def disk_values(space_totals: Sequence[SpaceTotal], disks: Sequence[DiskTotal]) -> dict[str, Any]:
    """Return the disks of the bookies that have bars (`space_values`), with the free space as text.

    The disks have the same order as the bars.

    >>> disk_values([], [DiskTotal("bk1:3181", 10, 0, 0, 0, ())])["disks"][0][1]
    'not seen'
    """
    bytes_by_bookie = {bookie_total.name: bookie_total.bytes for bookie_total in space_totals}
    sorted_disks = sorted(disks, key=lambda disk: (-bytes_by_bookie.get(disk.name, 0), disk.name))
    return {
        "disks": [(disk, free_space_text(disk)) for disk in sorted_disks[:MAX_SPACE_ROWS]],
        "disk_words": DISK_LABELS,
    }
