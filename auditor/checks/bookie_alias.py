"""Bookies with several ids."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows, sorted_facts, suspect_where
from auditor.checks.check import (
    ERASES,
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Lift,
    Roster,
    Row,
    Severity,
    Urgency,
    roster_check,
)
from auditor.model.alias_evidence import Rule


@roster_check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}: ledgers name this bookie by another id",
    action=ActionKind.STOP,
    holds=(
        HoldRule(HoldTarget.IDENTITY, (*ERASES, ActionKind.START, ActionKind.RECOVER), Lift.DATA_ELSEWHERE),
    ),
)
def bookie_alias(roster: Roster) -> Findings:
    """Ledgers name an id that is not registered, and another id is the same bookie.

    What it finds:
        The severity is `note` if no entry depends on the unregistered id. Two ids count as one bookie for any
        of these reasons (evidence `edges`):
        - One id is registered at the other's address.
        - One id is a host name, and the other is its IP address or another spelling.
        - The disks of a running bookie have the entries that a vanished id should have.
        - Two of these hints apply: one id is a short name of the other, a cookie or VERSION has the other id,
          both have the same directories.

    Why it matters:
        Somebody changed the bookie's id (bookieId, advertisedAddress, useHostNameAsBookieID, letter case) but
        not its ledgers. Clients cannot find these copies.

    How sure:
        Confirmed if the registered bookie holds at least five ledgers of the other id, and most of the
        entries that the other id should hold. Suspect with less evidence. Suspect if the bookie also has
        `disk-id-mismatch`.

    What to do:
        Check on the host whether both ids are one bookie:
        - If they are, stop the bookie. Give it its old id back, or write the new id into the ledgers and
          afterwards into the cookie.
        - If the old address now belongs to another bookie, change no id. Follow `bookie-down` or
          `ghost-bookie` for the old id.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          Use the registered id.
        - `bookkeeper shell cookie_get BOOKIE`
          Compare both ids.
        - `bookkeeper shell listledgers -bookieid BOOKIE`
          Use the other id.
        - `bookkeeper shell listfilesondisc -txn -log -idx`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.
        - `bookkeeper shell updateledgers -bookieId hostname`.
        - `bookkeeper shell updatecookie -b hostname`
          Only once the ledgers have the new id.

    Limits:
        Two ids are not reported if they have only one hint, or if most of their ensembles contain both. An
        unregistered id is not reported if the registered bookie has no entry of its ledgers. DNS is not
        asked.
    """
    identity = {row["bookie_id"]: row["identity"] for row in roster.identities if row["stranded"]}
    members = [row for row in roster.bookies if row["bookie_id"] in identity]
    edges = [
        row
        for row in roster.identity_edges
        if row["one"] in identity and identity[row["one"]] == identity.get(row["other"])
    ]
    edges_by_identity = group_rows(edges, lambda row: identity[row["one"]])
    for name, rows in group_rows(members, lambda row: identity[row["bookie_id"]]).items():
        if name in edges_by_identity:
            yield _finding(rows, edges_by_identity[name])


def _finding(members: list[Row], edges: list[Row]) -> Row:
    stranded_ids = [row for row in members if row["named"] and row["registered"] is None]
    bookie_id = min(row["bookie_id"] for row in stranded_ids)
    dependent_rows = sum(row["depending"] for row in stranded_ids)
    look_alikes = sorted({row["bookie_id"] for row in members} - {bookie_id})
    rules = sorted({row["rule"] for row in edges})
    # After two disks were swapped, one bookie's ledgers look like another's.
    is_suspect = any(row["suspect"] for row in members)
    return bookie_finding(
        bookie_id,
        f"{bookie_id} is not registered and looks like one bookie with {', '.join(look_alikes)} "
        f"({', '.join(rules)}); {count_text(dependent_rows, 'ledger depends', 'ledgers depend')} on it",
        {
            "ids": sorted_facts(members, *_MEMBER),
            "edges": sorted_facts(edges, "one", "other", "rule", "joins", "evidence", "against"),
            "attribution_suspect": is_suspect,
        },
        severity=Severity.NOTE if dependent_rows == 0 else None,
        confidence=suspect_where(Rule.SAME_LEDGERS.value not in rules or is_suspect),
    )


_MEMBER = (
    "bookie_id",
    "named",
    "registered",
    "has_cookie",
    "marked",
    "found",
    "read",
    "ledgers",
    "depending",
    "replicas",
)
