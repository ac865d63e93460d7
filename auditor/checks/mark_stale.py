"""Marks of ledgers that have all their copies again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, ledger_name, listed, words
from auditor.checks.mark_states import stale_marks
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.NOTE, group="replication", rests_on=Basis.COPIES, needs={Need.MARKS, Need.COPIES}, asks="marks"
)
def mark_stale(tables: Tables) -> DataFrame:
    """A ledger is marked as under-replicated and has all its copies.

    What it finds:
        Marks of ledgers that the audit found healthy with nothing unknown, where every bookie that the mark
        names is registered (they came back), or none of them is in an ensemble any more (the ledger was
        repaired). Whether a worker holds the ledger's lock makes no difference.

    Why it matters:
        Nothing removes a mark but a replication worker. A bookie that comes back leaves all its marks behind,
        and the number of marks stops saying how many ledgers need help.

    How sure:
        Confirmed: the ledger has all its copies and nothing of it is unknown. Suspect where the ledger's
        metadata changed between the two scans of a running store.

    What to do:
        Usually nothing: a worker that takes the mark finds nothing to do and removes it.

    Commands:
        - `bookkeeper shell listunderreplicated -pmr -prw`
          lists the marked ledgers with the replicas that are missing and the worker that holds each. Risk:
          none; it reads metadata.
        - `bookkeeper shell queryautorecoverystatus`
          says whether replication is switched on. Risk: none; it reads metadata.

    Limits:
        Marks without a bookie's name ask for better placement and are not judged.
    """
    from pyspark.sql import functions as F

    because = F.when(F.col("why") == "returned", "every bookie that its mark names is registered").otherwise(
        "no bookie that its mark names is in an ensemble any more"
    )
    return finding_rows(
        stale_marks(tables),
        ledger_id="ledger_id",
        message=words(
            "ledger ",
            ledger_name(),
            " is healthy and marked for ",
            listed(F.col("replicas")),
            ": ",
            because,
        ),
        evidence={"path": "path", "replicas": "replicas", "since": "since", "why": "why"},
    )
