"""findings: everything the checks found, named so that it is known again, in the order reports use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from auditor.checks import ALL, RosterCheck, TableCheck
from auditor.checks.check import FINDING_COLUMNS
from auditor.findings.causes import Claim, cause_column
from auditor.model.columns import LEDGER, REPLICA, schema_of
from auditor.model.finding import Severity, Urgency
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Roster, Tables

FINDINGS = schema_of(
    ("id", pa.string(), "the check that found it"),
    ("urgency", pa.string(), "what cannot wait: destroys-data, lost, near-loss ... or rest"),
    ("severity", pa.string(), "critical, error, warning or note"),
    ("confidence", pa.string(), "confirmed, suspect or unknown"),
    ("scope_id", pa.int64(), "BP-35 scope; null where no ledger is meant"),
    ("ledger_id", pa.int64(), "null where no ledger is meant"),
    (
        "ledger_qualified_name",
        pa.string(),
        "scope and ledger in 32 hexadecimal digits; null where no ledger is meant",
    ),
    ("bookie_id", pa.string(), "null in findings that are one per ledger"),
    (
        "missing",
        pa.list_(pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("count", pa.int64())])),
        "striped entries confirmed absent, bookies ascending, 24 bytes a group",
    ),
    ("unknown", pa.list_(pa.string()), "bookies whose copies are unknown"),
    ("message", pa.string(), "one sentence for a person"),
    ("evidence", pa.string(), "facts behind it, a JSON object"),
    ("fingerprint", pa.string(), "the same in every run while the trouble lasts"),
    ("cause", pa.int32(), "the number of the cause in report.json that explains it; null: none does"),
)


FOUND = pa.schema([FINDINGS.field(name) for name in (*FINDING_COLUMNS, "id")])
"""What checks say, before it is named."""


def ask_table_checks(checks: Sequence[TableCheck], tables: Tables) -> DataFrame:
    """What all checks of tables say, one DataFrame.

    Most of the time of a small audit goes into preparing questions: those without an answer are not asked.
    """
    asked = [check for check in checks if check.asks not in tables.known_empty] or checks[:1]
    each: list[DataFrame] = [
        check.find(tables).selectExpr(*check.columns, f"'{check.id}' AS id") for check in asked
    ]
    # In pairs: Spark looks at all of a union whenever something is added to it.
    while len(each) > 1:
        pairs = zip_longest(each[::2], each[1::2])
        each = [left if right is None else left.union(right) for left, right in pairs]
    return each[0]


def ask_roster_checks(checks: Sequence[RosterCheck], roster: Roster) -> list[dict[str, Any]]:
    """What all checks of the roster say: rows of `FOUND`."""
    return [{**row, "id": check.id} for check in checks for row in check(roster)]


def add_fingerprints(findings: DataFrame, instance_id: str | None, claims: Sequence[Claim] = ()) -> DataFrame:
    """Give each finding its fingerprint, its cause of ``claims``, and its ledger's name, in the columns and
    the order of the table.

    The fingerprint is that of `auditor.model.finding.fingerprint`.
    """
    named = findings.withColumn("fingerprint", fingerprints("id", instance_id)).withColumn(
        "ledger_qualified_name", qualified_names()
    )
    named = named.withColumn("cause", cause_column(claims))
    return named.select(*FINDINGS.names).orderBy(*order())


def fingerprints(id: str | Column, instance_id: str | None) -> Column:
    """`auditor.model.finding.fingerprint` of each row: of the column ``id``, its scope, ledger, bookie."""
    parts = ", ".join(f"coalesce(cast({part} AS string), '')" for part in REPLICA)
    named = F.concat_ws("\0", id, F.lit(instance_id or ""), F.expr(f"concat_ws('\\0', {parts})"))
    return F.substring(F.sha2(named, 256), 1, 16)


def qualified_names() -> Column:
    """The names of the rows' ledgers (`auditor.model.ledger_id.LedgerId`); null where there is none."""
    return F.concat(*(F.lpad(F.small_digits(F.hex(half)), 16, "0") for half in LEDGER))


def order() -> list[Column]:
    """Urgency, severity, check, scope, ledger, bookie: the order of all reports (`place_of_check`)."""
    places = (_places("urgency", Urgency), ranks(), _places("id", (check.id for check in ALL)))
    return [*places, *(F.col(name) for name in REPLICA)]


def ranks(severity: str = "severity") -> Column:
    """The rank of a column of severities: 0 for the worst."""
    return _places(severity, Severity)


def _places(column: str, words: Iterable[str]) -> Column:
    """Where a column's word stands among these, from 0."""
    known = ", ".join(f"'{word}', {place}" for place, word in enumerate(words))
    return F.expr(f"map({known})[{column}]")
