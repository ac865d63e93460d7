"""The table ``availability`` of collections, read by tasks: each row under the bookie that its piece is of.

A collection lies where every task sees it as the driver does, at a path or in an object store. Columns with
few values stay the codes that they are in the file, from it to the table that is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.sources.bookies.availability import ROWS, SCHEMA
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.file_systems import require_file
from auditor.spark.batches import read_bounded

_CODED = ("bookie_id", "groups", "state", "reason", "storage", "piece")
_SHARE_BYTES = 64 << 20


class Share(NamedTuple):
    """Every ``of``-th row group of a file, on a file system, from number ``number`` on."""

    system: fs.FileSystem
    path: str
    number: int
    of: int


def copied_bytes(collections: Sequence[tuple[Collection, CollectionManifest]]) -> int:
    """Bytes of all files of which rows are copied."""
    return sum(file.bytes for _, manifest in collections for file in manifest.tables["availability"])


def shares(
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_of_piece: Mapping[str, PieceOwner],
    wanted: int,
) -> list[tuple[Share, ...]]:
    """What is to be read, in about ``wanted`` lots of as many bytes; large files are cut."""
    owned = {piece.rpartition(":")[0] for piece in owner_of_piece}
    found = []
    for collection, manifest in collections:
        for file in manifest.tables["availability"] if manifest.id in owned else ():
            of = max(1, -(-file.bytes // _SHARE_BYTES))
            found += [
                (Share(collection.files, f"{collection.base}/{file.path}", number, of), file.bytes / of)
                for number in range(of)
            ]
    least = sum(size for _, size in found) / max(1, wanted)
    lots: list[tuple[Share, ...]] = []
    lot, full = [], 0.0
    for share, size in found:
        lot.append(share)
        full += size
        if full >= least:
            lots.append(tuple(lot))
            lot, full = [], 0.0
    return [*lots, tuple(lot)] if lot else lots


@dataclass(frozen=True)
class CopiedRows:
    """Reads lots of `shares` as rows of ``availability``; it travels to the tasks."""

    owner_of_piece: Mapping[str, PieceOwner]

    def read(self, lot: Sequence[Share]) -> Iterator[pa.RecordBatch]:
        """The rows of directories that count; OSError for a page that was changed since it was written."""
        for share in lot:
            require_file(share.system, share.path)
            names = pq.read_schema(share.path, filesystem=share.system).names
            there = [name for name in (*SCHEMA.names, "piece") if name in names]
            own = slice(share.number, None, share.of)
            for rows in read_bounded(partial(_open, share), own, there, _CODED, ROWS):
                for batch in rows.unify_dictionaries().combine_chunks().to_batches():
                    yield self._of_owners(batch)

    def _of_owners(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        piece = batch.column("piece")
        owners = [self.owner_of_piece.get(each) for each in piece.dictionary.to_pylist()]
        codes = piece.indices.fill_null(len(owners)).to_numpy()
        mine = np.zeros(batch.num_rows, bool)
        for code in np.unique(codes).tolist():
            owner = owners[code] if code < len(owners) else None
            if owner is not None:
                mine |= (codes == code) & _below(batch.column("path"), owner.roots)
        names = pa.array([owner.bookie_id if owner else None for owner in owners], pa.string())
        columns = {name: batch.column(name) for name in batch.schema.names} | {
            "bookie_id": pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=~mine), names),
            # A stamp is of a file on the host that collected it: here it says nothing.
            "stamp": pa.nulls(batch.num_rows, pa.int64()),
            "reused": pa.repeat(False, batch.num_rows),
        }
        rows = pa.RecordBatch.from_arrays(
            [columns.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in SCHEMA],
            names=SCHEMA.names,
        )
        return rows if mine.all() else rows.filter(pa.array(mine))


def _open(share: Share, coded: Sequence[str]) -> pq.ParquetFile:
    require_file(share.system, share.path)
    return pq.ParquetFile(
        share.path,
        page_checksum_verification=True,
        read_dictionary=list(coded),
        pre_buffer=False,
        filesystem=share.system,
    )


def _below(paths: pa.Array, roots: Sequence[str]) -> NDArray[np.bool_]:
    """Which paths are one of the directories, or below one."""
    found = np.zeros(len(paths), bool)
    for root in roots:
        there = pc.or_(pc.starts_with(paths, f"{root}/"), pc.equal(paths, root))
        found |= there.fill_null(False).to_numpy(zero_copy_only=False)
    return found
