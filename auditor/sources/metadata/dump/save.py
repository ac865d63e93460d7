"""A running store saved as a dump that says how it begins and ends (`auditor.sources.metadata.dump.records`).

The file is made beside its place under another name, for its owner's eyes alone, and has its own name when it
is whole: a dump that was broken off is not there. A name that ends with .gz or .zst is packed.

All keys of an etcd are of one revision. ZooKeeper and Oxia have no moment to read all at: what is made or
deleted meanwhile is in the dump or is not, and a znode below which something vanished and came again is said
not to be read. Clients are imported when they are needed.
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
from auditor.errors import UsageError, named_target
from auditor.keys import etcd
from auditor.sources.metadata.dump.records import UNREAD, first_line, last_line, line_of, unread_record
from auditor.sources.metadata.dump.store import key_record, oxia_record, znode_record
from auditor.sources.metadata.etcd.key_ranges import is_ledger
from auditor.sources.metadata.saved_files import GZIP, ZSTD
from auditor.sources.metadata.store import StoreOptions, Tree, tree_of
from auditor.sources.metadata.stores import check_reachable
from auditor.sources.metadata.uri import OXIA, PATHS_ETCD, MetadataUri

Record = dict[str, Any]


@dataclass(frozen=True)
class SaveRequest:
    """What is to be saved of a store: its root, and the trees beside it that are there, its ``siblings``.

    ``passwords`` false: ledger metadata loses its passwords on the way.
    """

    uri: MetadataUri
    siblings: tuple[str, ...]
    passwords: bool
    options: StoreOptions

    @property
    def trees(self) -> tuple[str, ...]:
        """The absolute paths beside the root."""
        above = self.uri.root.rpartition("/")[0]
        return tuple(f"{above}/{name}" for name in self.siblings)


@dataclass(frozen=True)
class StoreRecords:
    """A store that is being read: ``time`` is when that began, in ms, and the records come in batches.

    A record with a reason (`auditor.sources.metadata.dump.records.unread_record`) is what could not be read.
    """

    time: int
    batches: Iterator[list[Record]]


class Reader(Protocol):
    """Begins to read a store."""

    def __call__(self, request: SaveRequest) -> StoreRecords:
        """Connect, find the root, and go on as the batches are taken.

        Raises:
            StoreError: the store cannot be reached, or has no such root; from the batches too.
        """


PACKINGS = {".gz": GZIP, ".zst": ZSTD}

SHOWN_GAPS = 10


class DumpSummary(NamedTuple):
    """What is in a dump: its records, and how many of them stand for what could not be read.

    ``gaps`` are the first `SHOWN_GAPS` of these, as (path, reason).
    """

    records: int
    unread: int
    gaps: list[tuple[str, str]]


def save(
    request: SaveRequest, out: BinaryIO, progress: Callable[[int], object] = lambda records: None
) -> DumpSummary:
    """Write a dump to an open file; ``progress`` is given the number of records now and then.

    Raises:
        UsageError: the store is a saved one.
        StoreError: it cannot be read.
    """
    if request.uri.scheme not in READERS:
        raise UsageError(
            f"{request.uri}: it is saved already; a dump is made of zk://, etcd:// and metadata-store:oxia://"
        )
    check_reachable(request.uri, request.options)
    saving = READERS[request.uri.scheme](request)
    out.write(first_line(saving.time))
    records = unread = 0
    gaps: list[tuple[str, str]] = []
    for batch in saving.batches:
        out.write(b"".join(map(line_of, batch)))
        records += len(batch)
        missed = [(record["path"], record[UNREAD]) for record in batch if UNREAD in record]
        unread += len(missed)
        gaps += missed[: SHOWN_GAPS - len(gaps)]
        progress(records)
    out.write(last_line(records))
    return DumpSummary(records, unread, gaps)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is at ``path`` once the block has ended, and not at all where it did not end well.

    Raises:
        UsageError: there is something at ``path``, or no directory that it could lie in.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: there is no such directory; make it, or name another FILE")
    if path.exists() or path.is_symlink():  # a link to nowhere, which would be written over
        raise UsageError(f"{path}: it is there already, and is not written over")
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with (
            named_target(path),
            os.fdopen(descriptor, "wb") as plain,
            _open_packing(plain, PACKINGS.get(path.suffix)) as file,
        ):
            yield file
        Path(unfinished).replace(path)
    finally:
        Path(unfinished).unlink(missing_ok=True)


@contextmanager
def _open_packing(plain: BinaryIO, packing: str | None) -> Iterator[BinaryIO]:
    if packing is None:
        yield plain
        return
    with pa.CompressedOutputStream(plain, packing) as file:
        yield cast(BinaryIO, file)


def read_zookeeper(request: SaveRequest) -> StoreRecords:
    """See `Reader`."""
    from auditor.sources.metadata.zookeeper.live import ZooKeeperStore

    with closing(ZooKeeperStore(request.uri, request.options)) as store:
        # It says in its own words what is wrong with hosts, rights or the root.
        return StoreRecords(store.cluster().scan_time, _znode_batches(request))


def _znode_batches(request: SaveRequest) -> Iterator[list[Record]]:
    from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
    from auditor.sources.metadata.zookeeper.tree import Top, walk

    root = request.uri.root
    with closing(ZooKeeperReader(request.uri.hosts, request.options, probe=root)) as reader:
        present_trees = [
            tree
            for tree, answer in zip(request.trees, reader.data(request.trees), strict=True)
            if not (isinstance(answer, FailedRead) and answer.code == NO_NODE)
        ]
        # A walk takes the last top first.
        for znodes, gaps in walk(reader, [Top(path) for path in reversed([root, *present_trees])]):
            records = [
                znode_record(znode._replace(data=_data_to_save(znode.path, znode.data, request)))
                for znode in znodes
            ]
            yield records + [unread_record(*gap) for gap in gaps]


def _data_to_save(path: str, data: bytes, request: SaveRequest) -> bytes:
    if request.passwords or not data or not _is_ledger(path, request.uri):
        return data
    return without_password(data)


def _is_ledger(path: str, parsed: MetadataUri) -> bool:
    if parsed.scheme == "etcd":
        return is_ledger(parsed.root, path)
    return path.startswith(f"{parsed.root}/") and tree_of(path[len(parsed.root) + 1 :]) is Tree.LEDGERS


def read_etcd(request: SaveRequest) -> StoreRecords:
    """See `Reader`."""
    from auditor.sources.metadata.etcd.live import EtcdStore, PathEtcdStore

    kind = PathEtcdStore if request.uri.scheme == PATHS_ETCD else EtcdStore
    with closing(kind(request.uri, request.options)) as store:
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
            above, _, name = tree.rpartition("/")
            key = etcd.key_bytes(tree)
            for start, end in ((key, key + b"\0"), etcd.children(above, name)):
                for page in pages.read(start, end, revision):
                    records = [
                        key_record(key, _data_to_save(etcd.key_text(key), data, request), *numbers)
                        for key, data, *numbers in zip(*page.keys, strict=True)
                    ]
                    yield records + [unread_record(*gap) for gap in page.gaps]


def read_oxia(request: SaveRequest) -> StoreRecords:
    """See `Reader`."""
    from auditor.sources.metadata.oxia.live import OxiaStore

    with closing(OxiaStore(request.uri, request.options)) as store:
        return StoreRecords(store.cluster().scan_time, _oxia_batches(request))


def _oxia_batches(request: SaveRequest) -> Iterator[list[Record]]:
    from auditor.sources.metadata.oxia.live import OxiaStore

    with closing(OxiaStore(request.uri, request.options)) as store:
        for tree in (request.uri.root, *request.trees):
            for znodes, gaps in store.read_whole(tree):
                records = [
                    oxia_record(znode._replace(data=_data_to_save(znode.path, znode.data, request)))
                    for znode in znodes
                ]
                yield records + [unread_record(*gap) for gap in gaps]


READERS: Mapping[str, Reader] = {
    "zk": read_zookeeper,
    "etcd": read_etcd,
    PATHS_ETCD: read_etcd,
    OXIA: read_oxia,
}
"""By the scheme of the store; what is not here is saved already."""
