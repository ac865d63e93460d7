"""Ledgers with entries that no registered bookie can serve."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, with_ledgers, words
from auditor.model.states import Reach

MAX_LEDGER_FINDINGS = 1000
"""Largest number of ledgers with one finding each.

If there are more ledgers, they probably have one cause, and one finding about the cluster reports them all.
"""


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES, Need.REGISTRATIONS},
    asks="unavailable",
    do_now="find out why all ensemble members of {ledgers} are down",
)
def ledger_unavailable(tables: Tables) -> DataFrame:
    """A ledger has entries that no registered bookie can serve.

    What it finds:
        Reports ledgers with an entry whose copies are all missing or on unregistered bookies. Also reports
        ledgers that recovery cannot close, because too few bookies of their ensemble are registered. If
        there are more than 1,000 such ledgers, one finding counts them (table reachability).

    Why it matters:
        Nobody can read or copy the entries until a bookie returns.

    How sure:
        Confirmed: neither metadata scan saw a registration of these bookies.

    What to do:
        Find out why these bookies are down, and keep their disks. Do not delete the ledgers or decommission
        the bookies.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        The check skips saved metadata without any registration. An open ledger moves to other bookies at
        its next write.
    """
    rows = tables.reachability.where(F.col("reach") != Reach.SINGLE_COPY)
    repair_state = tables.cluster.repair
    if repair_state.unavailable + repair_state.unrecoverable > MAX_LEDGER_FINDINGS:
        return _cluster_finding(tables, rows)
    unavailable_text = F.when(
        F.col("reach") == Reach.UNAVAILABLE,
        words("no registered bookie can serve {entries:entry|entries}"),
    ).otherwise(
        "it is not closed, and recovery cannot close it because too few of its bookies are registered"
    )
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        message=words("ledger {ledger}: {what}; not registered: {bookies:,}", what=unavailable_text),
        evidence="reach, entries, bookies AS bookies_down",
    )


def _cluster_finding(tables: Tables, rows: DataFrame) -> DataFrame:
    repair_state = tables.cluster.repair
    down_bookies_text = F.lit(", ".join(repair_state.down[:10])) if repair_state.down else F.lit("")
    ledger_counts = with_ledgers(rows.withColumn("one", F.lit(1)), "one", F.sum("entries").alias("entries"))
    return finding_rows(
        ledger_counts,
        message=words(
            "no registered bookie can serve entries of {unavailable:ledger|ledgers}, and recovery cannot "
            "close {unrecoverable:more ledger|more ledgers}; for example ledger {sample:,}; not registered: "
            "{down}",
            unavailable=repair_state.unavailable,
            unrecoverable=repair_state.unrecoverable,
            down=down_bookies_text,
        ),
        evidence={
            "unavailable": F.lit(repair_state.unavailable),
            "unrecoverable": F.lit(repair_state.unrecoverable),
            "entries": F.col("entries"),
            "bookies_down": F.lit(len(repair_state.down)),
            "sample": F.col("sample"),
            "rows": F.lit("tables/reachability"),
        },
    )
