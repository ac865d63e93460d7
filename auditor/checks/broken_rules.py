"""Ledgers whose metadata parses and breaks a rule: the query behind the checks of such rules."""

from __future__ import annotations

from auditor.checks.finding_rows import finding_rows, ledger_name, words
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables


def ledgers_breaking(tables: Tables, *rules: str) -> DataFrame:
    """One finding for each ledger that breaks one of the rules; every reason is in its evidence."""
    wanted = F.filter("rules", lambda broken: broken["rule"].isin(*rules))
    rows = tables.ledgers.withColumn("reasons", F.transform(wanted, lambda broken: broken["reason"]))
    return finding_rows(
        rows.where("ledger_id is not null and size(reasons) > 0"),
        ledger_id="ledger_id",
        message=words("ledger ", ledger_name(), ": ", F.array_join("reasons", "; ")),
        evidence={
            "path": "path",
            "reasons": "reasons",
            "state": "state",
            "ensemble_size": "ensemble_size",
            "write_quorum": "write_quorum",
            "ack_quorum": "ack_quorum",
        },
    )
