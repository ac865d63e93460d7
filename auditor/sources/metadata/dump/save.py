"""A running store saved as a dump that says how it begins and ends (`auditor.sources.metadata.dump.records`).

The file is made beside its place under another name, for its owner's eyes alone, and has its own name when it
is whole: a dump that was broken off is not there. A name that ends with .gz or .zst is packed.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import pyarrow as pa

from auditor.errors import UsageError
from auditor.sources.metadata.dump.records import UNREAD, first_line, last_line, line_of
from auditor.sources.metadata.packed_file import GZIP, ZSTD
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import check_reachable
from auditor.sources.metadata.uri import PATHS_ETCD, MetadataUri

Record = dict[str, Any]


@dataclass(frozen=True)
class SaveRequest:
    """What is to be saved of a store: its root, and the trees ``beside`` it that are there.

    ``passwords`` false: ledger metadata loses its passwords on the way.
    """

    uri: MetadataUri
    beside: tuple[str, ...]
    passwords: bool
    options: StoreOptions

    @property
    def trees(self) -> tuple[str, ...]:
        """The absolute paths beside the root."""
        above = self.uri.root.rpartition("/")[0]
        return tuple(f"{above}/{name}" for name in self.beside)


@dataclass(frozen=True)
class StoreRecords:
    """A store that is being read: ``time`` is when that began, in ms, and the records come in batches.

    A record with a reason (`auditor.sources.metadata.dump.records.unread_record`) is what could not be read.
    """

    time: int
    batches: Iterator[list[Record]]


class Reader(Protocol):
    """Begins to read a store."""

    def __call__(self, wanted: SaveRequest) -> StoreRecords:
        """Connect, find the root, and go on as the batches are taken.

        Raises:
            StoreError: the store cannot be reached, or has no such root; from the batches too.
        """


READERS = {
    "zk": "auditor.sources.metadata.dump.save_zookeeper:read_zookeeper",
    "etcd": "auditor.sources.metadata.dump.save_etcd:read_etcd",
    PATHS_ETCD: "auditor.sources.metadata.dump.save_etcd:read_etcd",
}
"""By the scheme of the store, as ``module:function``; what is not here is saved already."""

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
    wanted: SaveRequest, out: BinaryIO, progress: Callable[[int], object] = lambda records: None
) -> DumpSummary:
    """Write a dump to an open file; ``progress`` is given the number of records now and then.

    Raises:
        UsageError: the store is a saved one.
        StoreError: it cannot be read.
    """
    if wanted.uri.scheme not in READERS:
        raise UsageError(f"{wanted.uri}: it is saved already; a dump is made of zk:// and etcd://")
    check_reachable(wanted.uri, wanted.options)
    module, _, name = READERS[wanted.uri.scheme].partition(":")
    reader: Reader = getattr(importlib.import_module(module), name)
    saving = reader(wanted)
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
    if path.exists():
        raise UsageError(f"{path}: it is there already, and is not written over")
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as plain, _open_packing(plain, PACKINGS.get(path.suffix)) as file:
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
