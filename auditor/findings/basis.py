"""What it rests on that a finding is not found any more: unless that was looked at, nothing is fixed.

A run that could not read a bookie finds nothing on its disks, and that is not a repair. So a finding of an
earlier run that is not found now is *fixed* only where what would show it was looked at and did not; else
it is *unseen*, and stays known until a run can tell.

``metadata``
    The store alone shows it. Looked at where the ledger is listed, or where the listing has no holes.
``copies``
    Whether a ledger has its copies. Looked at where the class of the ledger is decided, whatever could not be
    read; or where the ledger is gone from a listing without holes. Where a finding counts ledgers: with every
    bookie read, and a listing without holes.
``disks``
    What lies on a bookie's disks. Looked at where its directories were found and read to the end, the ledger
    could be judged, and its index there be read; or where neither the metadata nor a source knows the bookie.
``owners``
    Who refers to ledgers. Looked at where the owners' trees were read, with every value in them, and the
    listing of ledgers has no holes.

``entry logs``
    What lies in a bookie's entry logs. Looked at as disks are, by a run that read entry logs.
``digests``
    What sampled entries are. Looked at as disks are, by a run that looked deep.

``objects``
    What a bucket has. Looked at as owners are, by a run that was given the bucket's inventory.

Holes are parts of the metadata that could not be read, and ids that these or a misplaced record leave in
doubt. What marks show needs a listing without them.
"""

from __future__ import annotations

from auditor.checks import BY_ID, Basis

STAGES = ("below-write-quorum", "below-ack-quorum", "entry-lost")
"""Ids that are stages of one trouble, the mildest first: a ledger that goes to the next got worse."""

UNREADABLE = "index-unreadable"


def basis(id: str) -> Basis:
    """What the absence of a finding with this id rests on; of an id that no check has now, on disks.

    >>> print(basis("entry-lost"), basis("orphan-ledger"), basis("bookie-down"), basis("segment-gap"))
    copies disks metadata metadata
    """
    check = BY_ID.get(id)
    return Basis.DISKS if check is None else check.rests_on


def of_marks(id: str) -> bool:
    """Whether under-replication marks show it.

    >>> of_marks("mark-stale"), of_marks("lock-without-mark"), of_marks("entry-lost")
    (True, True, False)
    """
    return id.startswith(("mark-", "lock-"))


def stage_of(id: str) -> str:
    """The id that all stages of one trouble are known by.

    >>> stage_of("entry-lost"), stage_of("orphan-ledger")
    ('below-write-quorum', 'orphan-ledger')
    """
    return STAGES[0] if id in STAGES else id
