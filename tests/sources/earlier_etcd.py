"""Helpers that read etcd ledgers in full or since an earlier run, and write rows as a run stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.earlier_ledgers import EarlierLedgers, find_ledgers
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.ledger_rows import LEDGERS, ledger_rows
from auditor.sources.metadata.store import StoreOptions, Tree
from auditor.sources.metadata.stores import open_store
from tests.corpora.cluster import metadata_bytes
from tests.corpora.plain_readers import PlainLedger
from tests.servers.etcd import Etcd

ENSEMBLE = ("bk-a:3181", "bk-b:3181", "bk-c:3181")
CLOSED, OPEN, LONGER = (
    metadata_bytes(PlainLedger(state, 3, 3, 2, last, ((0, ENSEMBLE),)))
    for state, last in (("CLOSED", 9), ("OPEN", None), ("CLOSED", 20))
)
DOUBLED = metadata_bytes(PlainLedger("CLOSED", 3, 3, 2, 9, ((0, (ENSEMBLE[0], *ENSEMBLE[:2])),)))
GARBAGE = b"no metadata"


def open_etcd_store(server: Etcd, scope: str, **options: Any) -> EtcdStore:
    store = open_store(f"etcd://{server.host}{scope}", StoreOptions(rate_limit=0, **options))
    assert isinstance(store, EtcdStore)
    return store


def key(scope: str, ledger: int, scope_id: int = 0) -> str:
    return f"{scope}/{etcd.to_path(LedgerId(ledger, scope_id))}"


def read_whole(store: EtcdStore, part_count: int = 2, columns: pa.Schema = LEDGERS) -> pa.Table:
    """Return all ledgers at the revision that the store has pinned."""
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, part_count)
    read = [batch for part in parts for batch in store.read(part)]
    rows = [ledger_rows(batch, store.root, LayoutKind.ETCD, columns) for batch in read]
    return pa.Table.from_batches(rows, columns)


def read_since(
    store: EtcdStore, earlier: EarlierLedgers, part_count: int = 2, columns: pa.Schema = LEDGERS
) -> pa.Table:
    """Return all ledgers at the pinned revision, read against the ledgers of an earlier run."""
    parts = store.parts_since(earlier, part_count)
    return pa.Table.from_batches(
        [rows for part in parts for rows in store.rows_since(part, columns)], columns
    )


def write_earlier_ledgers(folder: Path, table: pa.Table, files: int = 2) -> EarlierLedgers:
    """Write rows as a run's table, in ``files`` Parquet files with small row groups."""
    folder.mkdir()
    share = table.num_rows // files + 1
    names = [f"part-{number:05}.parquet" for number in range(files)]
    for number, name in enumerate(names):
        rows = table.slice(number * share, share)
        pq.write_table(rows, folder / name, row_group_size=7, write_page_checksum=True)
    return find_ledgers(str(folder), names)


def comparable_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows without ``reused``, sorted by path."""
    return sorted(table.drop_columns(["reused"]).to_pylist(), key=lambda row: str(row["path"]))


def reused_ledgers(table: pa.Table) -> set[int]:
    """Return the ids of the ledgers that were not read again."""
    return {row["ledger_id"] for row in table.to_pylist() if row["reused"]}
