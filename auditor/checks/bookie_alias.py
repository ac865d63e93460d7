"""Bookies with several ids."""

from auditor.checks.bookie_findings import (
    bookie_finding,
    count_text,
    group_rows,
    sorted_facts,
    suspect_or_confirmed,
)
from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    LiftCondition,
    Roster,
    Severity,
    TableRow,
    Urgency,
    roster_check,
)
from auditor.model.alias_evidence import Rule


@roster_check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}: ledgers use another id for the same bookie",
    action=ActionKind.STOP,
    holds=(
        HoldRule(
            HoldTarget.ALIAS_IDS,
            (*ERASING_ACTIONS, ActionKind.START, ActionKind.RECOVER),
            LiftCondition.DATA_ELSEWHERE,
        ),
    ),
)
def bookie_alias(roster: Roster) -> Findings:
    """Ledgers name an unregistered bookie id, but the same bookie now has another id.

    What it finds:
        Reports two ids with at least one sign that they belong to the same bookie (evidence `edges`). The
        severity is `note` if no entry depends on the unregistered id. Signs:
        - One id is registered at the other id's address.
        - One id has a host name, and the other has its IP address or another spelling of it.
        - The disks of a running bookie hold the entries that a vanished id should hold.
        - At least two of four hints apply. One host name is a short form of the other. One id's cookie has
          the other id. One id's VERSION has the other id. Both ids have the same directories.

    Why it matters:
        Somebody changed the bookie's id (bookieId, advertisedAddress, useHostNameAsBookieID, letter case)
        but not the id in its ledgers' metadata. Clients cannot find the copies under the old id.

    How sure:
        Confirmed if the registered bookie has, entry for entry, most of the ledgers that the other id
        should hold. Five are the minimum. Suspect with less evidence. Suspect if the bookie also has
        `disk-id-mismatch`.

    What to do:
        Check on the host whether both ids belong to the same bookie:
        - If they do, stop the bookie. While it is stopped, either restore its old id, or write the new id
          into the ledgers' metadata, then into the cookie.
        - If the old address now belongs to a different bookie, change no id. Follow `bookie-down` or
          `ghost-bookie` for the old id.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          Use the registered id.
        - `bookkeeper shell cookie_get BOOKIE`
          Compare both cookies.
        - `bookkeeper shell listledgers -bookieid BOOKIE`
          Use the unregistered id.
        - `bookkeeper shell listfilesondisc -txn -log -idx`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.
        - `bookkeeper shell updateledgers -bookieId hostname`.
        - `bookkeeper shell updatecookie -b hostname`
          Run it only after the ledgers have the new id.

    Limits:
        Two ids are not reported if only one hint applies. Nor are they if most of the unregistered id's
        ledgers have both ids in one ensemble. The same is true if the registered bookie has no entry of
        these ledgers. DNS is not queried.
    """
    identity_by_bookie = {row["bookie_id"]: row["identity"] for row in roster.identities if row["stranded"]}
    member_rows = [row for row in roster.bookies if row["bookie_id"] in identity_by_bookie]
    all_edges = [
        row
        for row in roster.identity_edges
        if row["one"] in identity_by_bookie
        and identity_by_bookie[row["one"]] == identity_by_bookie.get(row["other"])
    ]
    edges_by_identity = group_rows(all_edges, lambda row: identity_by_bookie[row["one"]])
    for identity_name, rows in group_rows(
        member_rows, lambda row: identity_by_bookie[row["bookie_id"]]
    ).items():
        if identity_name in edges_by_identity:
            yield _alias_finding(rows, edges_by_identity[identity_name])


def _alias_finding(member_rows: list[TableRow], edges: list[TableRow]) -> TableRow:
    unregistered_rows = [row for row in member_rows if row["named"] and row["registered"] is None]
    bookie_id = min(row["bookie_id"] for row in unregistered_rows)
    dependent_ledger_count = sum(row["depending"] for row in unregistered_rows)
    other_ids = sorted({row["bookie_id"] for row in member_rows} - {bookie_id})
    rule_names = sorted({row["rule"] for row in edges})
    # After two disks were swapped, one bookie's ledgers look like another's.
    is_suspect = any(row["suspect"] for row in member_rows)
    return bookie_finding(
        bookie_id,
        f"{bookie_id} is not registered and is probably the same bookie as {', '.join(other_ids)} "
        f"({', '.join(rule_names)}); "
        f"{count_text(dependent_ledger_count, 'ledger depends', 'ledgers depend')} on it",
        {
            "ids": sorted_facts(member_rows, *_MEMBER_FIELDS),
            "edges": sorted_facts(edges, "one", "other", "rule", "joins", "evidence", "against"),
            "attribution_suspect": is_suspect,
        },
        severity=Severity.NOTE if dependent_ledger_count == 0 else None,
        confidence=suspect_or_confirmed(Rule.SAME_LEDGERS.value not in rule_names or is_suspect),
    )


_MEMBER_FIELDS = (
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
