"""One bookie, asked for single entries by plain reads.

    answered EOK                   it serves the entry
    answered "no such entry"       it does not
    answered "no such ledger"      it serves nothing of that ledger: the rest of it need not be asked for
    another refusal, no answer     unknown: of that entry, or of the whole bookie

Entries are dropped as they arrive (`auditor.codecs.bookie.read`). Every storage answers. A bookie that does
not speak protocol version 3 is asked in version 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from auditor.codecs.bookie.read import HEAD_BYTES, VERSION_2, ReadAnswer, read_answer, read_request
from auditor.codecs.bookie.wire import VERSION, Status, status_text
from auditor.errors import DecodeError
from auditor.model.states import WitnessAnswer
from auditor.sources.bookies.rpc.client import IMPOSSIBLE_LEDGER, BookieClient
from auditor.sources.bookies.rpc.connection import BookieConnection, Wire
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import StoreOptions

_ANSWERS: dict[int, WitnessAnswer] = {
    Status.EOK: WitnessAnswer.SERVED,
    Status.ENOENTRY: WitnessAnswer.NO_SUCH_ENTRY,
    Status.ENOLEDGER: WitnessAnswer.NO_SUCH_LEDGER,
}


class Entry(NamedTuple):
    """An entry of a ledger of scope 0."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class ReadHeard:
    """What a bookie says of one entry.

    ``reason`` is why the answer is unknown. ``answered`` is when, in ms; null without an answer. ``requests``
    is how often the bookie was asked for it.
    """

    entry: Entry
    answer: WitnessAnswer
    reason: str | None = None
    answered: int | None = None
    requests: int = 0


@dataclass(frozen=True)
class Reading:
    """The question for one entry, in one version of the protocol."""

    version: int

    def frame(self, number: int, subject: Entry) -> bytes:
        """The request."""
        return read_request(number, subject.ledger_id, subject.entry_id, version=self.version)

    def key(self, number: int, subject: Entry) -> Hashable:
        """Answers name the request; in version 2, only the entry."""
        return subject if self.version == VERSION_2 else number

    def head(self, length: int) -> int:
        """What comes before an entry's payload."""
        return min(length, HEAD_BYTES)

    def answer(self, head: bytes, length: int) -> tuple[Hashable, ReadAnswer]:
        """The answer, and which request it is for."""
        heard = read_answer(head, length, self.version)
        return (heard.ledger_id, heard.entry_id) if heard.txn_id is None else heard.txn_id, heard

    def misfit(self, subject: Entry, heard: ReadAnswer) -> DecodeError | None:
        """An answer of another entry."""
        found = (heard.ledger_id, heard.entry_id)
        if found in (subject, (None, None)):
            return None
        reason = f"of entry {found[1]} of ledger {found[0]}; asked was {subject[1]} of {subject[0]}"
        return DecodeError("bookie's answer", 0, reason)


class ReadClient(BookieClient[Entry, ReadAnswer, ReadHeard]):
    """Asks one bookie for entries: see `BookieClient`; a subject is an entry.

    ``requests`` counts how often each was asked for.
    """

    OPERATION = "read_entry"
    SUBJECTS = "entries"
    REFUSALS: ClassVar[dict[int, str]] = {
        Status.EUA: "not authorised: the bookie wants its clients to authenticate",
        Status.EBADREQ: "the bookie does not know the request for an entry",
        Status.EBADVERSION: "the bookie speaks neither protocol version 3 nor 2",
    }

    def __init__(self, host: str, port: int, options: StoreOptions) -> None:
        super().__init__(host, port, options)
        self._absent: set[int] = set()  # ledgers that the bookie says it does not have
        self.requests: Counter[Entry] = Counter()

    def wires(self) -> tuple[Wire[Entry, ReadAnswer], ...]:
        """Version 3; 2 for bookies that need it."""
        return Reading(VERSION), Reading(VERSION_2)

    def impossible(self) -> Entry:
        """An entry that nobody has."""
        return Entry(IMPOSSIBLE_LEDGER, 0)

    def status(self, answer: ReadAnswer) -> int:
        """The answer's status."""
        return answer.status

    def needless(self, subject: Entry) -> bool:
        """A bookie that has no such ledger has none of its entries."""
        return subject.ledger_id in self._absent

    def unknown(self, subject: Entry, reason: str) -> ReadHeard:
        """An entry without an answer."""
        return ReadHeard(subject, WitnessAnswer.UNKNOWN, reason, requests=self.requests[subject])

    def note(self, subject: Entry, answer: ReadAnswer) -> ReadHeard:
        """What the bookie says of the entry."""
        said = _ANSWERS.get(answer.status, WitnessAnswer.UNKNOWN)
        if said is WitnessAnswer.NO_SUCH_LEDGER:
            self._absent.add(subject.ledger_id)
        reason = (
            f"the bookie refused: {status_text(answer.status)}" if said is WitnessAnswer.UNKNOWN else None
        )
        return ReadHeard(subject, said, reason, now_ms(), self.requests[subject])

    async def _request(self, connection: BookieConnection[Entry, ReadAnswer], subject: Entry) -> ReadAnswer:
        self.requests[subject] += 1
        return await super()._request(connection, subject)
