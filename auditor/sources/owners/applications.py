"""Applications that refer to ledgers: the URIs of their references, and the rows of the table owners.

    pulsar:zk://h1:2181,h2:2181            Pulsar's znodes at the top of a running ZooKeeper
    pulsar:zk://h1:2181/chroot             Pulsar's znodes below a chroot
    pulsar:zk-snapshot:///dir/version-2    the files of a ZooKeeper server; ?root=/chroot names a chroot
    pulsar:dump:///dir/metadata.jsonl      a dump of ZooKeeper or etcd; ?root=/chroot names a chroot
    pulsar:etcd://h1:2379                  a running etcd whose keys are paths, as Pulsar has them
    pulsar:etcd-snapshot:///dir/file.db    a snapshot of such an etcd; ?root=/chroot names a chroot

An owner is one topic, subscription, schema or log of an application. To add an application, add a module
with a `Reader` function, and a row in `APPLICATIONS`. Rows name modules instead of importing them. So an
audit without owners loads none of these modules. A damaged value becomes a row of the table owners. The
column ``damage`` of this row has the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

import pyarrow as pa

from auditor.errors import DecodeError, UsageError
from auditor.model.columns import make_schema
from auditor.model.options import AuditOptions, parse_texts
from auditor.sources.metadata.store import NO_TIME, ZnodeBatch
from auditor.sources.metadata.uri import (
    METADATA_STORE,
    OXIA,
    SAVED_SCHEMES,
    MetadataUri,
    parse_metadata_uri,
    redact,
    require_utf8,
)


class OwnerKind(StrEnum):
    """The purpose of a ledger for the application that refers to it.

    Tables and findings contain these values, so the values must not change.
    """

    DATA = "data"
    """The ledger holds messages of a topic."""
    CURSOR = "cursor"
    """The ledger holds positions of a subscription."""
    SCHEMA = "schema"
    """The ledger holds one version of a topic's schema."""
    COMPACTED = "compacted"
    """The ledger holds the newest message of each key of a topic."""
    DELAYED_BUCKET = "delayed-bucket"
    """The ledger holds an index of messages to deliver later."""
    LOG_SEGMENT = "log-segment"
    """The ledger is a segment of a DistributedLog."""
    LOG_ALLOCATION = "log-allocation"
    """A DistributedLog created the ledger in advance."""


class OffloadState(StrEnum):
    """The state of a ledger's copy in an object store."""

    INCOMPLETE = "incomplete"
    """The copy was begun and is not complete. It may have left objects behind."""
    COMPLETE = "complete"
    """The copy is complete, and the ledger is kept too."""
    DELETED = "deleted"
    """The copy is complete, and Pulsar deleted the ledger."""


class Reference(NamedTuple):
    """A ledger that an owner (such as a topic) refers to. A tuple, because a cluster has millions of them.

    Attributes:
        kind: purpose of the ledger.
        ledger_id: the ledger; None for an owner without a ledger.
        place: position in the owner's list of ``list_size`` ledgers, from 0.
        entries: number of entries of a closed ledger, according to the owner.
        size: size of a closed ledger in bytes, according to the owner.
        timestamp: time when the ledger was closed, in ms, according to the owner.
        offload: state of the ledger's copy in an object store; None if there is no copy.
        borrowed: True if the ledger belongs to another owner, as the ledgers of a shadow topic do.
        stale: True if a newer reference may exist in a place that is not read.
        detail: version of a schema, or name of a bucket.
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


class OwnerNames(NamedTuple):
    """The names of an owner by level, such as topic and cursor. A name is None if its level has no name."""

    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner (such as a topic), from its znode: names, references, and a cursor's mark-delete position.

    An owner without a ledger has one reference with the id None, because the owner's existence matters.
    ``compression`` is how the value is compressed; None if values of this kind are never compressed.
    """

    names: OwnerNames
    references: tuple[Reference, ...]
    mark_delete: tuple[int, int] | None = None
    compression: str | None = None


Reader = Callable[[str, bytes], Owner | None]
"""Function that decodes an owner, from a path below the application's root and its value.

It returns None for a path that holds no reference. It raises DecodeError for a damaged value, and
ValueError for a path that the application does not use.
"""


@dataclass(frozen=True, slots=True)
class Application:
    """An application that keeps references to ledgers in znodes, or in keys of etcd or Oxia that are paths.

    ``trees`` are the paths below the application's root that contain references. The first tree exists
    wherever the application is used. ``reader`` names a `Reader` as ``module:function``.
    """

    trees: tuple[str, ...]
    reader: str

    def load_reader(self) -> Reader:
        """Import the module in ``reader``, and return the function."""
        module, _, function = self.reader.partition(":")
        reader: Reader = getattr(importlib.import_module(module), function)
        return reader


APPLICATIONS = {
    "pulsar": Application(
        ("managed-ledgers", "schemas", "pulsar/functions"), "auditor.sources.owners.pulsar:read_owner"
    )
}
"""Applications by their name in ``--owners``, which is also ``application`` in a ledger's custom metadata."""


@dataclass(frozen=True, slots=True)
class OwnersUri:
    """The location of an application's references: a store, and a path in the store.

    ``store`` is a metadata URI without its root. ``chroot`` is the path above the application's trees. It
    is empty if the trees are at the top.
    """

    application: str
    store: str
    chroot: str

    @property
    def text(self) -> str:
        """Return the URI in the form of ``--owners``."""
        if not self.chroot:
            return f"{self.application}:{self.store}"
        return f"{self.application}:{_with_root(self.store, self.chroot)}"

    def tree_uri(self, name: str) -> str:
        """Return the metadata URI of one of the application's trees.

        >>> OwnersUri("pulsar", "zk://h1:2181", "/east").tree_uri("schemas")
        'zk://h1:2181/east/schemas'
        >>> OwnersUri("pulsar", "dump:///a.jsonl", "").tree_uri("schemas")
        'dump:///a.jsonl?root=/schemas'
        >>> OwnersUri("pulsar", "metadata-store:oxia://o1:6648/broker", "").tree_uri("schemas")
        'metadata-store:oxia://o1:6648/broker?root=/schemas'
        """
        return _with_root(self.store, f"{self.chroot}/{name}")


def parse_owners_uri(text: str) -> OwnersUri:
    """Parse the value of ``--owners``.

    >>> parse_owners_uri("pulsar:zk://h1:2181/")
    OwnersUri(application='pulsar', store='zk://h1:2181', chroot='')

    Raises:
        UsageError: the application is unknown, or the URI is invalid.
    """
    require_utf8(text)
    application, _, uri = text.partition(":")
    if application not in APPLICATIONS:
        raise UsageError(
            f"{redact(text)!r}: must be APPLICATION:URI, such as pulsar:zk://host:2181; "
            f"known applications: {', '.join(APPLICATIONS)}"
        )
    scheme, _, location = uri.partition("://")
    store_location, _, query = location.partition("?")
    if scheme in SAVED_SCHEMES:
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        chroot = parameters.pop("root", "/")
        if parameters:
            raise UsageError(
                f"{redact(text)!r}: unknown parameter {min(parameters)!r}; pass only root=/chroot"
            )
        store = f"{scheme}://{store_location}"
    elif scheme == OXIA:
        chroot, store = "", uri.rstrip("/")  # the path is the namespace, and its root is fixed
    else:
        if query:
            raise UsageError(f"{redact(text)!r}: a live store takes no query; write the chroot as the path")
        authority, _, path = store_location.partition("/")
        chroot, store = f"/{path}", f"{scheme}://{authority}"
    owners = OwnersUri(application, store, chroot.rstrip("/"))
    for tree in APPLICATIONS[application].trees:
        parse_metadata_uri(owners.tree_uri(tree))
    return owners


OWNERS_SEPARATOR = "\n"
"""Separator of several ``--owners`` URIs in one text. Spaces cannot separate: paths may contain them."""


def parse_owners_uris(text: str) -> tuple[OwnersUri, ...]:
    """Parse several values of ``--owners``. A store that is named twice is returned once.

    >>> [owners.chroot for owners in parse_owners_uris("pulsar:zk://h1\\npulsar:zk://h1/east")]
    ['', '/east']

    Raises:
        UsageError: see `parse_owners_uri`.
    """
    return tuple(dict.fromkeys(parse_owners_uri(uri) for uri in text.split(OWNERS_SEPARATOR) if uri))


NONE_VALUE = "none"
"""Value of ``--owners`` that skips the search for owners."""


def named_stores(options: AuditOptions) -> tuple[OwnersUri, ...] | None:
    """Return the stores in the option ``--owners``, each once.

    The result is empty if the option is `NONE_VALUE`, and None if the option was not given.

    Raises:
        UsageError: a value names no application, its URI is invalid, or a store is named beside `NONE_VALUE`.
    """
    owner_texts = parse_texts(options.owners)
    if not owner_texts:
        return None
    if NONE_VALUE in owner_texts:
        if {*owner_texts} != {NONE_VALUE}:
            raise UsageError(f"--owners {NONE_VALUE}: excludes any other --owners; remove one of them")
        return ()
    return tuple(dict.fromkeys(parse_owners_uri(text) for text in owner_texts))


def declared_stores(options: AuditOptions) -> tuple[str, ...]:
    """Return the stores that the option ``--owners-complete`` names, in the form of `OwnersUri.text`.

    Raises:
        UsageError: a value names no known application, or its URI is invalid.
    """
    return tuple(dict.fromkeys(parse_owners_uri(text).text for text in parse_texts(options.owners_complete)))


def sibling_tree_uri(application: str, metadata: MetadataUri) -> OwnersUri:
    """Return the default location of an application's references: next to BookKeeper's root in its store.

    >>> metadata = parse_metadata_uri("zk+hierarchical://h1:2181;h2/east/ledgers")
    >>> sibling_tree_uri("pulsar", metadata).tree_uri("schemas")
    'zk://h1:2181,h2:2181/east/schemas'
    """
    store_location = quote(metadata.path) if metadata.path else ",".join(metadata.hosts)
    if metadata.scheme == OXIA:
        return OwnersUri(application, f"{OXIA}://{store_location}/{quote(metadata.namespace)}", "")
    scheme = metadata.scheme.removeprefix(METADATA_STORE)
    return OwnersUri(application, f"{scheme}://{store_location}", metadata.root.rpartition("/")[0])


def _with_root(store: str, root: str) -> str:
    scheme = store.partition("://")[0]
    if scheme == OXIA:
        return f"{store}{'&' if '?' in store else '?'}root={quote(root)}"
    return f"{store}?{SAVED_SCHEMES[scheme]}={quote(root)}" if scheme in SAVED_SCHEMES else f"{store}{root}"


OWNERS = make_schema(
    ("application", pa.string(), "application that refers to the ledger: pulsar"),
    ("store", pa.string(), "the store of owners that has the reference, in the form of --owners"),
    (
        "status",
        pa.string(),
        "ok, unreadable (the value), misplaced (not an owner's path) or gap (not listed)",
    ),
    ("path", pa.string(), "path of the owner's znode, or its key"),
    ("tenant", pa.string(), "tenant of the topic"),
    ("namespace", pa.string(), "namespace of the topic"),
    ("topic", pa.string(), "local name of the topic, with its partition or segment; or the name of a log"),
    ("cursor", pa.string(), "the subscription"),
    ("kind", pa.string(), "data, cursor, schema, compacted, delayed-bucket, log-segment or log-allocation"),
    ("ledger_id", pa.int64(), "the ledger; null: the owner refers to no ledger, or was not read"),
    ("place", pa.int64(), "position of the ledger in the topic's list, from 0"),
    ("list_size", pa.int64(), "number of ledgers in the topic's list"),
    ("entries", pa.int64(), "number of entries of a closed ledger, in the owner's record"),
    ("size", pa.int64(), "number of bytes of a closed ledger, in the owner's record"),
    ("timestamp", pa.int64(), "time when the ledger was closed, in the owner's record, ms"),
    (
        "offload",
        pa.string(),
        "state of the offload: incomplete, complete, or deleted (from BookKeeper); null: never offloaded",
    ),
    ("offload_uid", pa.string(), "UUID in the names of the offloaded objects"),
    ("offload_time", pa.int64(), "time when the offload was begun, or was completed, ms"),
    ("borrowed", pa.bool_(), "true: a shadow topic has the reference, and another topic owns the ledger"),
    ("stale", pa.bool_(), "whether a newer reference may be in the last entry of the cursor's ledger"),
    ("detail", pa.string(), "version of the schema, or name of the delayed-delivery bucket"),
    ("mark_delete_ledger_id", pa.int64(), "for a cursor: ledger of the acknowledged position in its znode"),
    ("mark_delete_entry_id", pa.int64(), "for a cursor: entry of the acknowledged position; -1: no entry"),
    ("compression", pa.string(), "compression of the value; none or null: the value is not compressed"),
    ("mzxid", pa.int64(), "transaction (ZooKeeper) or revision (etcd) of the last change of the value"),
    ("ctime", pa.int64(), "time when the znode was created, ms; null if the store keeps no times (etcd)"),
    ("mtime", pa.int64(), "time when the znode last changed, ms; null if the store keeps no times (etcd)"),
    ("damage", pa.string(), "why the owner could not be read"),
    ("damage_offset", pa.int64(), "byte of the value at which decoding failed"),
)

Row = tuple[Any, ...]
_NO_OWNER = Owner(OwnerNames(), ())
_NO_REFERENCE = Reference(None, None)  # type: ignore[arg-type]  # the kind of an unread reference is unknown


def owner_rows(batch: ZnodeBatch, owners: OwnersUri, reader: Reader) -> pa.RecordBatch:
    """Turn one batch of an application's znodes into rows of `OWNERS`, one for each reference."""
    rows = list(_rows(batch, (owners.application, owners.text), reader, len(owners.chroot) + 1))
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else ([] for _ in OWNERS)
    owner_columns = [pa.array(column, kind.type) for column, kind in zip(columns, OWNERS, strict=True)]
    return pa.RecordBatch.from_arrays(owner_columns, schema=OWNERS)


def _rows(batch: ZnodeBatch, source: tuple[str, str], reader: Reader, root_length: int) -> Iterator[Row]:
    znode_numbers = zip(batch.mzxid.tolist(), batch.ctime.tolist(), batch.mtime.tolist(), strict=True)
    for path, data, (mzxid, ctime, mtime) in zip(batch.paths, batch.data, znode_numbers, strict=True):
        znode_columns = (mzxid, _time_or_none(ctime), _time_or_none(mtime))
        try:
            owner = reader(path[root_length:], bytes(data))
        except DecodeError as error:
            yield _owner_row(
                source,
                "unreadable",
                path,
                _NO_OWNER,
                _NO_REFERENCE,
                (*znode_columns, str(error), error.offset),
            )
        except ValueError as error:
            if data:  # an unknown znode without a value refers to nothing
                yield _owner_row(
                    source, "misplaced", path, _NO_OWNER, _NO_REFERENCE, (*znode_columns, str(error), None)
                )
        else:
            if owner is not None:
                for reference in owner.references:
                    yield _owner_row(source, "ok", path, owner, reference, (*znode_columns, None, None))
    for path, reason in batch.gaps:
        yield _owner_row(source, "gap", path, _NO_OWNER, _NO_REFERENCE, (None, None, None, reason, None))


def _owner_row(
    source: tuple[str, str], status: str, path: str, owner: Owner, reference: Reference, znode_columns: Row
) -> Row:
    mark_delete_position = owner.mark_delete or (None, None)
    return (
        *source,
        status,
        path,
        *owner.names,
        *reference,
        *mark_delete_position,
        owner.compression,
        *znode_columns,
    )


def _time_or_none(time_ms: int) -> int | None:
    return None if time_ms == NO_TIME else time_ms
