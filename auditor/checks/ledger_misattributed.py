"""Ledgers that say one owner and are named by another."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, with_fault, words


@check(
    Severity.WARNING,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="delete no owner of {ledgers}",
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),),
)
def ledger_misattributed(tables: Tables) -> DataFrame:
    """A ledger was made for one owner, and another one names it as its own.

    What it finds:
        References of topics, subscriptions and schemas to ledgers whose custom metadata names another owner.
        Shadow topics borrow rightly and are left out.

    Why it matters:
        Whichever of the two is deleted first takes the ledger along. Such a reference comes from a list that
        was copied or edited by hand.

    How sure:
        Confirmed: the application writes both when it makes the ledger, and renames neither.

    What to do:
        Find out who edited the list. Delete neither owner before the ledger belongs to one of them only.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It shows for whom the ledger was made.

    Limits:
        Ledgers without custom metadata say nothing. Compacted ledgers and delayed messages are not compared.
    """
    return finding_rows(
        with_fault(tables, "ledger-misattributed"),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger} was made for {claim}, but {owner_name} names it", owner_name=owner_name()
        ),
        evidence=owner_evidence("claim"),
    )
