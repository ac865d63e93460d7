"""Reserved ids in ensembles. No bookie can have such an id."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.ERROR, rests_on=Basis.METADATA, do_now="find the client that wrote {bookies} into ledgers"
)
def bookie_id_reserved(roster: Roster) -> Findings:
    """Ledgers name an id that ends with :0, which is only a placeholder.

    What it finds:
        Reports ids with port 0 in ensembles. Placement policies use such ids as placeholders.

    Why it matters:
        Entries that are striped to such an id have one copy fewer.

    How sure:
        Confirmed: the metadata has this id.

    What to do:
        Find the client that wrote the ledgers, and correct its placement policy. Then have the ledgers
        copied.

    Commands:
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -dr -sk -sku BOOKIE`.
        - `bookkeeper shell recover -sk -sku BOOKIE`.

    Limits:
        `ghost-bookie` does not report such an id.
    """
    for row in roster.bookies:
        if row["named"] and row["bookie_id"].endswith(":0"):
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is reserved and is not the id of a bookie; "
                f"{count_text(row['ledgers'], 'ledger names', 'ledgers name')} it, "
                f"{count_text(row['depending'], 'ledger depends', 'ledgers depend')} on it",
                {name: row[name] for name in ("ledgers", "depending", "registered")},
            )
