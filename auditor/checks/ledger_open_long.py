"""Ledgers that have been open for a month without a change of their metadata."""

from auditor.checks.check import Basis, Column, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_name, with_ledgers, words
from auditor.model.columns import LEDGER, OWNER
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import DECODED
from auditor.tables.claims import application_of

_DAY_MS = 86_400_000
NO_APPLICATION = "no application"
"""Group of ledgers without an owner and without an application in their custom metadata."""


@check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    needs={Need.TIMES},
    asks="open_ledgers",
    settings=("open_days",),
)
def ledger_open_long(tables: Tables) -> DataFrame:
    """Ledgers have been open for a month without a change of their metadata.

    What it finds:
        Reports ledgers in state OPEN whose metadata has not changed for 30 days. Each owner or application
        has one finding. The finding counts ledgers that are their owner's newest (`last`), older than the
        newest (`superseded`), or without a known owner (`unnamed`).

    Why it matters:
        A ledger without a writer stays open until somebody opens it with recovery. Until then replication
        skips its last segment (bookkeeper #1200, #3405; pulsar #4599).

    How sure:
        Confirmed that the ledger is open and unchanged. A `last` ledger may still have a writer, because a
        broker may write to a topic's last ledger only rarely.

    What to do:
        Ask the application whether it still writes to the ledger. If not, let the application open it with
        recovery. For a topic, load the topic. Do not delete a ledger because of this finding.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Adding entries does not change metadata, so busy ledgers are reported too. Stores without times
        (etcd) never have this finding.
    """
    settings, scan_time = tables.cluster.settings, tables.cluster.scan_time
    open_age = F.lit(scan_time) - F.col("mtime")
    is_open_long = (F.col("state") == LedgerState.OPEN) & (open_age > settings.open_limit_ms)
    ledgers = tables.ledgers.where(F.col("status").isin(*DECODED) & is_open_long).select(
        "scope_id", "ledger_id", "mtime", application_of(F.col("custom_metadata")).alias("claimed")
    )
    rows = _with_owners(ledgers, tables).withColumn("owner", _owner_group())
    owner_rows = with_ledgers(
        rows,
        "owner",
        F.min(F.struct("scope_id", "ledger_id")).alias("first"),
        F.min("mtime").alias("oldest"),
        F.count_if(F.col("writer") == "last").alias("last"),
        F.count_if(F.col("writer") == "superseded").alias("superseded"),
        F.count_if(F.col("writer") == "unnamed").alias("unnamed"),
    )
    age_days = (F.lit(scan_time) - F.col("oldest")) / _DAY_MS
    return finding_rows(
        owner_rows.select("*", "first.*").withColumn("days", age_days.cast("bigint")),
        ledger_id="ledger_id",
        message=words(
            "{owner}: {total:ledger has|ledgers have} been open without a change for more than {limit} days, "
            "the longest for {days} days; the first is ledger {ledger}; {writer}",
            limit=settings.open_days,
            writer=_writer_text(),
        ),
        evidence="owner, total AS ledgers, last, superseded, unnamed, oldest, days, sample",
    )


def _with_owners(ledgers: DataFrame, tables: Tables) -> DataFrame:
    """Add the first owner (e.g. topic), and ``writer``: last (the owner's newest), superseded or unnamed."""
    owned_ledgers = tables.ownership.where("standing = 'owned'").select(*OWNER, *LEDGER, "place", "list_size")
    first_owners = owned_ledgers.groupBy(*LEDGER).agg(
        F.min_by(F.struct(*OWNER, "place", "list_size"), F.struct("path", "place")).alias("named")
    )
    is_last_ledger = F.coalesce(F.col("place") == F.col("list_size") - 1, F.lit(True))
    rows = ledgers.join(first_owners, [*LEDGER], "left")
    writer_state = (
        F.when(F.col("path").isNull(), "unnamed").when(is_last_ledger, "last").otherwise("superseded")
    )
    return rows.select(*ledgers.columns, "named.*").withColumn("writer", writer_state)


def _owner_group() -> Column:
    """Return the owner's name, else the application in the custom metadata, else `NO_APPLICATION`."""
    owner_text = F.when(F.col("path").isNotNull(), owner_name())
    return F.coalesce(owner_text, F.concat(F.lit("application "), F.col("claimed")), F.lit(NO_APPLICATION))


def _writer_text() -> Column:
    """Return the part of the message that shows whether a writer can still exist."""
    return (
        F.when(
            F.col("last") == F.col("total"),
            "it is the last ledger of its owner, so it may still have a writer",
        )
        .when(
            F.col("last") > 0,
            words("{last} of them may still have a writer, because each is the last ledger of its owner"),
        )
        .when(
            F.col("superseded") == F.col("total"), "its owner has later ledgers and writes to the newest one"
        )
        .when(
            F.col("superseded") > 0,
            words("{superseded} of them are followed by later ledgers of their owner"),
        )
        .otherwise(
            "it is unknown whether a writer still exists, because no owner that was read refers to the ledger"
        )
    )
