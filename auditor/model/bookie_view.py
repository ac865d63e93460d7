"""One bookie as an audit saw it: who it says it is, where its data lies, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.finding import Severity
from auditor.model.standing import Standing


@dataclass(frozen=True, slots=True)
class CookieView:
    """The cookie that the metadata store keeps under the bookie's id; ``damage`` where it is unreadable."""

    layout: int | None = None
    bookie_host: str | None = None
    journal_dirs: str | None = None
    ledger_dirs: tuple[str, ...] = ()
    index_dirs: tuple[str, ...] = ()
    instance_id: str | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrationView:
    """A registration: writable or readonly, and its endpoints as (name, host, port, protocol).

    ``ephemeral`` is None where the store does not say whether it ends with a session.
    """

    mode: str
    endpoints: tuple[tuple[str, str, int, str], ...] = ()
    damage: str | None = None
    ephemeral: bool | None = None


@dataclass(frozen=True, slots=True)
class AliasView:
    """Another id that is ``same`` bookie, or only looks like it; ``edges`` are (rule, evidence, against)."""

    bookie_id: str
    same: bool
    registered: bool
    edges: tuple[tuple[str, str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateView:
    """An id, and how much of a directory it explains: ledgers that name it, and match entry for entry."""

    bookie_id: str
    named: int
    exact: int


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """A directory of the bookie, or in its place; ``contents`` are of ``ledgers`` ledgers, the best first."""

    path: str
    role: str
    place: str | None
    owner: str | None
    cookie_bookie_id: str | None
    instance_id: str | None
    layout: int | None
    index_time: int | None  # ms
    damage: str | None = None
    ledgers: int = 0
    contents: tuple[CandidateView, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalView:
    """A journal directory: the mark it was read from, and why not all of what follows it was read.

    ``files`` are those from the mark on, ``files_below`` those before it, which prove nothing. ``path`` is
    None where no directory could be named, and the file at fault where one is damaged.
    """

    path: str | None
    reason: str | None
    mark_file: str | None
    mark_offset: int | None
    files: int
    files_below: int
    entries: int


@dataclass(frozen=True, slots=True)
class ProblemView:
    """The findings of one check that name the bookie: ``count`` of them, and the first few sentences.

    ``standings`` are those of ``messages``, where the run kept any; ``ledger`` is the scope and id of the
    first of them that is about a ledger.
    """

    id: str
    severity: Severity
    count: int
    unsure: int  # of these, not confirmed
    messages: tuple[str, ...]
    standings: tuple[Standing | None, ...] = ()
    ledger: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BookieView:
    """A bookie of one run. Numbers of ledgers: ``ledgers`` name it, on ``depending`` of them it has entries
    or the open end, of ``replicas`` it should hold judged entries; ``held`` are on its disks, ``orphans`` of
    those not in the metadata. ``held`` is None where nothing of its index was read.
    """

    bookie_id: str
    read: str  # read, partial or unread
    reason: str | None
    index_time: int | None  # ms
    suspect: bool
    foreign_instance: bool
    marked: bool
    ledgers: int
    depending: int
    replicas: int
    held: int | None
    orphans: int
    cookie: CookieView | None = None
    registrations: tuple[RegistrationView, ...] = ()
    directories: tuple[DirectoryView, ...] = ()
    problems: tuple[ProblemView, ...] = ()
    aliases: tuple[AliasView, ...] = ()
    tail: str | None = None
    journals: tuple[JournalView, ...] = ()
