"""Bookie ids that no server accepts, or that servers accept only because of an error in their pattern."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows
from auditor.checks.ledger_queries import broken_rule_findings
from auditor.model.bookie_id import ACCEPTED_PATTERN, PORTABLE_PATTERN, RESERVED_PATTERN


@check(
    Severity.ERROR, rests_on=Basis.METADATA, asks="odd_ids", do_now="find out who made the ids of {bookies}"
)
def bookie_id_invalid(tables: Tables) -> DataFrame:
    """BookKeeper refuses a bookie id, or BP-41 does not allow it.

    What it finds:
        Reports ids in ensembles, cookies and registrations that do not match the server's pattern, and the
        reserved id readonly. The severity is `note` if only BP-41 forbids the id.

    Why it matters:
        Nobody can open, audit or replicate a ledger with such an id. One such cookie or registration makes
        the listing of all bookies fail.

    How sure:
        Confirmed: the metadata has this id. Suspect if the ledger changed between the two metadata scans.

    What to do:
        If somebody made a znode with such an id by hand, remove it. Rename a bookie with such an id at its
        next rebuild. Correct a ledger with the store's own client: updateBookieInLedger refuses such an id.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Fails on such a ledger.

    Limits:
        BP-41 allows letters, digits, ':', '-' and '.'. The check also accepts an underscore.
    """
    bookie_id = F.col("bookie_id")
    is_accepted = bookie_id.rlike(rf"\A{ACCEPTED_PATTERN}\z") & ~bookie_id.rlike(rf"\A{RESERVED_PATTERN}\z")
    stored_ids = tables.bookies.where(F.col("has_cookie") | F.col("registered").isNotNull())
    refused_id_findings = finding_rows(
        stored_ids.where(~is_accepted),
        bookie_id="bookie_id",
        message="a cookie or registration has the name '{bookie_id}', which is not a bookie id",
        evidence="has_cookie, registered",
    )
    known_bookies = tables.bookies.where(
        F.col("named") | F.col("has_cookie") | F.col("registered").isNotNull()
    )
    unportable_id_findings = finding_rows(
        known_bookies.where(is_accepted & ~F.col("bookie_id").rlike(rf"\A{PORTABLE_PATTERN}\z")),
        bookie_id="bookie_id",
        severity=F.lit(Severity.NOTE.value),
        message="'{bookie_id}' is a bookie id that BookKeeper accepts, but BP-41 does not allow",
        evidence="named, has_cookie, registered",
    )
    return (
        broken_rule_findings(tables, "bookie-id-invalid")
        .unionByName(refused_id_findings)
        .unionByName(unportable_id_findings)
    )
