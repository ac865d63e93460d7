"""Closed ledgers with an entry that no bookie has."""

from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    DataFrame,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.ledger_queries import class_findings


@check(
    Severity.CRITICAL,
    rests_on=Basis.COPIES,
    asks="entry_lost",
    urgency=Urgency.LOST,
    do_now="find the disks that held {ledgers}, and keep all entry logs",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),
        HoldRule(HoldTarget.BOOKIES_LACKING_ENTRIES, ERASING_ACTIONS),
    ),
)
def entry_lost(tables: Tables) -> DataFrame:
    """A closed ledger has an entry with no copy left.

    What it finds:
        Every bookie that should hold the entry was read, and no index has it. With `--entry-logs`, an entry
        whose entry log is gone counts as lost too (table gone_entries). The evidence `in_entry_logs` lists
        the entry logs that have unindexed bytes of the ledger.

    Why it matters:
        Readers fail at the entry. The next garbage collection deletes unindexed bytes
        (`gc-would-delete-live`).

    How sure:
        Confirmed if the ledger's metadata had the same version in every scan. Suspect if the ledger changed
        less than `--grace` seconds before an index was written, or if a time is unknown. On a running
        cluster, the audit asks the ledger's registered bookies for the entry with the fewest copies. If they
        answer that they lack it, the age of their indexes does not matter. Suspect if a bookie could not be
        asked, or if its list of entries is the only evidence. The next run confirms an unchanged suspect
        finding if its evidence `lasting_doubts` is empty. The indexes of the next run must be newer than the
        first run by `--grace`. The evidence `earlier_run` then names the first run. Suspect if the ledger
        changed between the two metadata scans. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        First stop everything that deletes data on the ledger's bookies. If an entry log has the bytes, stop
        the bookie of that log and rebuild its index (`bkaudit plan`). Otherwise look for the disks that had
        the entries. The cause may be a replaced volume, a directory missing from the configuration, or an
        index from an old backup.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun`.
        - `bookkeeper shell rebuild-db-ledger-locations-index`.

    Limits:
        The check assumes that a bookie that was not read has its copies. An index does not prove that the
        bytes are good. If a bookie's journal was not read from its lastMark on, ledgers that changed since
        that lastMark are suspect.
    """
    return class_findings(tables, "entry-lost")
