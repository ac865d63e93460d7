"""A reader for the tables ``availability`` of collections. It adds to each row the bookie that owns the row.

A collection is the state of bookies' directories, for an audit elsewhere. A place is the directory or
inventory entry in which one bookie's directories were given. Its VERSION files may name several bookies.
The index directories of a place whose VERSION files name the same bookie form a piece
(`auditor.sources.bookies.collections.tables`). A row belongs to the bookie that owns its piece. The reader
runs in Spark tasks. Every task must reach a collection by the same path or URI as the driver. Columns with
few distinct values are dictionary-encoded in the collection's file. They stay encoded in the table that the
audit writes.
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

from auditor.sources.bookies.availability import MAX_BATCH_ROWS, SCHEMA
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.file_systems import require_file
from auditor.spark.table_files import read_row_groups

_DICTIONARY_COLUMNS = ("bookie_id", "groups", "state", "reason", "storage", "piece")
_MAX_SHARE_BYTES = 64 << 20


class RowGroupShare(NamedTuple):
    """A share of a file: every ``share_count``-th row group, starting with row group ``first_row_group``."""

    file_system: fs.FileSystem
    path: str
    first_row_group: int
    share_count: int


def index_bytes(collections: Sequence[tuple[Collection, CollectionManifest]]) -> int:
    """Return the total size, in bytes, of the files of the table ``availability`` in all collections."""
    return sum(file.bytes for _, manifest in collections for file in manifest.tables["availability"])


def make_shares(
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_by_piece_id: Mapping[str, PieceOwner],
    task_count: int,
) -> list[tuple[RowGroupShare, ...]]:
    """Divide the ``availability`` files of collections into about ``task_count`` groups of similar size.

    A large file is divided into several shares. Sizes are in bytes. A piece is the index directories of one
    bookie in a place. A collection is left out if ``owner_by_piece_id`` contains none of its pieces.
    """
    owned_collection_ids = {piece_id.rpartition(":")[0] for piece_id in owner_by_piece_id}
    shares_with_size = []
    for collection, manifest in collections:
        for file in manifest.tables["availability"] if manifest.id in owned_collection_ids else ():
            share_count = max(1, -(-file.bytes // _MAX_SHARE_BYTES))
            shares_with_size += [
                (
                    RowGroupShare(
                        collection.files, f"{collection.base_path}/{file.path}", first_row_group, share_count
                    ),
                    file.bytes / share_count,
                )
                for first_row_group in range(share_count)
            ]
    group_target_bytes = sum(share_bytes for _, share_bytes in shares_with_size) / max(1, task_count)
    share_groups: list[tuple[RowGroupShare, ...]] = []
    share_group, group_bytes = [], 0.0
    for share, share_bytes in shares_with_size:
        share_group.append(share)
        group_bytes += share_bytes
        if group_bytes >= group_target_bytes:
            share_groups.append(tuple(share_group))
            share_group, group_bytes = [], 0.0
    return [*share_groups, tuple(share_group)] if share_group else share_groups


@dataclass(frozen=True)
class CopiedRowsReader:
    """A reader for Spark tasks. It reads a group of file shares (`make_shares`) as ``availability`` rows."""

    owner_by_piece_id: Mapping[str, PieceOwner]

    def read(self, share_group: Sequence[RowGroupShare]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group of file shares, each with the bookie that it belongs to.

        A row has a piece: index directories in a place that name the same bookie. The row is left out if its
        piece has no `PieceOwner`, or if its own directory is not in the ``owned_paths`` of this owner.

        Raises:
            OSError: a page of a file changed since it was written.
        """
        for share in share_group:
            require_file(share.file_system, share.path)
            file_columns = pq.read_schema(share.path, filesystem=share.file_system).names
            column_names = [name for name in (*SCHEMA.names, "piece") if name in file_columns]
            row_groups = slice(share.first_row_group, None, share.share_count)
            for row_group_table in read_row_groups(
                partial(_open_parquet, share), row_groups, column_names, _DICTIONARY_COLUMNS, MAX_BATCH_ROWS
            ):
                for batch in row_group_table.unify_dictionaries().combine_chunks().to_batches():
                    yield self._with_owner(batch)

    def _with_owner(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        piece_column = batch.column("piece")
        owners = [self.owner_by_piece_id.get(piece_id) for piece_id in piece_column.dictionary.to_pylist()]
        owner_codes = piece_column.indices.fill_null(len(owners)).to_numpy()
        is_owned = np.zeros(batch.num_rows, bool)
        for owner_code in np.unique(owner_codes).tolist():
            owner = owners[owner_code] if owner_code < len(owners) else None
            if owner is not None:
                is_owned |= (owner_codes == owner_code) & _is_in_directories(
                    batch.column("path"), owner.owned_paths
                )
        owner_names = pa.array([owner.bookie_id if owner else None for owner in owners], pa.string())
        columns = {name: batch.column(name) for name in batch.schema.names} | {
            "bookie_id": pa.DictionaryArray.from_arrays(
                pa.array(owner_codes, pa.int32(), mask=~is_owned), owner_names
            ),
            # A stamp is valid only on the host of its file.
            "stamp": pa.nulls(batch.num_rows, pa.int64()),
            "reused": pa.repeat(False, batch.num_rows),
        }
        rows = pa.RecordBatch.from_arrays(
            [columns.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in SCHEMA],
            names=SCHEMA.names,
        )
        return rows if is_owned.all() else rows.filter(pa.array(is_owned))


def _open_parquet(share: RowGroupShare, dictionary_columns: Sequence[str]) -> pq.ParquetFile:
    require_file(share.file_system, share.path)
    return pq.ParquetFile(
        share.path,
        page_checksum_verification=True,
        read_dictionary=list(dictionary_columns),
        pre_buffer=False,
        filesystem=share.file_system,
    )


def _is_in_directories(paths: pa.Array, directories: Sequence[str]) -> NDArray[np.bool_]:
    """Return a mask of the paths that are equal to one of ``directories`` or below one of them."""
    is_in_owned_directory = np.zeros(len(paths), bool)
    for owned_directory in directories:
        is_in_directory = pc.or_(
            pc.starts_with(paths, f"{owned_directory}/"), pc.equal(paths, owned_directory)
        )
        is_in_owned_directory |= is_in_directory.fill_null(False).to_numpy(zero_copy_only=False)
    return is_in_owned_directory
