"""One bookie, asked which entries of which ledgers it holds.

    answered EOK                   it holds what it lists
    answered "no such ledger"      it holds nothing of that ledger
    another refusal, no answer     unknown: of that ledger, or of the whole bookie

DbLedgerStorage (seen in 4.17.2) answers for ledgers that it lacks, and never for those it has: the request is
not implemented there. So if several real ledgers stayed silent on a connection that is well, and none was
ever listed, it is such a bookie, and is asked no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.groups import Groups
from auditor.codecs.bookie.wire import BookieAnswer, Status, answer, list_request, status_text
from auditor.errors import DecodeError
from auditor.sources.bookies.rpc.client import IMPOSSIBLE_LEDGER, BookieClient
from auditor.sources.bookies.rpc.connection import Wire
from auditor.sources.clock import now_ms

CHUNK_BYTES = 64 << 20
"""Listings, unfolded, that are heard before they are handed on."""
SILENT = 3
"""Ledgers without an answer, beside none with a listing, that tell DbLedgerStorage."""

DB_LEDGER_STORAGE = "does not list entries: DbLedgerStorage"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a bookie says of one ledger.

    ``groups``, as listed and not folded, is None where it said nothing that helps; ``reason`` then says why,
    and ``offset`` is the byte of its answer at fault, if one is. ``answered`` is when, in ms, null without an
    answer.
    """

    ledger_id: int
    groups: Groups | None
    reason: str | None = None
    offset: int | None = None
    answered: int | None = None


class Listing:
    """The question which entries of a ledger a bookie holds, over protocol version 3."""

    def frame(self, number: int, subject: int) -> bytes:
        """The request."""
        return list_request(number, subject)

    def key(self, number: int, subject: int) -> Hashable:
        """Answers name the request."""
        return number

    def head(self, length: int) -> int:
        """All of a listing is wanted."""
        return length

    def answer(self, head: bytes, length: int) -> tuple[Hashable, BookieAnswer]:
        """The answer, and which request it is for."""
        heard = answer(head)
        return heard.txn_id, heard

    def misfit(self, subject: int, heard: BookieAnswer) -> DecodeError | None:
        """An answer of another ledger."""
        if heard.ledger_id in (None, subject):
            return None
        return DecodeError("bookie's answer", heard.at, f"of ledger {heard.ledger_id}; asked was {subject}")


class ListingClient(BookieClient[int, BookieAnswer, Heard]):
    """Asks one bookie which entries of which ledgers it holds: see `BookieClient`; a subject is a ledger."""

    OPERATION = "list_entries"
    SUBJECTS = "ledgers"
    REFUSALS: ClassVar[dict[int, str]] = {
        Status.EUA: "not authorised: the bookie wants its clients to authenticate",
        Status.EBADREQ: "the bookie does not know the request for a list of entries",
        Status.EBADVERSION: "the bookie does not speak protocol version 3",
    }

    _listed = False  # it has listed some ledger
    _bytes = 0

    def wires(self) -> tuple[Wire[int, BookieAnswer], ...]:
        """Version 2 has no such question."""
        return (Listing(),)

    def impossible(self) -> int:
        """A ledger that nobody has."""
        return IMPOSSIBLE_LEDGER

    def status(self, answer: BookieAnswer) -> int:
        """The answer's status."""
        return answer.status

    async def ask(self, waiting: deque[int]) -> list[Heard]:
        """As any client; what is handed on at once is bounded by `CHUNK_BYTES`."""
        self._bytes = 0
        return await super().ask(waiting)

    def enough(self) -> bool:
        """Listings are large."""
        return self._bytes >= CHUNK_BYTES

    def mute(self, silent: int) -> str | None:
        """DbLedgerStorage says nothing of what it has."""
        if self._listed or silent < SILENT:
            return None
        return f"{DB_LEDGER_STORAGE} (it answers for what it lacks, not for {silent} others)"

    def unknown(self, subject: int, reason: str) -> Heard:
        """A ledger without an answer."""
        return Heard(subject, None, reason)

    def note(self, subject: int, answer: BookieAnswer) -> Heard:
        """The listing, decoded; nothing where the bookie lacks the ledger."""
        now = now_ms()
        if answer.status == Status.ENOLEDGER:
            return Heard(subject, _NOTHING, answered=now)
        if answer.availability is None:
            return Heard(subject, None, f"the bookie refused: {status_text(answer.status)}", answered=now)
        self._listed = True
        self._bytes += len(answer.availability)
        try:
            groups = availability.decode(answer.availability)
        except DecodeError as damage:
            at = answer.at + damage.offset
            return Heard(subject, None, f"{damage.what}: {damage.reason}", at, now)
        return Heard(subject, groups, answered=now)


_NOTHING: Groups = availability.decode(bytes(64))
