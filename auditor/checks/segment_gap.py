"""Ledgers whose first entries belong to no segment."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.ledger_queries import ledgers_breaking


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="broken_ledgers",
    do_now="restore the metadata of {ledgers} from a backup",
    action=ActionKind.RESTORE_METADATA,
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),),
)
def segment_gap(tables: Tables) -> DataFrame:
    """The first segment of a ledger does not start at entry 0.

    What it finds:
        Ledgers whose metadata lists no ensemble for their first entries.

    Why it matters:
        Nobody knows which bookies have the entries before the first segment, so readers fail at them. No
        server writes such metadata: it was edited, or cut.

    How sure:
        Confirmed: the record says so. Suspect where the ledger changed between the two scans.

    What to do:
        Restore the ledger's metadata from a backup of the store, if there is one.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID -dumptofile FILE`
          Keep what is there.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE -update`
          writes a record that was dumped before over the one that is there. Risk: danger; a wrong ensemble
          makes entries unfindable, and nothing keeps the record that was there.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`
          Ask one bookie after the other.

    Limits:
        The segments that exist are judged as usual.
    """
    return ledgers_breaking(tables, "segment-gap")
