"""Doubts: reasons why a bookie may seem to lack copies that it has. Each function makes one kind of doubt.

A doubt is transient if a newer read of the same version of the ledger can settle it. Examples are an index
that was too old, and a bookie that did not answer. A doubt is lasting if a second read repeats the error.
Examples are a disk in another bookie's place, and a ledger that is still being written. Another example is a
listing that leaves out the same page again. Two runs can confirm a finding (`auditor.findings.confirm`) only
if all its doubts are transient.
"""

from typing import NamedTuple


class Doubt(NamedTuple):
    """A reason why missing copies are only suspected.

    ``is_transient`` is True if a newer read can settle the doubt.
    """

    text: str
    is_transient: bool


def in_misplaced_directory(bookie_id: str) -> Doubt:
    """Return the doubt that the entries in a bookie's directory may belong to another bookie."""
    return Doubt(f"a directory of {bookie_id} is at the path of another bookie", is_transient=False)


def ledger_not_closed() -> Doubt:
    """Return the doubt that a writer may still be writing to the ledger."""
    return Doubt("the ledger is not closed", is_transient=False)


def only_in_listing(bookie_id: str) -> Doubt:
    """Return the doubt that a bookie's own listing may leave out entries that are only in its memory."""
    return Doubt(
        f"a listing from {bookie_id} proves which entries exist, but not that other entries are missing",
        is_transient=False,
    )


def index_without_time(bookie_id: str) -> Doubt:
    """Return the doubt that arises because no lastMark shows the age of a bookie's index.

    A second read would not find a lastMark either.
    """
    return Doubt(f"the age of the index of {bookie_id} is unknown: no lastMark shows it", is_transient=False)


def index_too_old(bookie_id: str) -> Doubt:
    """Return the doubt that the index may not contain the ledger's last entries yet."""
    return Doubt(
        f"the index of {bookie_id} was written shortly after the ledger changed, so it may lack the "
        "last entries",
        is_transient=True,
    )


def reads_unanswered(bookie_id: str, reason: str) -> Doubt:
    """Return the doubt that arises if a bookie did not answer requests for entries that its index lacks."""
    return Doubt(f"{bookie_id} did not respond: {reason}", is_transient=True)


def bookie_not_asked(reason: str) -> Doubt:
    """Return the doubt that arises if no bookie of a ledger was asked, although some could have been."""
    return Doubt(f"the ledger's bookies were not asked for entries: {reason}", is_transient=True)


def sets_too_irregular(reason: str) -> Doubt:
    """Return the doubt that arises if entry sets are too irregular to compare.

    ``reason`` is the complete sentence that states the doubt.
    """
    return Doubt(reason, is_transient=False)
