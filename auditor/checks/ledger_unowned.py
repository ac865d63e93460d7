"""Ledgers to which their application no longer refers."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import empty_if_null, finding_rows, ownership_with_fault, suspect_if, words
from auditor.model.owner_scope import incomplete_reasons

NOT_COMPLETE_REASON = "the owner stores are not proved complete (owners-suspect)"
"""Reason why no ledger is confirmed to be unowned."""


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def ledger_unowned(tables: Tables) -> DataFrame:
    """A ledger has leaked: its owner is gone or does not name the ledger.

    What it finds:
        Reports ledgers that are older than `--owner-grace`, have an application's custom metadata, and are
        in no owner's record. The record of the owner in `claim` (custom metadata) was read, or this owner is
        certainly deleted.

    Why it matters:
        Nobody will delete these ledgers, and they fill disks (pulsar #13238).

    How sure:
        Suspect in the first run, and if `owners-suspect` is reported. Confirmed if all of these hold:
        - A run at least `--owner-grace` earlier also found the ledger.
        - `--owner-grace` is at least 4 hours (a broker's usual ledger rollover).
        - Owners and ledgers come from the same store, or were read in an order that proves absence.

    What to do:
        Start with the oldest and largest ledgers. Ask the topic's team whether it was deleted on purpose. A
        lost znode can be put back only while its ledgers exist. Delete a ledger only if the finding is
        confirmed and its topic is known to be gone. First make sure that nobody plans to restore the
        application's metadata.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell deleteledger -l ID`
          Never run it for a ledger that is only suspect.

    Limits:
        Ledgers of unknown age or namespace are not reported. Nor are ledgers of another application, or
        ledgers that may belong to an owner that could not be read.
    """
    is_complete = not incomplete_reasons(tables.roster.owner_stores)
    doubt_text = F.coalesce("why", F.lit(None if is_complete else NOT_COMPLETE_REASON))
    length_text = F.when(F.col("length") > 0, words(" ({length} bytes)"))
    return finding_rows(
        ownership_with_fault(tables, "ledger-unowned").withColumns(
            {"doubt": doubt_text, "owners_complete": F.lit(is_complete)}
        ),
        ledger_id="ledger_id",
        confidence=suspect_if(~F.col("seen_before") | F.col("doubt").isNotNull()),
        message=words(
            "ledger {ledger}{length} has no owner: {claim} does not name it{doubt}",
            length=empty_if_null(length_text),
            doubt=empty_if_null(words("; unconfirmed: {doubt}")),
        ),
        evidence="application, claim, state, length, last_entry_id, ctime AS made, seen_before, "
        "owners_complete, doubt",
    )
