"""Ledgers with an ensemble that breaks the placement policy, by the server's own class."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import PLACES, by_ledger, rule_of, window_words


@check(
    Severity.WARNING,
    rests_on=Basis.PLACEMENT,
    needs={Need.LOCATIONS, Need.ALL_BOOKIES},
    asks="placement",
    do_now="see whether policy and mapping are right for {ledgers}",
)
def placement_violated(tables: Tables) -> DataFrame:
    """An ensemble does not keep to the placement policy.

    What it finds:
        Ledgers with a segment whose ensemble the server's placement class calls FAIL, with the settings that
        this run was given: of a rack policy a window of a write quorum with fewer racks than
        minNumRacksPerWriteQuorum, of a zone policy one with fewer zones than minNumZonesPerWriteQuorum, two
        bookies of a zone in one upgrade domain, or a bookie without a zone. Ledgers that are open or in
        recovery too, which the Auditor's own task leaves out. One finding a ledger, with the first segment
        and window, its bookies and where they are. Of mixed depths of locations only what is FAIL whichever
        depth joined first. A note where nothing but a bookie that is not writable is at fault: by the
        locations of its bookies the ensemble is well spread.

    Why it matters:
        A rack or zone that fails may take more copies of an entry along than the policy allows. The Auditor
        counts such ledgers, and with repairedPlacementPolicyNotAdheringBookieEnable it moves their data.

    How sure:
        Confirmed, as a server would say that starts now and goes by this mapping and these settings. Suspect
        where the ledger changed between the two scans of a running store. What a server remembers of bookies
        that are gone may be more.

    What to do:
        Look first whether the policy and the mapping are those of your Auditor: the report says which were
        used. A note needs nothing but that its bookies are writable again. Other ledgers stay as they are
        until the Auditor repairs them or their bookies are replaced.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its ensembles.
        - `bookkeeper shell listbookies -ro -h`
          Look which bookies are read-only.

    Limits:
        The ack quorum, entries and isolation groups are not asked, as by the server. Of a region policy the
        server's class never says FAIL: see placement-at-risk.
    """
    rule = rule_of(tables.cluster.placement)
    excuse = words("; by the locations of its bookies it keeps to it, but not writable are {unwritable:,}")
    return finding_rows(
        by_ledger(tables.placement.where("violated")),
        ledger_id="ledger_id",
        severity=F.when(F.col("excused"), Severity.NOTE.value),
        message=words(
            "ledger {ledger} breaks the placement policy ({rule}) in {segments:segment|segments}, "
            "first at entry {first_entry_id}: {window_words}{excuse}",
            rule=rule,
            window_words=window_words(),
            excuse=F.when(F.col("excused"), excuse).otherwise(F.lit("")),
        ),
        evidence=f"{PLACES}, excused, unwritable, '{rule}' AS rule",
    )
