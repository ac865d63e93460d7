"""Bookie ids that occur only in ensembles."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES},
    do_now="find the hosts of {bookies}",
)
def ghost_bookie(roster: Roster) -> Findings:
    """Ledgers name a bookie that has no cookie and is not registered.

    What it finds:
        Reports bookie ids that occur only in ensembles. The severity is `note` if no entry should be on the
        bookie.

    Why it matters:
        The bookie was removed before its ledgers were copied, or has another id now.

    How sure:
        Confirmed: all cookies and registrations were listed.

    What to do:
        Find the bookie's host. If the bookie runs under another id (`bookie-alias`), write that id into the
        ledgers' metadata. If the host is gone, have the bookie's ledgers copied.

    Commands:
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -dr -sk -sku BOOKIE`.
        - `bookkeeper shell recover -sk -sku BOOKIE`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.

    Limits:
        A host name and its IP address count as two ids.
    """
    aliases = {row["bookie_id"]: row["aliases"] for row in roster.identities if row["stranded"]}
    for row in roster.unregistered:
        bookie_id = row["bookie_id"]
        if row["has_cookie"] or bookie_id.endswith(":0"):  # bookie-down or bookie-id-reserved
            continue
        facts = {field: row[field] for field in ("ledgers", "depending", "replicas", "found")}
        yield bookie_finding(
            bookie_id,
            f"{bookie_id} has no cookie and is not registered; "
            f"{count_text(row['ledgers'], 'ledger names', 'ledgers name')} it, "
            f"{count_text(row['depending'], 'ledger depends', 'ledgers depend')} on it",
            {**facts, "aliases": aliases.get(bookie_id)},
            severity=Severity.NOTE if row["depending"] == 0 else None,
        )
