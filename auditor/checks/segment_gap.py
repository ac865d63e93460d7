"""Ledgers whose first segment does not start at entry 0."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.ledger_queries import broken_rule_findings


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
        Reports ledgers whose metadata names no ensemble for the first entries.

    Why it matters:
        Readers cannot find the first entries. The metadata was edited or cut.

    How sure:
        Confirmed: the record says so. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Dump the present record, then restore the ledger's metadata from a backup of the store.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID -dumptofile FILE`.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE -update`
          overwrites the record with a dumped one. Risk: danger; a wrong ensemble makes entries
          unfindable, and nothing keeps the old record.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        Other segments are checked as usual.
    """
    return broken_rule_findings(tables, "segment-gap")
