"""One ledger as an audit saw it: what its metadata says, and what each bookie has of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.model.ledger_metadata import Segment
from auditor.model.witness import WitnessAnswer


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What one bookie should have of the ledger, and has.

    ``expected`` and ``held`` are BP-34 groups of 24 bytes each (`auditor.codecs.availability.groups`).
    ``known`` is False where an entry that is not in ``held`` may be there all the same; ``state`` says why,
    or how it was found: ok, absent (no index), cut, unreadable, limbo, not-indexed, unread.
    """

    bookie_id: str
    member: bool
    expected: bytes
    held: bytes
    known: bool
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One answer that a bookie gave for ``count`` entries when it was asked for them by plain reads.

    ``entries`` are BP-34 groups of 24 bytes each; ``reason`` is why the answer is unknown.
    """

    bookie_id: str
    answer: WitnessAnswer
    entries: bytes
    count: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A ledger of one run. ``status`` is that of the table ledgers, or gone where only bookies know it.

    ``state`` and all numbers are None where the metadata could not be read. ``judged_class`` and
    ``potential_class`` are those of the table verdicts. ``attached`` is the metadata's custom part, whatever
    the application put there: key and value, one that is not text in hexadecimal. ``answers`` are what
    bookies said when they were asked for entries; none where nobody was. ``queue`` says whether it waits for
    replication, since when, and who holds it.
    """

    ledger_id: int
    scope_id: int = 0
    status: str = "gone"
    path: str | None = None
    version: int | None = None
    state: str | None = None
    ensemble_size: int | None = None
    write_quorum: int | None = None
    ack_quorum: int | None = None
    last_entry_id: int | None = None
    length: int | None = None
    digest_type: str | None = None
    ctime: int | None = None
    mtime: int | None = None
    segments: tuple[Segment, ...] = ()
    damage: str | None = None
    rules: tuple[str, ...] = ()
    judged_class: str | None = None
    potential_class: str | None = None
    doubts: tuple[str, ...] = ()
    attached: tuple[tuple[str, str], ...] = ()
    replicas: tuple[ReplicaView, ...] = field(default=())
    answers: tuple[AnswerView, ...] = ()
    queue: tuple[str, ...] = ()
