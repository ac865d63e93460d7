"""A topic as one run saw it: its ledgers in order, and how far every subscription has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Backlog(StrEnum):
    """Where a ledger lies before the positions up to which subscriptions have acknowledged all."""

    READ = "passed by all"
    """Every subscription is past it: what is lost there is lost to nobody."""
    NEEDED = "in a backlog"
    """Some subscription has yet to read it, or some of it."""
    UNKNOWN = "not known"
    """A position is only in a cursor's own ledger, or could not be read."""


@dataclass(frozen=True, slots=True)
class TopicLedger:
    """One ledger of a topic's list; ``standing`` and ``fault`` are those of the table ownership.

    ``klass`` is its replication class (verdicts), None where it is not listed. Times and sizes are None where
    nothing says them.
    """

    ledger_id: int
    standing: str
    fault: str | None
    klass: str | None
    state: str | None
    entries: int | None
    size: int | None
    offload: str | None
    borrowed: bool
    backlog: Backlog


@dataclass(frozen=True, slots=True)
class TopicCursor:
    """One subscription: ``position`` is (ledger, entry) up to which all is acknowledged, by its znode.

    ``ledger_id`` is the cursor's own ledger, which has newer positions than the znode; None where it has
    none. ``unread`` is why its value could not be read.
    """

    name: str
    position: tuple[int, int] | None
    ledger_id: int | None
    standing: str | None
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class OtherReference:
    """A ledger that a topic needs besides its messages and cursors: schema, bucket, compacted."""

    kind: str
    ledger_id: int | None
    detail: str | None
    standing: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class TopicView:
    """All that a run knows of one topic.

    ``unread`` is why its list could not be read, ``unlisted`` why its subscriptions could not be listed.
    """

    name: str
    path: str
    ledgers: Sequence[TopicLedger]
    cursors: Sequence[TopicCursor]
    others: Sequence[OtherReference]
    unread: str | None = None
    unlisted: str | None = None


def backlog_of(ledger_id: int, cursors: Sequence[TopicCursor]) -> Backlog:
    """Where a ledger lies before the positions of all cursors.

    A position in the znode is a lower bound: a cursor never goes back by itself. So what it has passed there
    is passed; what it has not may be passed in its own ledger.

    >>> done = TopicCursor("a", (9, 3), None, None)
    >>> backlog_of(8, [done]), backlog_of(9, [done]), backlog_of(8, [])
    (<Backlog.READ: 'passed by all'>, <Backlog.NEEDED: 'in a backlog'>, <Backlog.READ: 'passed by all'>)
    """
    behind = [cursor for cursor in cursors if cursor.position is None or cursor.position[0] <= ledger_id]
    if not behind:
        return Backlog.READ
    sure = [cursor for cursor in behind if cursor.ledger_id is None and cursor.position is not None]
    return Backlog.NEEDED if sure else Backlog.UNKNOWN
