"""Unregistered bookies whose ledgers nobody marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import comma_list, finding_rows, quantity, words
from auditor.checks.samples import with_ledgers
from auditor.model.columns import LEDGER
from auditor.model.finding import Severity
from auditor.model.states import DECODED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.NOTE,
    group="replication",
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS, Need.ALL_BOOKIES},
    asks="unregistered",
)
def mark_missing(tables: Tables) -> DataFrame:
    """Ledgers depend on an unregistered bookie and are not marked for replication.

    What it finds:
        Unregistered bookies that non-empty segments stripe entries to, with the number of those ledgers that
        have no under-replication mark. One finding per bookie. ZooKeeper only: on etcd there are no marks.

    Why it matters:
        Replication works on marked ledgers and on no others. When a bookie goes, the cluster's auditor should
        mark all of its ledgers; here it has not, so nothing will copy them.

    How sure:
        Confirmed: all marks could be listed; nothing is said otherwise.

    What to do:
        See whether the cluster has an auditor, and whether it waits.

    Commands:
        - `bookkeeper shell whoisauditor`
          names it. Risk: none; it reads metadata.
        - `bookkeeper shell lostbookierecoverydelay -g`
          prints for how many seconds it waits before it believes that a bookie is lost. Risk: none; it reads
          metadata.
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell triggeraudit`
          makes it look now; it refuses where replication is switched off or no auditor is elected. Risk:
          writes; it marks the ledgers, and replication starts on them.

    Limits:
        Shortly after a bookie went away, and during the recovery delay, missing marks are right.
    """
    from pyspark.sql import functions as F

    unregistered = tables.unregistered.where("depending > 0")
    depending = (
        tables.ledgers.where(F.lit(tables.cluster.has_marks) & F.col("status").isin(*DECODED))
        .select(*LEDGER, F.explode("replicas").alias("replica"))
        .where("replica.depends")
        .select(*LEDGER, "replica.bookie_id")
        .join(F.broadcast(unregistered.select("bookie_id")), "bookie_id", "left_semi")
    )
    unmarked = depending.join(tables.marks.where("not misplaced").select(*LEDGER), [*LEDGER], "left_anti")
    rows = with_ledgers(unmarked, "bookie_id").join(
        F.broadcast(unregistered.select("bookie_id", "depending")), "bookie_id"
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(
            F.col("bookie_id"),
            " is not registered, and of ",
            quantity(F.col("depending"), "ledger", "ledgers"),
            " that depend on it ",
            F.col("total"),
            " have no mark, such as ",
            comma_list(F.col("sample")),
        ),
        evidence={
            "unmarked": "total",
            "depending": "depending",
            "sample": "sample",
        },
    )
