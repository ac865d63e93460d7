"""Topics whose list has another length of a ledger than its metadata."""

from auditor.checks.check import (
    ERASES,
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
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, with_fault, words


@check(
    Severity.WARNING,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="check whether {ledgers} or the lists of their topics were restored",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),
        HoldRule(HoldTarget.HOLDERS, (*ERASES, ActionKind.START)),
    ),
)
def owner_length_mismatch(tables: Tables) -> DataFrame:
    """A topic's list says another number of entries or bytes than the closed ledger has.

    What it finds:
        The last entry or the length differs.

    Why it matters:
        Readers fail at entries past the ledger's end, or miss entries that the list leaves out.

    How sure:
        Confirmed: both are written once, when the ledger is closed.

    What to do:
        First stop garbage collection on all bookies with entries of the ledger. Find out whether list or
        metadata was restored or edited. If the list has more entries, the ledger may have been closed too
        early (`below-ack-quorum`, `entry-lost`).

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        A list has no length of an open ledger.
    """
    return finding_rows(
        with_fault(tables, "owner-length-mismatch"),
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
