"""doubts: what may explain that a bookie lacks copies, other than that they are lost; one function a reason.

Each says whether time heals it. It does where a newer look at the same version of the ledger answers what
the doubt asks: an index that is too old, a bookie that nobody heard. It does not where two looks at one wrong
place are two wrong looks: a disk in another bookie's place, a ledger that is still written to, a listing that
leaves out the same page again. What two runs confirm (`auditor.findings.confirm`) rests on this alone.
"""

from typing import NamedTuple


class Doubt(NamedTuple):
    """A reason for which missing copies are no more than suspect; ``heals``: a newer look answers it."""

    text: str
    heals: bool


def misplaced(bookie_id: str) -> Doubt:
    """The entries may be another bookie's."""
    return Doubt(f"a directory of {bookie_id} lies in another bookie's place", heals=False)


def not_closed() -> Doubt:
    """A writer may be at work."""
    return Doubt("the ledger is not closed", heals=False)


def only_listed(bookie_id: str) -> Doubt:
    """The bookie listed its entries itself, and leaves out what is only in memory."""
    return Doubt(f"a listing of {bookie_id} proves what it holds, not what it lacks", heals=False)


def undated(bookie_id: str) -> Doubt:
    """A later index without a mark says no more."""
    return Doubt(f"no lastMark says how old the index of {bookie_id} is", heals=False)


def too_young(bookie_id: str) -> Doubt:
    """The index may not have the ledger's last entries yet."""
    return Doubt(f"the ledger changed too shortly before the index of {bookie_id} was written", heals=True)


def unheard(bookie_id: str, why: str) -> Doubt:
    """The bookie was to be asked for what its index lacks, and did not answer."""
    return Doubt(f"{bookie_id} did not respond: {why}", heals=True)


def unasked(why: str) -> Doubt:
    """Nobody was asked about the ledger, though bookies of it could be."""
    return Doubt(f"its bookies were not asked: {why}", heals=True)


def too_irregular(why: str) -> Doubt:
    """The sets are beyond the bound of a comparison."""
    return Doubt(why, heals=False)
