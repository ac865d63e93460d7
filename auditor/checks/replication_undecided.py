"""Ledgers that an unreadable index on a bookie leaves without an answer."""

from auditor.checks.check import Basis, Column, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import judged_with_class, unknown_bookies
from auditor.model.states import LedgerClass, UnknownCopy

_SAID = {
    UnknownCopy.UNREADABLE: "index unreadable on ",
    UnknownCopy.LIMBO: "in limbo on ",
    UnknownCopy.NOT_INDEXED: "not in the index of ledgers on ",
    UnknownCopy.MISPLACED: "index outside its place on ",
    UnknownCopy.WRONG_DIRECTORY: "in the wrong directory on ",
    UnknownCopy.DENIED: "an entry of the index denied by ",
    UnknownCopy.INDEX_INCOMPLETE: "index without entries that are served on ",
    UnknownCopy.NOT_ASKED: "index too old, and not all asked, on ",
    UnknownCopy.UNREAD: "not read: ",
}
_OF_BOOKIES = (UnknownCopy.UNREAD, UnknownCopy.LIMBO, UnknownCopy.WRONG_DIRECTORY)
"""What a finding of the bookie says, once for all of its ledgers."""
_HARMLESS = (LedgerClass.HEALTHY, LedgerClass.NOT_CLOSED)


@check(Severity.NOTE, rests_on=Basis.COPIES, asks="undecided")
def replication_undecided(tables: Tables) -> DataFrame:
    """A ledger's class is not known, because a bookie's index of it cannot be read.

    What it finds:
        Ledgers that could be in a worse class than they are in, where a bookie was read and does not say what
        it has of just this ledger: its index is damaged or cut, or lies where the bookie does not look; or
        its locations are there and its index of ledgers lacks it, so that it is not served. Also where
        bookies of a live store were asked for a sample of what their index lacks, and it serves some of that,
        or denies an entry that its index shows: the rest of that replica is unknown then. The finding names
        those bookies and the worse class.

    Why it matters:
        What could not be read is neither there nor missing. The ledger may be healthy, and may be losing its
        copies while nobody can tell.

    How sure:
        Always unknown: what cannot be read is neither there nor missing.

    What to do:
        Repair the index (see the index-unreadable or ledger-not-indexed finding of that bookie), and audit
        again.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        What a whole bookie explains is one finding of the bookie, not one per ledger: it was not read
        (bookie-unread), has the ledger in limbo (ledgers-in-limbo) or in a directory where it does not look
        (ledgers-in-wrong-directory).
    """
    untold = F.exists("unknown", lambda copies: ~copies["why"].isin(*_OF_BOOKIES))
    rows = judged_with_class(tables).where(untold & (F.col("class") != F.col("potential_class")))
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        confidence=Confidence.UNKNOWN,
        unknown=unknown_bookies(),
        message=words(
            "ledger {ledger}: {known}, at worst {potential_class}; {reasons}",
            known=F.when(F.col("class").isin(*_HARMLESS), "undecided").otherwise(F.col("class")),
            reasons=F.concat_ws("; ", *(_where(why, said) for why, said in _SAID.items())),
        ),
        evidence="class, potential_class, state, m AS copies_missing, mu AS copies_missing_or_unknown, "
        "unknown AS unknown_copies, doubts",
    )


def _where(why: str, said: str) -> Column:
    """Where copies are unknown for one reason; null where none are."""
    bookies = f"array_sort(array_distinct(filter(unknown, copies -> copies.why = '{why}').bookie_id))"
    return F.expr(f"CASE WHEN size({bookies}) > 0 THEN concat('{said}', array_join({bookies}, ', ')) END")
