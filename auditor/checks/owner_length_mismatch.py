"""Topics whose ledger list gives a different length for a ledger than the ledger's metadata."""

from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, ownership_with_fault, words


@check(
    Severity.WARNING,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="check whether {ledgers} or their topics' ledger lists were restored",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),
        HoldRule(HoldTarget.NON_MEMBER_HOLDERS, (*ERASING_ACTIONS, ActionKind.START)),
    ),
)
def owner_length_mismatch(tables: Tables) -> DataFrame:
    """A topic's ledger list has a different number of entries or bytes than the closed ledger.

    What it finds:
        Reports ledgers whose last entry or length in the topic's ledger list differs from their metadata.

    Why it matters:
        If the list gives the ledger too many entries, readers fail past the ledger's end. If it gives too
        few, readers miss the rest.

    How sure:
        Confirmed: both records are written once, when the ledger is closed.

    What to do:
        First stop garbage collection on all bookies with entries of the ledger. Find out whether the
        topic's list or the ledger's metadata was restored or edited. If the list has more entries, the
        ledger may have been closed too early (`below-ack-quorum`, `entry-lost`).

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Open ledgers are not compared, because a topic's ledger list has no length for them.
    """
    return finding_rows(
        ownership_with_fault(tables, "owner-length-mismatch"),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger} has {last_entry_id + 1} entries and {length} bytes, but {owner_name} lists "
            "it with {listed}",
            owner_name=owner_name(),
            # A list may have only one of the two.
            listed=F.concat_ws(" and ", words("{entries} entries"), words("{size} bytes")),
        ),
        evidence=owner_evidence("entries", "size", "last_entry_id", "length"),
    )
