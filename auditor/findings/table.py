"""The table ``findings`` (all results of the checks in order, with fingerprints), and the next steps.

There is one next step for each check and urgency. It names the first objects of the check's findings. The
module makes steps from counts of findings by check and bookie. The number of steps therefore does not grow
with the number of findings.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.checks import ALL_CHECKS, RosterCheck, TableCheck, check_order
from auditor.checks.check import FINDING_COLUMNS
from auditor.findings.causes import Claim, cause_column
from auditor.model.columns import LEDGER, REPLICA, make_schema
from auditor.model.finding import Confidence, Severity, Urgency, decimal_text
from auditor.model.run_facts import Step
from auditor.spark import functions as F
from auditor.spark.table_queries import drop_empty_queries
from auditor.spark.types import Column, DataFrame
from auditor.tables import Roster, Tables

FINDINGS_SCHEMA = make_schema(
    ("id", pa.string(), "id of the check that made the finding"),
    (
        "urgency",
        pa.string(),
        "urgency of the finding: destroys-data, lost, near-loss, below-ack-quorum, unseen or rest",
    ),
    ("severity", pa.string(), "critical, error, warning or note"),
    ("confidence", pa.string(), "confirmed, suspect or unknown"),
    ("scope_id", pa.int64(), "BP-35 scope; null if the finding is not about a ledger"),
    ("ledger_id", pa.int64(), "the ledger; null if the finding is not about a ledger"),
    (
        "ledger_qualified_name",
        pa.string(),
        "BP-35 scope and ledger id in 32 hexadecimal digits; null if the finding is not about a ledger",
    ),
    ("bookie_id", pa.string(), "the bookie; null if the finding is not about one bookie"),
    (
        "missing",
        pa.list_(pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("count", pa.int64())])),
        "entries that a bookie should have but certainly lacks, as groups of 24 bytes; sorted by bookie",
    ),
    ("unknown", pa.list_(pa.string()), "bookies whose copies are unknown"),
    ("message", pa.string(), "the finding as a sentence"),
    ("evidence", pa.string(), "facts behind the finding, as a JSON object"),
    (
        "fingerprint",
        pa.string(),
        "fingerprint of the finding, the same in every run as long as the fault lasts",
    ),
    (
        "cause",
        pa.int32(),
        "number of the cause in report.json that explains the finding; null: no cause explains it",
    ),
)


CHECK_RESULT_SCHEMA = pa.schema([FINDINGS_SCHEMA.field(name) for name in (*FINDING_COLUMNS, "id")])
"""Columns of the results of checks, before each result gets a fingerprint."""


def ask_table_checks(checks: Sequence[TableCheck], tables: Tables) -> DataFrame:
    """Return the results of all checks that query tables, as one DataFrame.

    A check is skipped if all its input tables are empty.
    """
    checks_with_input = drop_empty_queries(checks, tables) or checks[:1]
    frames: list[DataFrame] = [
        check.finder(tables).selectExpr(*check.columns, f"'{check.id}' AS id") for check in checks_with_input
    ]
    # Unite in pairs, because Spark analyses the whole union whenever a table is added to it.
    while len(frames) > 1:
        frame_pairs = zip_longest(frames[::2], frames[1::2])
        frames = [
            frame if other_frame is None else frame.union(other_frame) for frame, other_frame in frame_pairs
        ]
    return frames[0]


def ask_roster_checks(checks: Sequence[RosterCheck], roster: Roster) -> list[dict[str, Any]]:
    """Return results of checks on the roster (a run's bookies and owner stores).

    The results are rows of `CHECK_RESULT_SCHEMA`.
    """
    return [{**row, "id": check.id} for check in checks for row in check(roster)]


def add_fingerprints(
    findings: DataFrame, instance_id: str | None, cause_claims: Sequence[Claim] = ()
) -> DataFrame:
    """Add fingerprint, cause and ledger name to each finding. Return the columns in the table's order.

    ``cause_claims`` are the causes (events that explain several findings). The fingerprint is that of
    `auditor.model.finding.fingerprint`.
    """
    rows = findings.withColumn("fingerprint", fingerprints("id", instance_id)).withColumn(
        "ledger_qualified_name", qualified_names()
    )
    rows = rows.withColumn("cause", cause_column(cause_claims))
    return rows.select(*FINDINGS_SCHEMA.names).orderBy(*report_order())


def fingerprints(id: str | Column, instance_id: str | None) -> Column:
    """Return the `auditor.model.finding.fingerprint` of each row, with ``id`` as the check."""
    object_columns = ", ".join(f"coalesce(cast({column} AS string), '')" for column in REPLICA)
    fingerprint_text = F.concat_ws(
        "\0", id, F.lit(instance_id or ""), F.expr(f"concat_ws('\\0', {object_columns})")
    )
    return F.substring(F.sha2(fingerprint_text, 256), 1, 16)


def qualified_names() -> Column:
    """Return the qualified name (scope and id in hexadecimal) of each row's ledger. Null without ledger."""
    return F.concat(*(F.lpad(F.lowercase_digits(F.hex(column)), 16, "0") for column in LEDGER))


def report_order() -> list[Column]:
    """Return the order of all reports: urgency, severity, check, scope, ledger, bookie (`check_order`)."""
    rank_columns = (
        _rank_column("urgency", Urgency),
        severity_ranks(),
        _rank_column("id", (check.id for check in ALL_CHECKS)),
    )
    return [*rank_columns, *(F.col(name) for name in REPLICA)]


def severity_ranks(severity: str = "severity") -> Column:
    """Return the rank of a column of severities: 0 for the worst."""
    return _rank_column(severity, Severity)


def _rank_column(column: str, ranked_values: Iterable[str]) -> Column:
    """Return a column: the position of each row's word in ``ranked_values``, from 0.

    The words are in the column ``column``.
    """
    rank_map_text = ", ".join(
        f"'{ranked_value}', {severity_rank}" for severity_rank, ranked_value in enumerate(ranked_values)
    )
    return F.expr(f"map({rank_map_text})[{column}]")


MAX_BOOKIES_NAMED = 2


class FindingCount(NamedTuple):
    """A number of findings that agree in all other fields. The ledger fields name the first of their ledgers.

    ``suppression`` is the number of the suppressions entry that accepts the findings; None if none does.
    """

    change: str
    urgency: str
    severity: str
    id: str
    confidence: str
    suppression: int | None
    bookie_id: str | None
    findings: int
    scope_id: int | None = None
    ledger_id: int | None = None

    @property
    def confirmed(self) -> bool:
        """Return whether these findings are certain."""
        return self.confidence == Confidence.CONFIRMED


def next_steps(counts: Iterable[FindingCount], instructions: Mapping[str, str]) -> list[Step]:
    """Return the steps for unsuppressed findings, the most urgent first.

    ``instructions`` has the text from the run's list of actions, by check. If a step has a
    confirmed finding, its first bookie or ledger is from a confirmed finding.

    >>> counts = [FindingCount("new", "destroys-data", "critical", "gc-would-delete-live", "confirmed", None,
    ...                        f"bk-{name}", 1) for name in "abc"]
    >>> [(step["bookie_id"], step["count"]) for step in next_steps(counts, {})]
    [('bk-a', 3)]
    """
    counts_by_step: dict[tuple[str, str], list[FindingCount]] = {}
    for row in counts:
        if row.suppression is None:
            counts_by_step.setdefault((row.urgency, row.id), []).append(row)
    steps = [_make_step(step_counts, instructions.get(id)) for (_, id), step_counts in counts_by_step.items()]
    return sorted(steps, key=lambda step: check_order(step["urgency"], step["severity"], step["id"]))


def _make_step(step_counts: list[FindingCount], action: str | None) -> Step:
    step_counts = sorted(
        step_counts, key=lambda row: (check_order(*row[1:4]), not row.confirmed, _sort_key(row))
    )
    first_row = step_counts[0]
    count = sum(row.findings for row in step_counts)
    return Step(
        id=first_row.id,
        urgency=first_row.urgency,
        severity=first_row.severity,
        count=count,
        unsure=sum(row.findings for row in step_counts if not row.confirmed),
        action=action,
        bookie_id=first_row.bookie_id,
        scope_id=decimal_text(first_row.scope_id),
        ledger_id=decimal_text(first_row.ledger_id),
    )


def _sort_key(row: FindingCount) -> tuple[str, int, int]:
    return row.bookie_id or "", row.scope_id or 0, row.ledger_id or 0
