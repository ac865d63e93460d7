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
        Closed ledgers with an entry that the index of no bookie has, although all bookies that should hold it
        were read. The finding lists these entries, and all absent entries by bookie. With `--entry-logs` an
        entry is absent too if its entry log is gone (`entry-log-missing`, table gone_entries), and
        `in_entry_logs` names entry logs of any bookie that have its bytes. No index points at these, so
        nobody serves them.

    Why it matters:
        The entry was promised to be kept, and readers fail at it. Replication cannot restore it: no bookie
        has a copy. A mark of the ledger stays. Bytes that no index points at go with the next garbage
        collection (`gc-would-delete-live`).

    How sure:
        Confirmed where the ledger had one version in both scans of the metadata, or in the one scan of saved
        metadata. Suspect where it changed in between; where it changed less than `--grace` seconds before an
        index was written, or nothing says how old that index is; and where a directory lies in another
        bookie's place. The evidence lists these doubts. Bookies that were not read count as having their
        copies. On a live store the audit asks the registered bookies for the entry that gives the class, and
        the evidence has their answers. What a bookie denies is missing however old its index is. A bookie
        that could not be asked, and an absence that only a listing shows, make the finding a suspect. The
        next run on a live store confirms it if it sees the same version, the same missing entries, and
        indexes that are newer than the first run by more than `--grace`; `earlier_run` names that run. Time
        does not resolve `lasting_doubts`.

        On a live store the registered bookies were asked for the entry that gives the ledger its class, and
        the evidence has their answers. What a bookie denies is missing however old its index is; one that
        could not be asked, and what only a listing leaves out, make the finding a suspect.

        On a live store the next run confirms a suspect that it finds again: the same version of the ledger,
        the same entries missing, and an index of each of these bookies that is newer than the run before by
        more than `--grace`. The finding says which run saw it first (`earlier_run`). Time does not heal the
        `lasting_doubts`.

    What to do:
        Stop whatever deletes data on these bookies before anything else. Where an entry log has the bytes,
        rebuild the index of that bookie while it is stopped: `bkaudit plan` has the step. Else look for the
        disks that had the entries: a replaced volume, a directory missing from the configuration, an index
        restored from an old backup.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun`.
        - `bookkeeper shell rebuild-db-ledger-locations-index`.

    Limits:
        An index says what a bookie can find, not that the bytes in its entry log are good. Entries that are
        only in the journal count as held where it was read from the bookie's mark on. Where it was not, a
        ledger that changed after the mark's time, or shortly before, is a suspect.
    """
    return ledgers_of_class(tables, "entry-lost")
