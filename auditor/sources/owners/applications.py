"""The applications that refer to ledgers: where each keeps its references, and what one of its znodes says.

    pulsar:zk://h1:2181,h2:2181            Pulsar's znodes at the top of a running ZooKeeper
    pulsar:zk://h1:2181/chroot             below a chroot
    pulsar:zk-snapshot:///dir/version-2    a server's own files; ?root=/chroot
    pulsar:dump:///dir/metadata.jsonl      a dump of ZooKeeper or etcd; ?root=/chroot
    pulsar:etcd://h1:2379                  a running etcd whose keys are paths, as Pulsar has them
    pulsar:etcd-snapshot:///dir/file.db    the same, saved; ?root=/chroot

A new one needs a module with a function of the kind that `Application.reader` names, and a row of
`APPLICATIONS`. Modules are named and not imported, so that an audit without owners loads none of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from auditor.errors import UsageError
from auditor.sources.metadata.uri import (
    METADATA_STORE,
    SAVED,
    MetadataUri,
    parse_metadata_uri,
    redact,
    require_utf8,
)


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


Reader = Callable[[str, bytes], Owner | None]
"""From a path below the application's root, and the value there, to an owner; None where nothing is kept.

Raises DecodeError of a damaged value, and ValueError of a path that the application does not have.
"""


@dataclass(frozen=True, slots=True)
class Application:
    """An application that keeps references to ledgers in znodes, or in keys that are paths.

    ``trees`` are where, below its root; the first is there wherever the application is used. ``reader`` is
    ``module:function``, a `Reader`.
    """

    trees: tuple[str, ...]
    reader: str

    def load(self) -> Reader:
        """The function, from its module."""
        module, _, function = self.reader.partition(":")
        found: Reader = getattr(importlib.import_module(module), function)
        return found


APPLICATIONS = {
    "pulsar": Application(
        ("managed-ledgers", "schemas", "pulsar/functions"), "auditor.sources.owners.pulsar:read_owner"
    ),
}
"""By the name that ``--owners`` takes, and that ledgers have in their custom metadata as ``application``."""


@dataclass(frozen=True, slots=True)
class OwnersUri:
    """Where an application keeps its references; ``chroot`` is the path above its trees, "" at the top.

    ``store`` is a metadata URI without its root.
    """

    application: str
    store: str
    chroot: str

    @property
    def text(self) -> str:
        """The URI as ``--owners`` takes it."""
        if not self.chroot:
            return f"{self.application}:{self.store}"
        return f"{self.application}:{_with_root(self.store, self.chroot)}"

    def tree(self, name: str) -> str:
        """The metadata URI of one of the application's trees.

        >>> OwnersUri("pulsar", "zk://h1:2181", "/east").tree("schemas")
        'zk://h1:2181/east/schemas'
        >>> OwnersUri("pulsar", "dump:///a.jsonl", "").tree("schemas")
        'dump:///a.jsonl?root=/schemas'
        """
        return _with_root(self.store, f"{self.chroot}/{name}")


def parse_owners_uri(text: str) -> OwnersUri:
    """Take the value of ``--owners`` apart.

    >>> parse_owners_uri("pulsar:zk://h1:2181/")
    OwnersUri(application='pulsar', store='zk://h1:2181', chroot='')

    Raises:
        UsageError: an unknown application, or a URI that is invalid.
    """
    require_utf8(text)
    application, _, uri = text.partition(":")
    if application not in APPLICATIONS:
        raise UsageError(
            f"{redact(text)!r}: owners are named as APPLICATION:URI, such as pulsar:zk://host:2181; "
            f"known applications: {', '.join(APPLICATIONS)}"
        )
    scheme, _, rest = uri.partition("://")
    body, _, query = rest.partition("?")
    if scheme in SAVED:
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        chroot = parameters.pop("root", "/")
        if parameters:
            raise UsageError(
                f"{redact(text)!r}: unknown parameter {min(parameters)!r}; there is root=/chroot"
            )
        store = f"{scheme}://{body}"
    else:
        if query:
            raise UsageError(f"{redact(text)!r}: a live store takes no query; a chroot is the path")
        authority, _, path = body.partition("/")
        chroot, store = f"/{path}", f"{scheme}://{authority}"
    owners = OwnersUri(application, store, chroot.rstrip("/"))
    for tree in APPLICATIONS[application].trees:
        parse_metadata_uri(owners.tree(tree))
    return owners


def beside(application: str, metadata: MetadataUri) -> OwnersUri:
    """Where an application would keep its references in the metadata's own store, beside BookKeeper's root.

    >>> metadata = parse_metadata_uri("zk+hierarchical://h1:2181;h2/east/ledgers")
    >>> beside("pulsar", metadata).tree("schemas")
    'zk://h1:2181,h2:2181/east/schemas'
    """
    where = quote(metadata.path) if metadata.path else ",".join(metadata.hosts)
    scheme = metadata.scheme.removeprefix(METADATA_STORE)
    return OwnersUri(application, f"{scheme}://{where}", metadata.root.rpartition("/")[0])


def _with_root(store: str, root: str) -> str:
    scheme = store.partition("://")[0]
    return f"{store}?{SAVED[scheme]}={quote(root)}" if scheme in SAVED else f"{store}{root}"
