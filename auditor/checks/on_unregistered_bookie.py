"""Bookies that ledgers depend on and that are not registered."""

from auditor.checks.check import ActionKind, Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.states import BookieRead


@check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES},
    asks="unregistered",
    do_now="start {bookies}",
    action=ActionKind.START,
)
def on_unregistered_bookie(tables: Tables) -> DataFrame:
    """Ledgers depend on a bookie that is not registered.

    What it finds:
        Bookies that are neither writable nor read-only in the store while a non-empty segment stripes entries
        to them. One finding per bookie, with the number of ledgers and replicas. A registration that is not
        ephemeral counts as none (`registration-not-ephemeral`).

    Why it matters:
        Readers cannot reach these copies now. If the disks were read and are whole, the copies come back with
        the bookie; if they were not read, these replicas are undecided.

    How sure:
        Confirmed: neither scan of the metadata saw a registration.

    What to do:
        Start the bookie again if its disks are good. If it is gone for good, have its ledgers copied.

    Commands:
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -dr -sk -sku BOOKIE`.
        - `bookkeeper shell recover -sk -sku BOOKIE`.

    Limits:
        A store saved while bookies restarted, or without its ephemeral nodes, shows them as unregistered.
        Segments without entries do not count.
    """
    rows = tables.unregistered.where("depending > 0")
    read = (
        F.when(F.col("read") == BookieRead.READ, "its data was read and is counted as it lies on disk")
        .when(F.col("read") == BookieRead.PARTIAL, "its data was read in part, the rest is unknown")
        .otherwise("its data was not read, so these replicas are undecided")
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        unknown=F.when(F.col("read") != BookieRead.READ, F.array("bookie_id")).otherwise(F.array()),
        message=words(
            "{bookie_id} is not registered and {depending:ledger depends|ledgers depend} on it "
            "({replicas:replica|replicas}); {read}",
            read=read,
        ),
        evidence="depending, replicas, ledgers, read, has_cookie",
    )
