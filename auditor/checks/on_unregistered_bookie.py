"""Unregistered bookies that ledgers depend on."""

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
        Reports unregistered bookies that should hold an entry of at least one ledger.

    Why it matters:
        Readers cannot reach the bookie's copies. If the bookie's disks were not read, the copies are
        unknown.

    How sure:
        Confirmed: neither metadata scan saw a registration.

    What to do:
        If the bookie's disks are good, start it again. If it is gone for good, have its ledgers copied.

    Commands:
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -dr -sk -sku BOOKIE`.
        - `bookkeeper shell recover -sk -sku BOOKIE`.

    Limits:
        See `bookie-down`.
    """
    rows = tables.unregistered.where("depending > 0")
    read_text = (
        F.when(F.col("read") == BookieRead.READ, "its data was read from its disks and is counted")
        .when(F.col("read") == BookieRead.PARTIAL, "its data was partially read, and the rest is unknown")
        .otherwise("its data was not read, so these replicas could not be checked")
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        unknown=F.when(F.col("read") != BookieRead.READ, F.array("bookie_id")).otherwise(F.array()),
        message=words(
            "{bookie_id} is not registered, but {depending:ledger depends|ledgers depend} on it "
            "({replicas:replica|replicas}); {read}",
            read=read_text,
        ),
        evidence="depending, replicas, ledgers, read, has_cookie",
    )
