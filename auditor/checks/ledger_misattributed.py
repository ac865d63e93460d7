"""Ledgers that one owner created and another owner refers to."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, ownership_with_fault, words


@check(
    Severity.WARNING,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="do not delete any owner of {ledgers}",
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),),
)
def ledger_misattributed(tables: Tables) -> DataFrame:
    """A ledger was created for one owner, but the record of another owner names it.

    What it finds:
        Reports ledgers that are in the record of one owner (such as a topic), while their custom metadata
        names another owner. Shadow topics do not count.

    Why it matters:
        When one of the two owners is deleted, its application deletes the ledger too.

    How sure:
        Confirmed: applications write both names and never change them.

    What to do:
        Find out who edited the second owner's record. Delete neither owner until the ledger is in only one
        record.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Ignores ledgers without custom metadata, compacted ledgers, and ledgers of delayed messages.
    """
    return finding_rows(
        ownership_with_fault(tables, "ledger-misattributed"),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger} was created for {claim}, but {owner_name} refers to it", owner_name=owner_name()
        ),
        evidence=owner_evidence("claim"),
    )
