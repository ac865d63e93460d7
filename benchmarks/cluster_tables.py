"""A cluster's indexes as collected tables: what `bkaudit collect` would have written beside its bookies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from auditor.collect.collect import collect
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.collections.writer import AVAILABILITY, COMPRESSION
from benchmarks.cluster import INDEX_MS, Cluster, Longs, groups
from benchmarks.cluster_disks import Holding, holdings, write_bookies

_ROWS = 500_000
_PAGE_BYTES = 1024
_OCTETS = pa.array([f"{octet:x}" for octet in range(256)])


def write_collection(cluster: Cluster, directory: Path) -> Path:
    """Write the collection of a cluster with index files, one file of availability a bookie; returns it.

    The bookies' directories are made and collected without any index; then come the rows that their index
    files would give.
    """
    directories = write_bookies(cluster, directory / "bookies")
    made = collect([str(directory / "bookies")], str(directory / "collected"))
    collection = Collection(made.path)
    pieces = {row["path"]: row["piece"] for row in collection.read_rows("directories", made.manifest)}
    files = []
    for number, (place, held) in enumerate(zip(directories, holdings(cluster), strict=True)):
        path = f"availability/bookie-{number:05}.parquet"
        target = Path(collection.base, path)
        piece = pieces[str(place)]
        with pq.ParquetWriter(
            target, AVAILABILITY, compression=COMPRESSION, write_page_checksum=True
        ) as writer:
            rows = 0
            for batch in batches(held, cluster.ids[number], str(place), piece):
                writer.write_batch(batch)
                rows += batch.num_rows
        files.append(CollectedFile(path, rows, target.stat().st_size))
    Path(collection.base, "availability", "part-00000.parquet").unlink()
    tables = {**made.manifest.tables, "availability": tuple(files)}
    collection.write_manifest(replace(made.manifest, tables=tables))
    return Path(collection.path)


def batches(held: list[Holding], bookie: str, place: str, piece: str) -> Iterator[pa.RecordBatch]:
    """The rows of a bookie's index files, as a collection has them."""
    for holding in held:
        value = groups(holding.shape, holding.seat)
        for start in range(0, len(holding.ids), _ROWS):
            ids = holding.ids[start : start + _ROWS]
            count = len(ids)
            columns = {
                "bookie_id": pa.repeat(bookie, count),
                "scope_id": pa.repeat(pa.scalar(0, pa.int64()), count),
                "ledger_id": pa.array(ids),
                "groups": pa.repeat(pa.scalar(value, pa.binary()), count),
                "state": pa.repeat("ok", count),
                "path": _paths(f"{place}/current", ids),
                "page_bytes": pa.repeat(pa.scalar(_PAGE_BYTES, pa.int64()), count),
                "mtime": pa.repeat(pa.scalar(INDEX_MS, pa.int64()), count),
                "storage": pa.repeat("idx", count),
                "piece": pa.repeat(piece, count),
            }
            yield pa.RecordBatch.from_arrays(
                [
                    columns.get(field.name, pa.nulls(count, field.type)).cast(field.type)
                    for field in AVAILABILITY
                ],
                schema=AVAILABILITY,
            )


def _paths(current: str, ids: Longs) -> pa.Array:
    """Paths of index files (`auditor.keys.index_path`), for many ids at once."""
    first, leaf = (_OCTETS.take(pa.array(ids >> shift & 0xFF)) for shift in (8, 0))
    names = pa.array([f"{ledger:x}.idx" for ledger in ids.tolist()])
    folder = pa.scalar(current)
    return pc.binary_join_element_wise(folder, first, leaf, names, "/")
