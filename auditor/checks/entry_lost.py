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
        Closed ledgers in which some entry is absent from the index of every bookie that should hold it, all
        of those bookies having been read. The finding lists these entries, and what is absent in the whole
        ledger, bookie by bookie. In a run with `--entry-logs` an entry is absent too if the index has it in
        an entry log that is not there (`entry-log-missing`, table gone_entries). Such a run names the entry
        logs that have the bytes of such entries, of any bookie (`in_entry_logs`): no index points at them, so
        that nobody serves them.

    Why it matters:
        The entry was promised to be kept, and a reader of the ledger fails at it. Replication cannot bring it
        back: it copies from bookies that have it, and there is none. The ledger's mark, if it has one, stays.
        Bytes that no index points at go with the next garbage collection (`gc-would-delete-live`).

    How sure:
        Confirmed where the ledger had one version in both scans of the metadata, or, of saved metadata, in
        the one scan there is. Suspect where it changed in between; where it changed less than `--grace`
        seconds before an index was written, or nothing says how old that index is; and where a directory lies
        in another bookie's place. The evidence lists these doubts. Bookies that were not read count as having
        their copies, so every absence was seen.

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
        An index says what a bookie can find, not that the bytes in its entry log are good. What is in the
        journal only is held where the journal was read from the bookie's mark on. Where it was not, a ledger
        that changed after the time that the mark points at, or shortly before, is reported as suspect.
        Ledgers that are not closed never get this class.
    """
    return ledgers_of_class(tables, "entry-lost")
