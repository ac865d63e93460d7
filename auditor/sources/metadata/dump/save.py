"""Save a running store as a dump with a first and a last line (`auditor.sources.metadata.dump.records`).

The dump is written to a temporary file in the target directory. Only the owner of this file can read it.
When the dump is complete, the file is renamed. So an interrupted dump leaves no file behind. If the name of
the dump ends with .gz or .zst, the dump is packed.

The dump of an etcd contains all keys at one revision. ZooKeeper and Oxia cannot read everything at one
moment. So the dump may or may not contain a znode that is created or deleted while the dump is made. If an
inner znode of ZooKeeper vanishes and reappears during this time, the dump records it as not read. Functions
import the client packages only when they need them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import pyarrow as pa

from auditor.codecs.ledger_metadata.one import without_password
from auditor.errors import UsageError, name_file_in_errors
from auditor.keys import etcd
from auditor.sources.metadata.dump.records import (
    UNREAD_FIELD,
    encode_first_line,
    encode_last_line,
    encode_line,
    unread_record,
)
from auditor.sources.metadata.dump.store import key_record, oxia_record, znode_record
from auditor.sources.metadata.etcd.key_ranges import is_ledger
from auditor.sources.metadata.saved_files import GZIP, ZSTD
from auditor.sources.metadata.store import StoreOptions, Tree, tree_of
from auditor.sources.metadata.stores import check_reachable
from auditor.sources.metadata.uri import ETCD_WITH_PATH_KEYS, OXIA, MetadataUri

Record = dict[str, Any]


@dataclass(frozen=True)
class SaveRequest:
    """The content of a store to save: the cluster's root, and the existing trees with the same parent.

    ``sibling_trees`` has the names of these trees. If ``keeps_passwords`` is False, the passwords are removed
    from ledger metadata.
    """

    uri: MetadataUri
    sibling_trees: tuple[str, ...]
    keeps_passwords: bool
    options: StoreOptions

    @property
    def trees(self) -> tuple[str, ...]:
        """Return the absolute paths of the trees in ``sibling_trees``."""
        parent_path = self.uri.root.rpartition("/")[0]
        return tuple(f"{parent_path}/{name}" for name in self.sibling_trees)


@dataclass(frozen=True)
class StoreRecords:
    """The records of a store in batches, and the time when reading them began, in ms.

    If a place could not be read, its record contains the reason
    (`auditor.sources.metadata.dump.records.unread_record`).
    """

    time: int
    batches: Iterator[list[Record]]


class RecordReader(Protocol):
    """A function that starts to read the records of a store."""

    def __call__(self, request: SaveRequest) -> StoreRecords:
        """Connect to the store, find the root, and return the records.

        The records are read while the caller iterates over the batches.

        Raises:
            StoreError: the store cannot be reached, or has no such root. Iterating over the batches can
                raise this error too.
        """


COMPRESSIONS_BY_SUFFIX = {".gz": GZIP, ".zst": ZSTD}

MAX_SHOWN_GAPS = 10


class DumpSummary(NamedTuple):
    """The number of all records in a dump, and the number of records for places that were not read.

    ``gaps`` has the first `MAX_SHOWN_GAPS` of these places, as pairs (path, reason).
    """

    records: int
    unread_count: int
    gaps: list[tuple[str, str]]


def save(
    request: SaveRequest, dump_file: BinaryIO, progress: Callable[[int], object] = lambda records: None
) -> DumpSummary:
    """Write a dump to an open file.

    Args:
        request: the content to save.
        dump_file: the file to write to.
        progress: function that is called after each batch with the number of records written so far.

    Raises:
        UsageError: the store is already a saved one.
        StoreError: the store cannot be read.
    """
    if request.uri.scheme not in READER_BY_SCHEME:
        raise UsageError(
            f"{request.uri}: already saved; a dump needs a running store: zk://, etcd:// or metadata-store:oxia://"
        )
    check_reachable(request.uri, request.options)
    store_records = READER_BY_SCHEME[request.uri.scheme](request)
    dump_file.write(encode_first_line(store_records.time))
    records = unread_count = 0
    gaps: list[tuple[str, str]] = []
    for batch in store_records.batches:
        dump_file.write(b"".join(map(encode_line, batch)))
        records += len(batch)
        unread_gaps = [(record["path"], record[UNREAD_FIELD]) for record in batch if UNREAD_FIELD in record]
        unread_count += len(unread_gaps)
        gaps += unread_gaps[: MAX_SHOWN_GAPS - len(gaps)]
        progress(records)
    dump_file.write(encode_last_line(records))
    return DumpSummary(records, unread_count, gaps)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file that appears at ``path`` only if the ``with`` block ends without an error.

    Raises:
        UsageError: ``path`` exists already, or its directory does not exist.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such directory; create it, or choose another FILE")
    if path.exists() or path.is_symlink():  # a dangling link, which would be overwritten
        raise UsageError(f"{path}: already exists and is not overwritten; choose another FILE")
    descriptor, temporary_path = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with (
            name_file_in_errors(path),
            os.fdopen(descriptor, "wb") as unpacked_file,
            _open_compressed(unpacked_file, COMPRESSIONS_BY_SUFFIX.get(path.suffix)) as file,
        ):
            yield file
        Path(temporary_path).replace(path)
    finally:
        Path(temporary_path).unlink(missing_ok=True)


@contextmanager
def _open_compressed(unpacked_file: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    if compression is None:
        yield unpacked_file
        return
    with pa.CompressedOutputStream(unpacked_file, compression) as file:
        yield cast(BinaryIO, file)


def read_zookeeper(request: SaveRequest) -> StoreRecords:
    """Read a running ZooKeeper; see `RecordReader`."""
    from auditor.sources.metadata.zookeeper.live import ZooKeeperStore

    with closing(ZooKeeperStore(request.uri, request.options)) as store:
        # Raises the right error for wrong hosts, permissions or root.
        return StoreRecords(store.cluster().scan_time, _znode_batches(request))


def _znode_batches(request: SaveRequest) -> Iterator[list[Record]]:
    from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
    from auditor.sources.metadata.zookeeper.tree import TopZnode, walk

    root = request.uri.root
    with closing(ZooKeeperReader(request.uri.hosts, request.options, probe_path=root)) as znode_reader:
        present_trees = [
            tree
            for tree, tree_answer in zip(request.trees, znode_reader.data(request.trees), strict=True)
            if not (isinstance(tree_answer, FailedRead) and tree_answer.code == NO_NODE)
        ]
        # `walk` reads the last top first.
        for znodes, gaps in walk(znode_reader, [TopZnode(path) for path in reversed([root, *present_trees])]):
            records = [
                znode_record(znode._replace(data=_remove_passwords(znode.path, znode.data, request)))
                for znode in znodes
            ]
            yield records + [unread_record(*unread_gap) for unread_gap in gaps]


def _remove_passwords(path: str, data: bytes, request: SaveRequest) -> bytes:
    if request.keeps_passwords or not data or not _is_ledger(path, request.uri):
        return data
    return without_password(data)


def _is_ledger(path: str, metadata_uri: MetadataUri) -> bool:
    if metadata_uri.scheme == "etcd":
        return is_ledger(metadata_uri.root, path)
    return (
        path.startswith(f"{metadata_uri.root}/")
        and tree_of(path[len(metadata_uri.root) + 1 :]) is Tree.LEDGERS
    )


def read_etcd(request: SaveRequest) -> StoreRecords:
    """Read a running etcd; see `RecordReader`."""
    from auditor.sources.metadata.etcd.live import EtcdStore, PathEtcdStore

    store_class = PathEtcdStore if request.uri.scheme == ETCD_WITH_PATH_KEYS else EtcdStore
    with closing(store_class(request.uri, request.options)) as store:
        cluster = store.cluster()
    assert cluster.revision is not None
    return StoreRecords(cluster.scan_time, _key_batches(request, cluster.revision))


def _key_batches(request: SaveRequest, revision: int) -> Iterator[list[Record]]:
    from auditor.sources.metadata.etcd.client import EtcdClient
    from auditor.sources.metadata.etcd.pages import EtcdPages

    root = request.uri.root
    with closing(EtcdClient(request.uri.hosts, request.options)) as client:
        pages = EtcdPages(client, request.options)
        for tree in (root, *request.trees):
            parent_path, _, name = tree.rpartition("/")
            key = etcd.key_bytes(tree)
            for start_key, end_key in ((key, key + b"\0"), etcd.children(parent_path, name)):
                for page in pages.read(start_key, end_key, revision):
                    records = [
                        key_record(key, _remove_passwords(etcd.key_text(key), data, request), *key_numbers)
                        for key, data, *key_numbers in zip(*page.keys, strict=True)
                    ]
                    yield records + [unread_record(*unread_gap) for unread_gap in page.gaps]


def read_oxia(request: SaveRequest) -> StoreRecords:
    """Read a running Oxia; see `RecordReader`."""
    from auditor.sources.metadata.oxia.live import OxiaStore

    with closing(OxiaStore(request.uri, request.options)) as store:
        return StoreRecords(store.cluster().scan_time, _oxia_batches(request))


def _oxia_batches(request: SaveRequest) -> Iterator[list[Record]]:
    from auditor.sources.metadata.oxia.live import OxiaStore

    with closing(OxiaStore(request.uri, request.options)) as store:
        for tree in (request.uri.root, *request.trees):
            for znodes, gaps in store.read_subtree(tree):
                records = [
                    oxia_record(znode._replace(data=_remove_passwords(znode.path, znode.data, request)))
                    for znode in znodes
                ]
                yield records + [unread_record(*unread_gap) for unread_gap in gaps]


READER_BY_SCHEME: Mapping[str, RecordReader] = {
    "zk": read_zookeeper,
    "etcd": read_etcd,
    ETCD_WITH_PATH_KEYS: read_etcd,
    OXIA: read_oxia,
}
"""Readers by the scheme of the metadata URI. Schemes of saved stores are not in this mapping."""
