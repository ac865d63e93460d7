"""The indexes of a generated cluster as the tables that ``bkaudit collect`` would write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.wire import expand
from auditor.collect.collect import collect
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.collections.tables import COMPRESSION, INDEX_SCHEMA, TAIL_SCHEMA
from auditor.tables.judge_replicas import groups_of
from benchmarks.cluster import INDEX_TIME_MS, Cluster, Longs, encode_groups
from benchmarks.cluster_disks import HeldLedgers, find_held_ledgers, write_bookies

_BATCH_ROWS = 500_000
_PAGE_BYTES = 1024
_HEX_OF_BYTE = pa.array([f"{byte:x}" for byte in range(256)])


def write_collection(
    cluster: Cluster, directory: Path, has_unflushed_entries: bool = False, asked_bookies: int = 0
) -> Path:
    """Write the collection (output of ``bkaudit collect``) of a cluster with index files.

    It has one file of availability rows per bookie. The function writes the bookies' directories without
    indexes and collects them. It then adds the rows that their index files would give.

    Args:
        cluster: The cluster to write.
        directory: The directory for the bookies and the collection.
        has_unflushed_entries: Whether to move an entry from the index to the journal on each bookie. It is
            the last entry of one ledger.
        asked_bookies: Number of bookies to leave out, from the first. `write_answers` writes their listings.

    Returns:
        The path of the collection.
    """
    directories = write_bookies(cluster, directory / "bookies")
    for bookie_directory in directories[:asked_bookies]:
        shutil.rmtree(bookie_directory.parent)
    collect_outcome = collect([str(directory / "bookies")], str(directory / "collected"))
    collection = Collection(collect_outcome.path)
    piece_by_directory = {
        row["path"]: row["piece"] for row in collection.read_rows("directories", collect_outcome.manifest)
    }
    files, journal_rows = [], []
    for bookie_number, (bookie_directory, bookie_ledgers) in enumerate(
        zip(directories, find_held_ledgers(cluster), strict=True)
    ):
        if bookie_number < asked_bookies:
            continue
        path = f"availability/bookie-{bookie_number:05}.parquet"
        output_file = Path(collection.base_path, path)
        collected_piece = piece_by_directory[str(bookie_directory)]
        with pq.ParquetWriter(
            output_file, INDEX_SCHEMA, compression=COMPRESSION, write_page_checksum=True
        ) as writer:
            rows = 0
            for batch in make_batches(
                bookie_ledgers, cluster.ids[bookie_number], str(bookie_directory), collected_piece
            ):
                if has_unflushed_entries and not rows:
                    batch, journal_row = _without_last_entry(batch, collected_piece)
                    journal_rows.append(journal_row)
                writer.write_batch(batch)
                rows += batch.num_rows
        files.append(CollectedFile(path, rows, output_file.stat().st_size))
    Path(collection.base_path, "availability", "part-00000.parquet").unlink()
    tables = {**collect_outcome.manifest.tables, "availability": tuple(files)}
    if journal_rows:
        path = "journal_tails/unflushed.parquet"
        pq.write_table(
            pa.Table.from_pylist(journal_rows, TAIL_SCHEMA),
            Path(collection.base_path, path),
            write_page_checksum=True,
        )
        size = Path(collection.base_path, path).stat().st_size
        tables["journal_tails"] = (*tables["journal_tails"], CollectedFile(path, len(journal_rows), size))
    collection.write_manifest(replace(collect_outcome.manifest, tables=tables))
    return Path(collection.path)


def write_answers(cluster: Cluster, directory: Path, asked_bookies: int) -> Path:
    """Write the answers table: the listings of the first ``asked_bookies`` bookies. Return its directory."""
    bookie_directory = directory / "answers"
    bookie_directory.mkdir()
    for bookie_number, bookie_ledgers in enumerate(find_held_ledgers(cluster)[:asked_bookies]):
        listed_ledgers = [
            held_ledgers for held_ledgers in bookie_ledgers if held_ledgers.ids is not bookie_ledgers[-1].ids
        ]  # an audit does not ask about orphans
        rows = pa.Table.from_batches(
            make_batches(listed_ledgers, cluster.ids[bookie_number], "", ""), INDEX_SCHEMA
        )
        constant_columns = {
            "storage": "rpc",
            "answered": INDEX_TIME_MS,
            "path": None,
            "page_bytes": None,
            "mtime": None,
        }
        for name, column_value in constant_columns.items():
            field = SCHEMA.field(name)
            column = pa.repeat(pa.scalar(column_value, field.type), rows.num_rows)
            rows = rows.set_column(rows.schema.get_field_index(name), field, column)
        pq.write_table(rows.select(SCHEMA.names), bookie_directory / f"part-{bookie_number}.parquet")
    return bookie_directory


def _without_last_entry(batch: pa.RecordBatch, collected_piece: str) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Move the last entry of the first ledger out of the rows, into a new row for the journal.

    Returns the changed rows and the journal row, whose column ``piece`` has the value ``collected_piece``.
    """
    entries = expand(groups_of(batch.column("groups")[0].as_py())).tolist()
    index_groups, journal_groups = (
        fold_entries(np.array(entry_ids, np.int64), np.array([0, len(entry_ids)])).tobytes()
        for entry_ids in (entries[:-1], entries[-1:])
    )
    groups_column = batch.schema.get_field_index("groups")
    new_groups = pa.concat_arrays([pa.array([index_groups], pa.binary()), batch.column(groups_column)[1:]])
    replica_key = {name: batch.column(name)[0].as_py() for name in ("scope_id", "ledger_id", "bookie_id")}
    row = {**replica_key, "groups": journal_groups, "state": "ok", "piece": collected_piece}
    return batch.set_column(groups_column, batch.schema.field(groups_column), new_groups), row


def make_batches(
    bookie_ledgers: list[HeldLedgers], bookie: str, bookie_directory: str, collected_piece: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one bookie's index files as a collection stores them.

    ``bookie_directory`` is the index directory. ``collected_piece`` is the value of the column ``piece``.
    """
    for held_ledgers in bookie_ledgers:
        column_value = encode_groups(held_ledgers.shape, held_ledgers.bookie_offset)
        for start in range(0, len(held_ledgers.ids), _BATCH_ROWS):
            ids = held_ledgers.ids[start : start + _BATCH_ROWS]
            count = len(ids)
            columns = {
                "bookie_id": pa.repeat(bookie, count),
                "scope_id": pa.repeat(pa.scalar(0, pa.int64()), count),
                "ledger_id": pa.array(ids),
                "groups": pa.repeat(pa.scalar(column_value, pa.binary()), count),
                "state": pa.repeat("ok", count),
                "path": _make_index_paths(f"{bookie_directory}/current", ids),
                "page_bytes": pa.repeat(pa.scalar(_PAGE_BYTES, pa.int64()), count),
                "mtime": pa.repeat(pa.scalar(INDEX_TIME_MS, pa.int64()), count),
                "storage": pa.repeat("idx", count),
                "piece": pa.repeat(collected_piece, count),
            }
            yield pa.RecordBatch.from_arrays(
                [
                    columns.get(field.name, pa.nulls(count, field.type)).cast(field.type)
                    for field in INDEX_SCHEMA
                ],
                schema=INDEX_SCHEMA,
            )


def _make_index_paths(current_path: str, ids: Longs) -> pa.Array:
    """Return the index file paths of many ledger ids at once (as `auditor.keys.index_path` builds them)."""
    high_byte, low_byte = (_HEX_OF_BYTE.take(pa.array(ids >> bit_shift & 0xFF)) for bit_shift in (8, 0))
    names = pa.array([f"{ledger:x}.idx" for ledger in ids.tolist()])
    folder = pa.scalar(current_path)
    return pc.binary_join_element_wise(folder, high_byte, low_byte, names, "/")
