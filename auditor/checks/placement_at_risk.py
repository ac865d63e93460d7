"""Ledgers with all copies of some entries in one domain, which the server's placement class accepts."""

from auditor.checks.check import ActionKind, Basis, DataFrame, F, Severity, Tables, Urgency, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import (
    PLACEMENT_COLUMNS,
    bookie_locations_text,
    group_by_ledger,
    policy_sentence,
)
from auditor.model.placement import POLICY_LEVEL


@check(
    Severity.WARNING,
    rests_on=Basis.PLACEMENT,
    asks="placement",
    urgency=Urgency.NEAR_LOSS,
    do_now="copy {ledgers} to another rack, zone or region",
    action=ActionKind.RECOVER,
)
def placement_at_risk(tables: Tables) -> DataFrame:
    """One rack, zone or region has all copies of an entry, and the server's placement class accepts it.

    What it finds:
        Reports ledgers that have a write quorum of two or more bookies in one rack, zone or region. The
        server accepts this if the policy is for regions or requires only 1 rack. It also accepts this if a
        vanished bookie counts as a zone of its own. With reppRegionsToWrite, an ack quorum in fewer regions
        than reppMinimumRegionsForDurability is reported too.

    Why it matters:
        A single failure can take every copy of an entry.

    How sure:
        Confirmed by this run's mapping. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Check the mapping. Have the ledger replicated elsewhere before maintenance in
        that rack, zone or region. `bkaudit simulate` shows the cost of its failure.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Write quorums with a bookie of unknown location do not count. The server does not repair the ledgers
        of this finding.
    """
    assert tables.cluster.placement is not None
    domain_level, policy_text = (
        POLICY_LEVEL[tables.cluster.placement.policy],
        policy_sentence(tables.cluster.placement),
    )
    single_domain_text = words("{level} {domain} alone has all copies of some entries: ", level=domain_level)
    few_regions_text = words(
        "an ack quorum of some entries is in fewer regions than reppMinimumRegionsForDurability: "
    )
    return finding_rows(
        group_by_ledger(tables.placement.where("not violated")),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger}: {why}{bookie_locations}; in {segments:segment|segments}, first at entry "
            "{first_entry_id}",
            why=F.when(F.col("domain").isNotNull(), single_domain_text).otherwise(few_regions_text),
            bookie_locations=bookie_locations_text(),
        ),
        evidence=f"{PLACEMENT_COLUMNS}, domain, '{policy_text}' AS rule",
    )
