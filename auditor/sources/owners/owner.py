"""What an application's znode says of ledgers, whatever the application: names, and references to ledgers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class OwnerKind(StrEnum):
    """What a ledger is to the application that refers to it. Stable words: tables and findings have them."""

    DATA = "data"
    """A topic's messages."""
    CURSOR = "cursor"
    """Positions of a subscription."""
    SCHEMA = "schema"
    """A version of a topic's schema."""
    COMPACTED = "compacted"
    """A topic's messages, the newest of each key."""
    DELAYED_BUCKET = "delayed-bucket"
    """The index of messages that are to be delivered later."""
    LOG_SEGMENT = "log-segment"
    """A segment of a DistributedLog."""
    LOG_ALLOCATION = "log-allocation"
    """A ledger that a DistributedLog made in advance."""


class OffloadState(StrEnum):
    """How far the copy of a ledger in an object store is."""

    INCOMPLETE = "incomplete"
    """Begun and not whole: objects may be left over."""
    COMPLETE = "complete"
    """Whole, and the ledger is kept besides."""
    DELETED = "deleted"
    """Whole, and the ledger was given up for it."""


class Reference(NamedTuple):
    """A ledger that an owner refers to; a tuple, for a cluster has millions of them.

    ``place`` is where it stands in a list of ``list_size`` ledgers, from 0. ``entries``, ``size`` (bytes) and
    ``timestamp`` (ms) are what the owner knows of a closed ledger. ``borrowed``: another owner has it too,
    and rightly. ``stale``: newer references may stand where they were not looked for. ``detail`` is the
    version of a schema, or the name of a bucket.
    """

    kind: OwnerKind
    ledger_id: int | None
    place: int | None = None
    list_size: int | None = None
    entries: int | None = None
    size: int | None = None
    timestamp: int | None = None
    offload: OffloadState | None = None
    offload_uid: str | None = None
    offload_time: int | None = None
    borrowed: bool = False
    stale: bool = False
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class OwnerNames:
    """Who it is that refers to ledgers; None where the application has no such level."""

    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """One znode's worth: the owner, its references, and of a cursor how far it has read.

    An owner without a ledger has one reference with the id None: that it is there matters too.
    ``compression`` is how its value was packed, None where its kind never is.
    """

    names: OwnerNames
    references: tuple[Reference, ...]
    mark_delete: tuple[int, int] | None = None
    compression: str | None = None
