"""Tables of all findings for other programs: CSV, and one Parquet file.

CSV quotes every text and no number. Ids and messages contain names from the cluster's metadata, which a
spreadsheet could treat as formulas. A cell with such a name gets an apostrophe in front. Parquet has the
columns of the jsonl report. Its ids are numbers, groups of entries are lists of structs, and evidence is
JSON text.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, BinaryIO

from auditor.model.amounts import first_names
from auditor.model.arrow import pa, pq
from auditor.model.finding import Finding, StatusLookup, finding_to_json, no_change_status
from auditor.reports.finding_text import class_entries_text, missing_text, positions_text
from auditor.reports.plain_text import printable

COLUMN_MEANINGS = {
    "id": "the check's id",
    "urgency": "urgency: destroys-data, lost, near-loss, below-ack-quorum, unseen or rest",
    "severity": "critical, error, warning or note",
    "confidence": "confirmed, suspect or unknown",
    "scope_id": "BP-35 scope of the ledger (0 in an unmodified BookKeeper); empty if there is no ledger",
    "ledger_id": "the ledger; empty if the finding is not about a ledger",
    "ledger_qualified_name": "BP-35 scope and ledger id in 32 hexadecimal digits; empty if there is no "
    "ledger",
    "bookie_id": "the bookie; empty if the finding is not about one bookie",
    "message": "the fault, as a sentence",
    "entries": "ranges of entries that have no copy left or are below a quorum; long lists are cut",
    "positions": "the same entries as positions in the topic, if the ledger's owner is known",
    "missing_entries": "number of missing entry copies on all bookies together",
    "missing": "ranges of missing entries for each bookie; long lists are cut",
    "unknown": "bookies for which it is unknown whether their copies exist; long lists are cut",
    "change": "new, same, worse or better, compared with the previous run; empty if unknown",
    "first_seen": "end (ISO 8601) of the first run in the unbroken series with the finding; empty if unknown",
    "suppressed": "reason in the suppression that accepts the finding; empty if it is not suppressed",
    "evidence": "JSON: facts that the finding depends on",
    "fingerprint": "fingerprint of the finding; the same in every run while the fault lasts",
    "cause": "number of the cause in report.json that explains the finding; empty if there is none",
}
"""Meanings of the columns, in the order of the columns."""

MAX_BOOKIES_SHOWN = 20
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render(findings: Iterable[Finding], change_statuses: StatusLookup = no_change_status) -> Iterator[str]:
    """Yield the header, then one row for each finding, each with a newline. Findings are read one by one.

    >>> from auditor.model.finding import Confidence, Severity
    >>> head, row = render([Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED, bookie_id="=1+1")])
    >>> row[:59]
    '"bookie-down","rest","warning","confirmed","","","","\\'=1+1"'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(COLUMN_MEANINGS)
    yield buffer.getvalue()
    for finding in findings:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(_finding_row(finding, change_statuses))
        yield buffer.getvalue()


def _finding_row(finding: Finding, change_statuses: StatusLookup) -> list[str | int]:
    change_status = change_statuses(finding.fingerprint)
    return [
        finding.id,
        str(finding.urgency),
        str(finding.severity),
        str(finding.confidence),
        _id_cell(finding.scope_id),
        _id_cell(finding.ledger_id),
        finding.ledger_qualified_name or "",
        escape_formula(finding.bookie_id or ""),
        escape_formula(finding.message),
        escape_formula(class_entries_text(finding)),
        escape_formula(positions_text(finding)),
        sum(part.count for part in finding.missing),
        escape_formula(missing_text(finding, MAX_BOOKIES_SHOWN)),
        escape_formula(first_names(finding.unknown, MAX_BOOKIES_SHOWN)),
        change_status.change if change_status else "",
        _time_text(change_status.first_seen) if change_status else "",
        escape_formula((change_status.suppressed if change_status else None) or ""),
        escape_formula(json.dumps(finding.evidence, ensure_ascii=False, sort_keys=True)),
        finding.fingerprint,
        _id_cell(finding.cause),
    ]


def _id_cell(id: int | None) -> int | str:
    return "" if id is None else id


def escape_formula(text: str) -> str:
    """Return a text for a cell of a spreadsheet.

    The text gets an apostrophe in front if the spreadsheet would treat it as a formula.

    >>> [escape_formula(text) for text in ("bk:3181", "=HYPERLINK(0)", " @x")]
    ['bk:3181', "'=HYPERLINK(0)", "' @x"]
    """
    text = printable(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text


def _time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


MAX_BATCH_ROWS = 20_000
"""Number of rows in a Parquet row group. As many rows are in memory at once."""


def write_findings_parquet(
    findings: Iterable[Finding], output_stream: BinaryIO, change_statuses: StatusLookup = no_change_status
) -> None:
    """Write all findings to ``output_stream`` as a Parquet file, one row group at a time.

    ``change``, ``first_seen`` and ``suppressed`` are null if the run did not record them.
    """
    rows = (_parquet_row(finding, change_statuses) for finding in findings)
    schema = _parquet_schema()
    with pq.ParquetWriter(output_stream, schema, compression="zstd") as writer:
        while batch := list(islice(rows, MAX_BATCH_ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _parquet_row(finding: Finding, change_statuses: StatusLookup) -> dict[str, Any]:
    change_status = change_statuses(finding.fingerprint)
    row = finding_to_json(finding)
    for part in row["missing"]:
        part["groups"] = [dict(zip(_GROUP_FIELDS, group, strict=True)) for group in part["groups"]]
    return {
        **row,
        "scope_id": finding.scope_id,
        "ledger_id": finding.ledger_id,
        "evidence": json.dumps(finding.evidence, sort_keys=True),
        "change": change_status.change or None if change_status else None,
        "first_seen": change_status.first_seen if change_status else None,
        "suppressed": change_status.suppressed if change_status else None,
    }


_GROUP_FIELDS = ("first_start", "last_start", "size", "period")


def _parquet_schema() -> Any:
    group_type = pa.struct([(name, pa.int64()) for name in _GROUP_FIELDS])
    missing_type = pa.struct(
        [("bookie_id", pa.string()), ("groups", pa.list_(group_type)), ("count", pa.int64())]
    )
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("urgency", pa.string(), nullable=False),
            pa.field("severity", pa.string(), nullable=False),
            pa.field("confidence", pa.string(), nullable=False),
            pa.field("scope_id", pa.int64()),
            pa.field("ledger_id", pa.int64()),
            pa.field("ledger_qualified_name", pa.string()),
            pa.field("bookie_id", pa.string()),
            pa.field("missing", pa.list_(missing_type), nullable=False),
            pa.field("unknown", pa.list_(pa.string()), nullable=False),
            pa.field("message", pa.string(), nullable=False),
            pa.field("evidence", pa.string(), nullable=False),
            pa.field("fingerprint", pa.string(), nullable=False),
            pa.field("cause", pa.int32()),
            pa.field("change", pa.string()),
            pa.field("first_seen", pa.timestamp("ms", "UTC")),
            pa.field("suppressed", pa.string()),
        ]
    )
