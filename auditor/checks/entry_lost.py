"""Closed ledgers with an entry that no bookie has."""

from auditor.checks.check import (
    ERASES,
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
from auditor.checks.ledger_queries import ledgers_of_class


@check(
    Severity.CRITICAL,
    rests_on=Basis.COPIES,
    asks="entry_lost",
    urgency=Urgency.LOST,
    do_now="find the disks that held {ledgers}; keep all entry logs",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),
        HoldRule(HoldTarget.LACKING, ERASES),
    ),
)
def entry_lost(tables: Tables) -> DataFrame:
    """A closed ledger has an entry with no copy left.

    What it finds:
        Every bookie that should hold the entry was read, and no index has it. With `--entry-logs` an entry
        whose log is gone counts too (table gone_entries). `in_entry_logs` names logs with bytes that no
        index points at.

    Why it matters:
        Readers fail at the entry. The next garbage collection deletes bytes that no index points at
        (`gc-would-delete-live`).

    How sure:
        Confirmed if the ledger had the same version in every scan of the metadata. Suspect if it changed
        less than `--grace` seconds before an index was written, or that time is unknown. Suspect if the
        ledger changed between the scans. Suspect with `disk-id-mismatch`. On a live store the audit asks
        the registered bookies for the worst entry. If they deny it, the age of their indexes does not
        matter. Suspect if one could not be asked, or only a listing lacks the entry. The next run confirms
        a suspect that it finds unchanged with indexes newer by `--grace` (`earlier_run`), but not with
        `lasting_doubts`.

    What to do:
        First stop everything that deletes data on these bookies. If an entry log has the bytes, stop that
        bookie and rebuild its index (`bkaudit plan`). Otherwise look for the entries' disks: a replaced
        volume, a directory missing from the configuration, an index from an old backup.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun`.
        - `bookkeeper shell rebuild-db-ledger-locations-index`.

    Limits:
        Unread bookies count as having their copies. An index does not prove that the bytes are good. If the
        journal was not read from the bookie's mark on, a ledger that changed since is suspect.
    """
    return ledgers_of_class(tables, "entry-lost")
