"""Closed ledgers with an entry that no bookie has any more."""

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
        Closed ledgers with an entry that no bookie's index has, although all bookies that should hold it were
        read. The finding lists the entries, and all absent ones by bookie. With `--entry-logs` an entry is
        absent too if its log is gone (table gone_entries), and `in_entry_logs` names logs that still have its
        bytes, which no index points at and nobody serves.

    Why it matters:
        The entry was promised to be kept, and readers fail at it. Replication has nothing to copy. Bytes that
        no index points at go with the next garbage collection (`gc-would-delete-live`).

    How sure:
        Confirmed where the ledger had one version in both scans of the metadata, or in the one scan of saved
        metadata. Suspect where it changed in between, or less than `--grace` seconds before an index was
        written; where nothing says how old that index is; and where a directory lies in another bookie's
        place. The evidence lists these doubts. On a live store the audit asks the registered bookies for the
        worst entry: what one denies is missing however old its index is; where one could not be asked, or
        only a listing lacks the entry, the finding is a suspect. The next run confirms it with the same
        version, the same missing entries, and indexes newer than the first run by more than `--grace`
        (`earlier_run`), except for `lasting_doubts`.

        On a live store the registered bookies were asked for the entry that gives the ledger its class, and
        the evidence has their answers. What a bookie denies is missing however old its index is; one that
        could not be asked, and what only a listing leaves out, make the finding a suspect.

        On a live store the next run confirms a suspect that it finds again: the same version of the ledger,
        the same entries missing, and an index of each of these bookies that is newer than the run before by
        more than `--grace`. The finding says which run saw it first (`earlier_run`). Time does not heal the
        `lasting_doubts`.

    What to do:
        Stop whatever deletes data on these bookies before anything else. Where an entry log has the bytes,
        rebuild that bookie's index while it is stopped: `bkaudit plan` has the step. Else look for the disks
        that had the entries: a replaced volume, a directory missing from the configuration, an index restored
        from an old backup.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun`.
        - `bookkeeper shell rebuild-db-ledger-locations-index`.

    Limits:
        Unread bookies count as having their copies, and an index does not prove that the bytes are good.
        Where the journal was not read from the bookie's mark on, a ledger that changed after that time is a
        suspect.
    """
    return ledgers_of_class(tables, "entry-lost")
