"""Ids in ensembles that stand for no bookie."""

from auditor.checks.bookie_findings import bookie_finding, number_of
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.ERROR, rests_on=Basis.METADATA, do_now="find the client that wrote {bookies} into ledgers"
)
def bookie_id_reserved(roster: Roster) -> Findings:
    """Ledgers name an id that ends with :0, which placement policies use for no bookie.

    What it finds:
        Ids with port 0 in ensembles, where nothing can listen. Placement policies make them as a stand-in for
        a host of their own.

    Why it matters:
        The ledger's writer took a stand-in for a bookie: no copy was ever written there. What is striped to
        it has one copy less from the start.

    How sure:
        Confirmed: it was read as it is reported.

    What to do:
        Find the client that wrote it, by the ledgers' metadata, and its placement policy; then have the
        ledgers copied.

    Commands:
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -dr -sk -sku BOOKIE`.
        - `bookkeeper shell recover -sk -sku BOOKIE`.

    Limits:
        Such an id outside of ensembles is not reported, nor is it a ghost-bookie too.
    """
    for row in roster.bookies:
        if row["named"] and row["bookie_id"].endswith(":0"):
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} stands for no bookie; "
                f"{number_of(row['ledgers'], 'ledger names', 'ledgers name')} it, "
                f"{number_of(row['depending'], 'ledger depends', 'ledgers depend')} on it",
                {name: row[name] for name in ("ledgers", "depending", "registered")},
            )
