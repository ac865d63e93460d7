"""Bookies that would not start again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.DISKS, needs={Need.DISKS})
def start_refused(tables: Tables) -> DataFrame:
    """A bookie would refuse its next start because of its cookies.

    What it finds:
        Bookies that the cluster knows and whose cookies, in the store and on their disks, would end their
        next start with an exception (LegacyCookieValidation). The evidence has the exception, what is the
        matter and with which directories, the same with allowStorageExpansion, and where the configured
        directories were inferred from. It is the consequence, and stands besides the finding that is its
        cause: disk-id-mismatch, disk-version-missing, instance-mismatch, cookie-key-mismatch and the others.
        It is left out where that finding says the same of the bookie's start: cookie-missing, and
        instance-id-missing for the whole cluster.

    Why it matters:
        The bookie may run on as if nothing were wrong. The next restart, perhaps that of a whole rack during
        an upgrade, takes it away, and its ledgers have one copy less until somebody has understood the
        stack trace.

    How sure:
        Confirmed by the server's own rules, followed on what was read; the configuration is inferred from the
        cookies.

    What to do:
        Mend the cause before the restart; do not restart the bookie until then. Never copy VERSION from one
        directory to another to make a bookie start.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.

    Limits:
        The configuration is inferred from what the bookie wrote when it last started; a change that it has
        not started with is not seen. Only the cookie under its own id is looked at, not those of other ids
        that its host has. Where directories were not given to the audit, only a refusal that holds whatever
        is in them is reported. A bookie with dataIntegrityChecking is stricter or milder than this.
    """
    from pyspark.sql import functions as F

    known = tables.bookies.where("named or has_cookie or registered is not null").select(
        "bookie_id", "registered", "has_cookie"
    )
    said_by_cookie_missing = (
        (F.col("fault") == "not-in-store") & F.col("registered").isNotNull() & ~F.col("has_cookie")
    )
    rows = tables.starts.where("error is not null").join(known, "bookie_id").where(~said_by_cookie_missing)
    if tables.cluster.instance_id_missing:
        rows = rows.where(~F.col("fault").isin("store-instance", "version-instance"))
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(F.col("bookie_id"), " would not start again: ", F.col("reason")),
        evidence={
            "error": "error",
            "fault": "fault",
            "paths": "paths",
            "stored_id": "stored_id",
            "with_expansion": F.when(
                F.col("expansion_error").isNotNull(),
                F.struct(
                    F.col("expansion_error").alias("error"),
                    F.col("expansion_fault").alias("fault"),
                    F.col("expansion_reason").alias("reason"),
                    F.col("expansion_paths").alias("paths"),
                ),
            ),
            "configuration": F.struct("source", "agreed", "journal_dirs", "ledger_dirs", "index_dirs"),
        },
    )
