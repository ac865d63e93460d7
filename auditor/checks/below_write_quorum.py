"""Ledgers with an entry on fewer bookies than were asked for."""

from auditor.checks.check import ActionKind, Basis, DataFrame, Severity, Tables, check
from auditor.checks.ledger_queries import ledgers_of_class


@check(
    Severity.WARNING,
    rests_on=Basis.COPIES,
    asks="below_write_quorum",
    do_now="mark {ledgers} for re-replication",
    action=ActionKind.RECOVER,
)
def below_write_quorum(tables: Tables) -> DataFrame:
    """A ledger has an entry with fewer copies than its write quorum.

    What it finds:
        Ledgers whose worst entry lacks a copy and has at least as many as the ack quorum. Every entry is
        compared with the striping of its segment, so a single missing entry in the middle is found too. The
        finding lists the entries.

    Why it matters:
        Nothing is lost, but the ledger survives fewer failures than it was made for. BookKeeper's own check
        reads only a few entries of a ledger and may never have noticed.

    How sure:
        Confirmed where the ledger had one version in both scans of the metadata, or in the one scan of saved
        metadata. Suspect where it changed in between, or less than `--grace` seconds before an index was
        written; where nothing says how old that index is; where a directory lies in another bookie's place;
        and always where the ledger is not closed. Answers of bookies and a second run settle it as they do
        for `entry-lost`.

        On a live store the registered bookies were asked for the entry that gives the ledger its class, and
        the evidence has their answers. What a bookie denies is missing however old its index is; one that
        could not be asked, and what only a listing leaves out, make the finding a suspect.

        On a live store the next run confirms a suspect that it finds again: the same version of the ledger,
        the same entries missing, and an index of each of these bookies that is newer than the run before by
        more than `--grace`. The finding says which run saw it first (`earlier_run`). Time does not heal the
        `lasting_doubts`.

    What to do:
        Replication makes the missing copies once the ledger is marked. The auditor marks ledgers of lost
        bookies by itself, but does not see single missing entries.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell listunderreplicated -pmr -prw`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell recover -dr -l ID BOOKIE`.
        - `bookkeeper shell recover -l ID BOOKIE`.

    Limits:
        The index is not the data. Unread bookies count as having their copies. Where ack quorum and write
        quorum are equal this class cannot occur.
    """
    return ledgers_of_class(tables, "below-write-quorum")
