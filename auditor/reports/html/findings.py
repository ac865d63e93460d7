"""Findings on the HTML page: the visible rows, the compressed blocks, and drawings of broken ledgers in SVG.

In a drawing, each bookie has one row, in which entries go from left to right. A block is a text that is
compressed with zlib and encoded in base64. No character of base64 has a meaning in HTML. The script of the
page unpacks the block. The text has findings, one on each line, or it is a JSON array of drawings. A
drawing in the array is a pair of name and HTML.
"""

import json
import zlib
from base64 import b64encode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, zip_longest
from typing import Any, NamedTuple

from markupsafe import Markup

from auditor.codecs.availability import coverage
from auditor.errors import CoverageLimitError
from auditor.model.amounts import and_more, format_time, plural
from auditor.model.finding import ChangeStatus, Finding, Urgency
from auditor.model.views import LedgerView
from auditor.reports.finding_text import (
    class_entries_text,
    command_for,
    entries_text,
    explain_arguments_for,
    positions_text,
)
from auditor.reports.ledger import (
    Cell,
    Replica,
    column_width,
    log_entries_text,
    replica_texts,
    replicas_of,
    stripes_of,
)
from auditor.reports.plain_text import printable, shorten

MAX_BOOKIES_SHOWN = 3  # of those that lack entries, and of unread ones, in one finding
MAX_ID_CHARACTERS = 80  # of a bookie's id
_MAX_MESSAGE_CHARACTERS, _MAX_ENTRIES_CHARACTERS, _MAX_EVIDENCE_CHARACTERS, _MAX_COMMAND_CHARACTERS = (
    300,
    120,
    400,
    200,
)

FIELD_SEPARATOR = "\x1f"
"""Separator between the items in one field of a finding."""

MAX_FINDINGS_PACKED = 1_000_000
"""Largest number of findings on a page. A browser needs some 500 bytes of memory for each."""

_FINDINGS_PER_BLOCK = 4_000
"""Number of findings in a block. Writer and browser have one block in memory at a time."""
_DRAWINGS_PER_BLOCK = 200


class FindingFields(NamedTuple):
    """Fields of a finding on the page, in the order in which a line of a block has them.

    Each field is a text with only visible characters and a limited length. It is empty if there is no
    value. The fingerprint comes last, so that the search of the page can treat it separately. Otherwise a
    search for a number would find fingerprints that contain it.
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


def finding_fields(finding: Finding, change_status: ChangeStatus | None) -> FindingFields:
    """Return the fields of a finding for the page.

    >>> from auditor.model.finding import Confidence, Severity
    >>> finding = Finding("x", Severity.NOTE, Confidence.SUSPECT, 0, 42, message="a\\tlie")
    >>> shown = finding_fields(finding, None)
    >>> shown.message, shown.ledger, shown.bookie, shown.explain
    ('a?lie', '42', '', 'ledger 42')
    """
    missing_texts = [
        f"{shorten(part.bookie_id, MAX_ID_CHARACTERS)} lacks "
        f"{shorten(entries_text(part.groups, part.count), _MAX_ENTRIES_CHARACTERS)}"
        for part in finding.missing[:MAX_BOOKIES_SHOWN]
    ]
    unknown_bookies = [shorten(name, MAX_ID_CHARACTERS) for name in finding.unknown[:MAX_BOOKIES_SHOWN]]
    suppression_reason = change_status.suppressed if change_status else None
    return FindingFields(
        urgency="" if finding.urgency == Urgency.NOT_URGENT else finding.urgency,
        severity=finding.severity,
        check=printable(finding.id),
        confidence=finding.confidence,
        scope=str(finding.scope_id) if finding.scope_id else "",
        ledger="" if finding.ledger_id is None else str(finding.ledger_id),
        bookie="" if finding.bookie_id is None else shorten(finding.bookie_id, MAX_ID_CHARACTERS),
        message=shorten(finding.message, _MAX_MESSAGE_CHARACTERS),
        entries=shorten(class_entries_text(finding), _MAX_ENTRIES_CHARACTERS),
        positions=shorten(positions_text(finding), _MAX_MESSAGE_CHARACTERS),
        lacking=_join_items(missing_texts, len(finding.missing)),
        unknown=_join_items(unknown_bookies, len(finding.unknown)),
        cause="" if finding.cause is None else str(finding.cause),
        change=printable(change_status.change) if change_status else "",
        since=format_time(change_status.first_seen) if change_status else "",
        suppressed="" if suppression_reason is None else f"suppressed: {shorten(suppression_reason)}",
        evidence=shorten(json.dumps(finding.evidence, sort_keys=True), _MAX_EVIDENCE_CHARACTERS)
        if finding.evidence
        else "",
        explain=shorten(explain_arguments_for(finding), _MAX_COMMAND_CHARACTERS),
        fingerprint=shorten(finding.fingerprint, 32),
    )


def _join_items(names: Iterable[str], item_count: int) -> str:
    return FIELD_SEPARATOR.join([*names, *and_more(item_count - MAX_BOOKIES_SHOWN, " bookies")])


def rows_that_fit(checks: Sequence[str], render_row: Callable[[int], str], max_bytes: int) -> list[Markup]:
    """Return as many rows as fit into ``max_bytes`` bytes, in their order.

    The first row of every check takes precedence over the second row of any check. After
    the first row that does not fit, no further row is rendered.

    Args:
        checks: The check of each row.
        render_row: Function that renders the row with a given number.
        max_bytes: Number of bytes for all rows.

    >>> rows_that_fit(["a", "a", "a", "b"], lambda number: f"{number};", max_bytes=6)
    [Markup('0;'), Markup('1;'), Markup('3;')]
    """
    row_numbers_by_check: defaultdict[str, list[int]] = defaultdict(list)
    for number, check in enumerate(checks):
        row_numbers_by_check[check].append(number)
    rendered_rows: dict[int, str] = {}
    for number in (
        row_number
        for row_numbers in zip_longest(*row_numbers_by_check.values())
        for row_number in row_numbers
        if row_number is not None
    ):
        rendered_row = render_row(number)
        max_bytes -= len(rendered_row.encode())
        if max_bytes < 0:
            break
        rendered_rows[number] = rendered_row
    return [Markup(rendered_rows[number]) for number in sorted(rendered_rows)]  # rendered with autoescape


def finding_blocks(findings: Iterable[tuple[Finding, ChangeStatus | None]]) -> Iterator[str]:
    """Yield the first `MAX_FINDINGS_PACKED` findings, in their order, as compressed blocks of lines."""
    lines = (
        "\t".join(finding_fields(*finding_entry)) for finding_entry in islice(findings, MAX_FINDINGS_PACKED)
    )
    while block_content := "\n".join(islice(lines, _FINDINGS_PER_BLOCK)):
        yield _compress_block(block_content)


def drawing_blocks(drawings: Iterable[tuple[str, str]], max_bytes: int) -> Iterator[str]:
    """Yield the first drawings as compressed blocks, up to ``max_bytes`` characters before compression.

    ``drawings`` are pairs of name and HTML.
    """
    fitting_drawings = _drawings_that_fit(drawings, max_bytes)
    while block_content := list(islice(fitting_drawings, _DRAWINGS_PER_BLOCK)):
        yield _compress_block(json.dumps(block_content))


def _compress_block(text: str) -> str:
    """Return a text as a block of the page, which the page's script unpacks: compressed with zlib, in base64.

    >>> from base64 import b64decode
    >>> zlib.decompress(b64decode(_compress_block("ledger 42"))).decode()
    'ledger 42'
    """
    return b64encode(zlib.compress(text.encode())).decode()


def _drawings_that_fit(drawings: Iterable[tuple[str, str]], max_bytes: int) -> Iterator[tuple[str, str]]:
    for name, drawing in drawings:
        max_bytes -= len(drawing)
        if max_bytes < 0:
            return
        yield name, drawing


MAX_DRAWING_COLUMNS = 120
MAX_DRAWING_ROWS = 20
MAX_SEPARATE_CELLS = 80
"""Largest number of columns drawn as separate cells. If there are more, equal neighbours become one box."""

_MAX_CHECKS_SHOWN = 6
_MAX_SEGMENTS_MARKED = 20
MAX_LOGS_SHOWN = 3
"""Largest number of entry logs with unindexed entries that a drawing names."""
_COLUMN_GAP = 0.14
# Kind, top and height of the boxes of a cell that is ten high. Kinds differ in shape and in colour.
_BOXES_BY_CELL: dict[Cell, tuple[tuple[str, float, float], ...]] = {
    Cell.PRESENT: (("held", 1, 8),),
    Cell.MISSING: (("missing", 1.5, 7),),
    Cell.SOME_MISSING: (("part", 1.5, 7), ("left", 6, 2.5)),
    Cell.UNKNOWN: (("unknown", 1.5, 7),),
    Cell.SURPLUS: (("surplus", 3.5, 3),),
    Cell.NOT_EXPECTED: (),
}


def drawing_values_of(ledger: LedgerView, findings: Sequence[Finding], run: str) -> dict[str, Any]:
    """Return the values for a ledger's drawing: facts, rows as SVG paths, and a sentence on each bookie.

    Args:
        ledger: The ledger, as the run saw it.
        findings: Findings in the report, the worst first. Only findings about the ledger are used.
        run: Name of the run in commands.
    """
    ledger_findings = [
        finding
        for finding in findings
        if (finding.ledger_id, finding.scope_id) == (ledger.ledger_id, ledger.scope_id)
    ]
    drawing_values: dict[str, Any] = {
        "ledger": ledger,
        "command": command_for(ledger_findings[0], run) if ledger_findings else None,
        "checks": list(dict.fromkeys(finding.id for finding in ledger_findings))[:_MAX_CHECKS_SHOWN],
        "rows": [],
        "log_words": [log_entries_text(log_entries) for log_entries in ledger.log_entries[:MAX_LOGS_SHOWN]],
    }
    try:
        replicas = replicas_of(ledger)
        drawn_replicas = _worst_replicas(replicas)
        stripes = stripes_of(ledger, drawn_replicas, MAX_DRAWING_COLUMNS, MAX_DRAWING_ROWS)
    except CoverageLimitError as limit_error:
        return drawing_values | {"fault": str(limit_error)}
    column_count = max(len(stripes.column_edges) - 1, 0)
    drawing_values |= {
        "fault": None,
        "columns": column_count,
        "column_width": column_width(stripes.column_edges[-1] - 1, column_count) if column_count else "",
        "last": stripes.column_edges[-1] - 1 if stripes.column_edges else -1,
        "rows_left": len(replicas) - len(drawn_replicas),
        "segments": _segment_path(ledger, stripes.column_edges),
    }
    for replica, cells in zip(drawn_replicas, stripes.cells, strict=False):
        drawing_values["rows"].append(
            {
                "bookie_id": replica.view.bookie_id,
                "paths": _cell_paths(cells),
                "words": _replica_text(ledger, replica),
            }
        )
    return drawing_values


def _worst_replicas(replicas: Sequence[Replica]) -> list[Replica]:
    """Return the replicas to draw, in their original order.

    At most `MAX_DRAWING_ROWS` replicas are drawn. Replicas with missing entries take precedence, then
    replicas with surplus entries.
    """

    def rank_of_replica(replica_number: int) -> tuple[int, int]:
        replica = replicas[replica_number]
        if len(replica.missing):
            return (0 if replica.view.known else 1), replica_number
        return (2 if len(replica.surplus) else 3), replica_number

    return [
        replicas[replica_number]
        for replica_number in sorted(sorted(range(len(replicas)), key=rank_of_replica)[:MAX_DRAWING_ROWS])
    ]


def _cell_paths(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the SVG paths of the boxes that draw one row of cells, by kind of box.

    A cell is a column of width 1 and height 10. Boxes that are drawn over other boxes come last.
    """
    draws_single_cells = len(cells) <= MAX_SEPARATE_CELLS
    paths_by_kind: dict[str, list[str]] = {
        kind: [] for boxes in _BOXES_BY_CELL.values() for kind, _, _ in boxes
    }
    column_number = 0
    for cell, equal_cells in groupby(cells):
        equal_count = len(list(equal_cells))
        box_starts = (
            range(column_number, column_number + equal_count) if draws_single_cells else [column_number]
        )
        box_width = 1 - _COLUMN_GAP if draws_single_cells else equal_count
        for box_kind, box_top, box_height in _BOXES_BY_CELL[cell]:
            paths_by_kind[box_kind] += [
                f"M{box_start} {box_top:g}h{box_width:g}v{box_height:g}h-{box_width:g}z"
                for box_start in box_starts
            ]
        column_number += equal_count
    return {kind: "".join(paths) for kind, paths in paths_by_kind.items() if paths}


def _segment_path(ledger: LedgerView, column_edges: Sequence[int]) -> str:
    """Return an SVG path with a line at the start of each segment but the first.

    The path is empty if there would be so many lines that they hide the cells.
    """
    segment_columns = {
        bisect_right(column_edges, segment.first_entry_id) - 1
        for segment in ledger.segments[1:]
        if column_edges and 0 < segment.first_entry_id < column_edges[-1]
    }
    if len(segment_columns) > _MAX_SEGMENTS_MARKED:
        return ""
    return "".join(f"M{column_number - _COLUMN_GAP / 2:g} 0v10" for column_number in sorted(segment_columns))


def _replica_text(ledger: LedgerView, replica: Replica) -> str:
    """Return a sentence that describes a row of the drawing."""
    sentence_parts = replica_texts(ledger, replica, "its index ", shorten)
    if not len(replica.missing) and len(replica.expected):
        sentence_parts.insert(
            0, f"has all {plural(coverage.count(replica.expected), 'entry')} that it should hold"
        )
    return "; ".join(sentence_parts) or "the bookie should hold no entry"
