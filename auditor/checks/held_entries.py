"""Entries that a member of a ledger holds besides its own: the query behind two checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.attribution import with_attribution
from auditor.checks.check import LEDGER
from auditor.checks.finding_rows import counted, finding_rows, group_list, ledger_name, suspect_if, words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


def entries_besides(tables: Tables, column: str, what: str) -> DataFrame:
    """One finding for each ledger and bookie in a column of ``judged`` that lists held entries.

    The count in the evidence is complete; its groups are the first thousand of ``group_count``.
    """
    from pyspark.sql import functions as F

    each = tables.judged.where(F.size(column) > 0).select(*LEDGER, "state", F.explode(column).alias("held"))
    rows = with_attribution(each.select(*LEDGER, "state", "held.*"), tables)
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if((F.col("state") != "CLOSED") | F.col("attribution_suspect")),
        message=words(
            F.col("bookie_id"),
            " holds ",
            counted(F.col("count"), "entry", "entries"),
            " of ledger ",
            ledger_name(),
            f" {what}",
        ),
        evidence={
            "count": "count",
            "state": "state",
            "groups": group_list(F.col("groups")),
            "group_count": (F.length("groups") / 24).cast("bigint"),
        },
    )
