"""Ledgers by the class of their worst entry: the query behind the three checks of lost copies.

A ledger has one class, and one finding. The class of a ledger that is not closed rests on its finished
segments alone, is never entry-lost, and is never more than suspect.
"""

from __future__ import annotations

from auditor.checks.finding_rows import (
    comma_list,
    finding_rows,
    group_list,
    ledger_name,
    quantity,
    suspect_if,
    words,
)
from auditor.checks.marks import in_queue, with_queue
from auditor.model.columns import LEDGER
from auditor.model.finding import Urgency
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LedgerClass
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.once import once


def judged_with_class(tables: Tables) -> DataFrame:
    """The rows of ``judged`` with the ledger's ``class`` and ``potential_class``."""
    verdicts = tables.verdicts.select(*LEDGER, "class", "potential_class")
    return tables.judged.join(verdicts, [*LEDGER])


def ledgers_of_class(tables: Tables, wanted: str) -> DataFrame:
    """One finding for each ledger of one class: which entries are in it, and what the ledger could become."""
    return finding_rows(
        _judged_with_queue(tables).where(F.col("class") == wanted),
        ledger_id="ledger_id",
        urgency=F.when(_number_left() == 1, Urgency.NEAR_LOSS.value),
        confidence=suspect_if((F.col("state") != LedgerState.CLOSED) | (F.size("doubts") > 0)),
        missing=F.array_sort("missing"),
        unknown=unknown_bookies(),
        message=words(
            "ledger ",
            ledger_name(),
            F.when(F.col("state") == LedgerState.CLOSED, "").otherwise(words(" (", F.col("state"), ")")),
            ": ",
            _entries_of_class(wanted),
            _could_become(),
            in_queue(tables),
        ),
        evidence={
            "class_entries": F.when(
                F.col("class_entries").isNotNull(),
                F.struct(
                    group_list(F.col("class_entries.groups"), most=None).alias("groups"),
                    F.col("class_entries.count").alias("count"),
                ),
            ),
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


def _number_left() -> Column:
    return F.greatest(F.col("write_quorum") - F.col("m"), F.lit(0))


def _entries_of_class(wanted: str) -> Column:
    """ "2 of 10 entries have no copy left (write quorum 3)"; not "of 10" where the ledger is not closed."""
    count = F.col("class_entries.count")
    of_all = words(count, " of ", F.col("last_entry_id") + 1, " entries")
    listed = F.when(F.col("state") == LedgerState.CLOSED, of_all).otherwise(
        quantity(count, "entry", "entries")
    )
    some = words(listed, F.when(count == 1, " has").otherwise(" have"))
    copies = F.col("write_quorum")
    if wanted == LedgerClass.ENTRY_LOST:
        worst = words(" no copy left (write quorum ", copies, ")")
    else:
        quorum = "ack" if wanted == LedgerClass.BELOW_ACK_QUORUM else "write"
        least = words(_number_left(), " of ", copies)
        worst = words(
            f" fewer copies than the {quorum} quorum of ", F.col(f"{quorum}_quorum"), ", at worst ", least
        )
    irregular = F.lit("entries too irregular to list have")
    return words(F.when(F.col("class_entries").isNull(), irregular).otherwise(some), worst)


def _could_become() -> Column:
    sentence = words(
        "; at worst ", F.col("potential_class"), ": copies on ", comma_list(unknown_bookies()), " are unknown"
    )
    return F.when(F.col("class") != F.col("potential_class"), sentence).otherwise("")
