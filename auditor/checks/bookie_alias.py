"""Bookies that go by several ids."""

from auditor.checks.bookie_findings import bookie_finding, group_rows, number_of, sorted_facts, suspect_where
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
    """Ledgers name a bookie by an id that is not registered, and another id is the same bookie.

    What it finds:
        Ids that metadata and disks show to be one bookie: one registered where another says it is, a host's
        name and its IP, two spellings of one host, disks of a live bookie with what ledgers ask of a vanished
        id; or two of a short name, a cookie or VERSION with another's id, and the same directories. One
        finding per bookie, under the first of its ids that ensembles name and nobody is registered as. The
        evidence lists its ids and, for each edge, the rule, what was seen, whether it joins by itself, and
        what contradicts it. A note where no entry depends on such an id.

    Why it matters:
        The bookie's id changed (bookieId, advertisedAddress, useHostNameAsBookieID, letter case) and its
        ledgers' metadata did not. Nobody finds the old id, so its copies are out of reach, and the collector
        of the bookie that has them takes them for left-overs (`alias-gc-danger`).

    How sure:
        Confirmed where the registered bookie's disks hold most of what the other id should hold, entry for
        entry, and at least five of its ledgers, and no directory of these ids lies in another's place.
        Suspect otherwise: a name is a hint, and an address may have been given to another bookie.

    What to do:
        Look at the edges, and make sure on the host itself that it is one bookie. If it is, stop it, and
        either give it its old id back, or teach the ledgers the new one, and the cookie only when the ledgers
        are done. If it is another bookie at an old address, do neither, and follow `bookie-down` or
        `ghost-bookie` of the old id.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          Ask for the registered id.
        - `bookkeeper shell cookie_get BOOKIE`
          Compare the directories of the ids.
        - `bookkeeper shell listledgers -bookieid BOOKIE`
          Ask for the id that is not registered.
        - `bookkeeper shell listfilesondisc -txn -log -idx`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.
        - `bookkeeper shell updateledgers -bookieId hostname`.
        - `bookkeeper shell updatecookie -b hostname`
          Do it only when the ledgers are done.

    Limits:
        Names are not resolved. Not reported are ids that their ledgers distinguish (the registered bookie's
        disks hold nothing of the other's, or most ensembles name both), and a single hint, such as a short
        name or directories that similar hosts share. Ids that are all registered are `endpoint-duplicate`.
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
    stranded = [row for row in members if row["named"] and row["registered"] is None]
    bookie_id = min(row["bookie_id"] for row in stranded)
    depending = sum(row["depending"] for row in stranded)
    look_alikes = sorted({row["bookie_id"] for row in members} - {bookie_id})
    rules = sorted({row["rule"] for row in edges})
    # Two swapped disks make one bookie's ledgers look like another's.
    suspect = any(row["suspect"] for row in members)
    return bookie_finding(
        bookie_id,
        f"{bookie_id} is not registered and looks like one bookie with {', '.join(look_alikes)} "
        f"({', '.join(rules)}); {number_of(depending, 'ledger depends', 'ledgers depend')} on it",
        {
            "ids": sorted_facts(members, *_MEMBER),
            "edges": sorted_facts(edges, "one", "other", "rule", "joins", "evidence", "against"),
            "attribution_suspect": suspect,
        },
        severity=Severity.NOTE if depending == 0 else None,
        confidence=suspect_where(Rule.SAME_LEDGERS.value not in rules or suspect),
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
