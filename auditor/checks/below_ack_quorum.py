"""Ledgers with an entry on fewer bookies than acknowledged it."""

from auditor.checks.check import ActionKind, Basis, DataFrame, Severity, Tables, Urgency, check
from auditor.checks.ledger_queries import ledgers_of_class


@check(
    Severity.ERROR,
    rests_on=Basis.COPIES,
    asks="below_ack_quorum",
    urgency=Urgency.BELOW_ACK_QUORUM,
    do_now="copy {ledgers} to other bookies before another bookie stops",
    action=ActionKind.RECOVER,
)
def below_ack_quorum(tables: Tables) -> DataFrame:
    """A ledger has an entry with fewer copies than its ack quorum.

    What it finds:
        Ledgers whose worst entry is on fewer bookies than the ack quorum, counting only confirmed absences.
        The finding lists the entries. Of a ledger that is not closed only finished segments are judged,
        without the last write quorum of entries.

    Why it matters:
        A writer was told that this many bookies have the entry. The next failure may take the last copy, and
        recovery may take the entry for never written.

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
        Have the missing copies made again before any bookie of the ledger is restarted or drained.
        Replication makes them once the ledger is marked.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell listunderreplicated -pmr -prw`.
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell autorecovery -e`.
        - `bookkeeper shell recover -dr -l ID BOOKIE`.
        - `bookkeeper shell recover -l ID BOOKIE`.

    Limits:
        Unread bookies count as having their copies; the finding says what the ledger could become without
        them. The index does not prove that the bytes are good.
    """
    return ledgers_of_class(tables, "below-ack-quorum")
