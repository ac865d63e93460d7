"""Topics that know another length of a ledger than BookKeeper does."""

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
    do_now="see whether {ledgers} or the lists of their topics were restored",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),
        HoldRule(HoldTarget.HOLDERS, (*ERASES, ActionKind.START)),
    ),
)
def owner_length_mismatch(tables: Tables) -> DataFrame:
    """A topic's list says another number of entries or bytes than the closed ledger has.

    What it finds:
        Closed ledgers whose last entry or length differs from what the topic's list says of them.

    Why it matters:
        Readers go by the list: they fail at entries beyond the ledger's end, and never read what the list
        leaves out. Either the list or the ledger's metadata was altered or restored. A bookie outside the
        ensembles may have entries that only the list names: it must not collect garbage until this is
        settled.

    How sure:
        Confirmed: both are written once, when the ledger is closed.

    What to do:
        Find out which of the two was restored or edited. Where the list has more entries, see
        below-ack-quorum and entry-lost of the ledger, and whether its metadata were closed too early.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          The last entry and the length are in it.

    Limits:
        Of open ledgers the list says nothing.
    """
    return finding_rows(
        with_fault(tables, "owner-length-mismatch"),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger} has {last_entry_id + 1} entries and {length} bytes, but {owner_name} lists "
            "it with {listed}",
            owner_name=owner_name(),
            # A list may say one of them alone.
            listed=F.concat_ws(" and ", words("{entries} entries"), words("{size} bytes")),
        ),
        evidence=owner_evidence("entries", "size", "last_entry_id", "length"),
    )
