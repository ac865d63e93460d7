"""Ledgers by the class of their worst entry: the query behind the three checks of lost copies.

A ledger has one class, and one finding. The class of a ledger that is not closed rests on its finished
segments alone, is never entry-lost, and is never more than suspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.finding_rows import comma_list, finding_rows, ledger_name, quantity, suspect_if, words
from auditor.checks.marks import in_queue, with_queue
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.spark import functions as F
from auditor.tables.once import once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from auditor.tables import Tables


def judged_with_class(tables: Tables) -> DataFrame:
    """The rows of ``judged`` with the ledger's ``class`` and ``potential_class``."""
    verdicts = tables.verdicts.select(*LEDGER, "class", "potential_class")
    return tables.judged.join(verdicts, [*LEDGER])


def ledgers_of_class(tables: Tables, wanted: str) -> DataFrame:
    """One finding for each ledger of one class: what is absent where, what is left, what it could become."""
    return finding_rows(
        _judged_with_queue(tables).where(F.col("class") == wanted),
        ledger_id="ledger_id",
        confidence=suspect_if((F.col("state") != LedgerState.CLOSED) | (F.size("doubts") > 0)),
        missing=F.array_sort("missing"),
        unknown=unknown_bookies(),
        message=words(
            "ledger ",
            ledger_name(),
            " has an entry with ",
            _copies_left(),
            " of ",
            F.col("write_quorum"),
            " left (ack quorum ",
            F.col("ack_quorum"),
            "); absent: ",
            comma_list(_absent()),
            _could_become(),
            in_queue(tables),
        ),
        evidence={
            "state": "state",
            "write_quorum": "write_quorum",
            "ack_quorum": "ack_quorum",
            "copies_missing": "m",
            "copies_missing_or_unknown": "mu",
            "potential_class": "potential_class",
            "unknown_copies": "unknown",
            "doubts": "doubts",
            "lasting_doubts": "lasting_doubts",
            "metadata_version": "version",
            "witness": "witness",
            "queue": "queue",
        },
    )


@once
def _judged_with_queue(tables: Tables) -> DataFrame:
    return with_queue(judged_with_class(tables), tables)


def unknown_bookies() -> Column:
    """The bookies whose copies of a judged ledger are unknown, ascending."""
    return F.array_sort(F.array_distinct(F.col("unknown.bookie_id")))


def _copies_left() -> Column:
    left = F.greatest(F.col("write_quorum") - F.col("m"), F.lit(0))
    return F.when(left == 0, F.lit("no copy")).otherwise(quantity(left, "copy", "copies"))


def _absent() -> Column:
    return F.transform(
        F.array_sort("missing"),
        lambda entry: words(quantity(entry["count"], "entry", "entries"), " on ", entry["bookie_id"]),
    )


def _could_become() -> Column:
    sentence = words("; could be ", F.col("potential_class"), ", not known: ", comma_list(unknown_bookies()))
    return F.when(F.col("class") != F.col("potential_class"), sentence).otherwise("")
