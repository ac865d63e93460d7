"""Ledgers whose application has forgotten them: a leak."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, if_known, suspect_if, with_fault, words
from auditor.model.owner_scope import incomplete_reasons

NOT_COMPLETE = "the stores of owners are not proved complete (owners-suspect)"
"""Why no ledger is confirmed to be unowned."""


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def ledger_unowned(tables: Tables) -> DataFrame:
    """A ledger says whose it is, and its owner is gone or does not name it: a leak.

    What it finds:
        Ledgers with an application's custom metadata that no topic, subscription, schema or log names, older
        than `--owner-grace`, whose claimed owner was read or is surely not there. One finding per ledger. A
        ledger that claims a namespace which no store of owners has is foreign and not found.

    Why it matters:
        Nobody will ever delete them, and they fill disks. Brokers write the list of a topic first and delete
        ledgers afterwards, and only log what failed (pulsar #13238).

    How sure:
        Suspect in one run, and while the stores of owners are not proved complete (owners-suspect). Confirmed
        where an earlier run, older by `--owner-grace` and by a rollover (4 hours), found it unowned too,
        `--owner-grace` is a rollover or longer, and owners and ledgers were read of one store or in an order
        that proves absence.

    What to do:
        Go through them oldest first, and the largest of these first; `claim` is the owner that each had. Ask
        the topic's owner whether it was deleted on purpose: a znode that was lost by accident can be put back
        only while its ledgers are there. Delete a ledger only if it is confirmed here, its topic is known to
        be gone, and no restore of the application's metadata is planned.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It shows the custom metadata that says whose it was.
        - `bookkeeper shell deleteledger -l ID`
          Never for one that is only suspected.

    Limits:
        Unknown, and never reported, are ledgers without custom metadata, of other applications or of
        namespaces that no store has, of unread owners, or of unknown age. A ledger named only outside the
        application's znodes would be taken for a leak.
    """
    is_complete = not incomplete_reasons(tables.roster.owner_stores)
    doubt = F.coalesce("why", F.lit(None if is_complete else NOT_COMPLETE))
    length = F.when(F.col("length") > 0, words(" ({length} bytes)"))
    return finding_rows(
        with_fault(tables, "ledger-unowned").withColumns(
            {"doubt": doubt, "owners_complete": F.lit(is_complete)}
        ),
        ledger_id="ledger_id",
        confidence=suspect_if(~F.col("seen_before") | F.col("doubt").isNotNull()),
        message=words(
            "ledger {ledger}{length} has no owner: {claim} does not name it{doubt}",
            length=if_known(length),
            doubt=if_known(words("; not sure: {doubt}")),
        ),
        evidence="application, claim, state, length, last_entry_id, ctime AS made, seen_before, "
        "owners_complete, doubt",
    )
