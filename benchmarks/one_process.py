"""An audit's comparison in one process without Spark: metadata and indexes, joined with Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB, IndexDirectory, plan_parts
from auditor.sources.metadata.ledger_rows import ledger_rows
from auditor.sources.metadata.store import StoreOptions, Tree
from auditor.sources.metadata.stores import choose_layout, open_store

_KEY_COLUMNS = ["ledger_id", "bookie_id"]


def differing_pairs(uri: str, index_directories: Mapping[str, Path]) -> int:
    """Count the (ledger, bookie) pairs whose bookie does not hold the expected entries.

    ``index_directories`` maps each bookie id to its only index directory.
    """
    joined_pairs = _expected_replicas(uri).join(
        _read_indexes(index_directories), _KEY_COLUMNS, join_type="full outer", right_suffix="_held"
    )
    is_equal = pc.fill_null(pc.equal(joined_pairs["groups"], joined_pairs["groups_held"]), False)
    equal_pairs: int = pc.sum(is_equal).as_py() or 0
    rows: int = joined_pairs.num_rows
    return rows - equal_pairs


def _expected_replicas(uri: str) -> pa.Table:
    with closing(open_store(uri, StoreOptions(rate_limit=0))) as store:
        ledger_layout = choose_layout(store, store.cluster())[0]
        ledgers = pa.Table.from_batches(
            ledger_rows(batch, store.root, ledger_layout)
            for store_part in store.parts(Tree.LEDGERS, ledger_layout, 1)
            for batch in store.read(store_part)
        ).combine_chunks()
    replicas = ledgers["replicas"].combine_chunks()
    members = pc.list_flatten(replicas)
    rows = pa.table(
        {
            "ledger_id": ledgers["ledger_id"].take(pc.list_parent_indices(replicas)),
            "bookie_id": pc.struct_field(members, "bookie_id"),
            "groups": pc.struct_field(members, "groups"),
        }
    )
    return rows.filter(pc.greater(pc.binary_length(rows["groups"]), 0))


def _read_indexes(index_directories: Mapping[str, Path]) -> pa.Table:
    index_parts = plan_parts(
        [(bookie, [_index_directory(path)]) for bookie, path in index_directories.items()], 1
    )
    batches = [
        batch.select([*_KEY_COLUMNS, "groups"])
        for store_part in index_parts
        for batch in read_part(store_part)
    ]
    return pa.Table.from_batches(batches)


def _index_directory(path: Path) -> IndexDirectory:
    current_directory = path / "current"
    storage = ROCKSDB if (current_directory / "locations").is_dir() else INDEX_FILES
    return IndexDirectory.from_version(str(path), (current_directory / "VERSION").read_bytes(), storage)
