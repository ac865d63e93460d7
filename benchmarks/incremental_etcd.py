"""Time to read the ledgers of a running etcd with the help of an earlier run, compared with a full read.

One ledger in a hundred changed. Both reads end with the rows of the ledgers table, without Spark. The rows
of the earlier run are in Parquet files. The rate limit counts the keys that the store sends. With the
default limit, both reads mostly wait because of this limit. If the deleted ledgers are spread over all
keys, the program must list all keys. The last line measures this worst case.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.earlier_ledgers import EarlierLedgers, find_ledgers
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.ledger_rows import LEDGERS, ledger_rows
from auditor.sources.metadata.store import StoreOptions, Tree
from auditor.sources.metadata.stores import open_store
from benchmarks import ledger_records as made
from benchmarks.measure import Line, alternate
from tests.servers.etcd import Etcd, running

LEDGER_COUNT = 100_000
FILE_COUNT = 4
ROOT_PATH = "/bk"
TARGET_RATIO = 10
UNLIMITED_OPTIONS, DEFAULT_OPTIONS = StoreOptions(rate_limit=0), StoreOptions()


def lines() -> Iterator[Line]:
    """Yield lines for rewritten ledgers by processor and elapsed time, then for deleted ledgers."""
    ledger_ids = (
        (number % etcd.BUCKET_COUNT << 56) + number // etcd.BUCKET_COUNT + 1 for number in range(LEDGER_COUNT)
    )
    paths = [f"{ROOT_PATH}/{etcd.to_path(LedgerId(ledger_id))}" for ledger_id in ledger_ids]
    encoded_records = [made.encode_binary(message) for message in made.make_messages(LEDGER_COUNT)]
    with tempfile.TemporaryDirectory() as folder, running(Path(folder, "server")) as server:
        server.load([(f"{ROOT_PATH}/layout", b""), *zip(paths, encoded_records, strict=True)])
        earlier_run = _write_earlier(Path(folder, "1"), _read_full(server, UNLIMITED_OPTIONS))
        server.load(list(zip(paths[::100], encoded_records[1::100], strict=True)))
        for variant_text, options, clock in (
            ("our processor time", UNLIMITED_OPTIONS, time.process_time),
            ("elapsed", UNLIMITED_OPTIONS, time.perf_counter),
            (
                f"elapsed at the default {DEFAULT_OPTIONS.rate_limit:,.0f} keys a second",
                DEFAULT_OPTIONS,
                time.perf_counter,
            ),
        ):
            yield _make_line(
                f"ledgers of a live etcd, 1 % changed, {variant_text}", server, earlier_run, options, clock
            )
        earlier_run = _write_earlier(Path(folder, "2"), _read_full(server, UNLIMITED_OPTIONS))
        server.load(list(zip(paths[50::200], encoded_records[1::200], strict=True)))
        for path in paths[150::200]:
            server.delete(path)
        stage = "  half of them deleted, all over, our processor time"
        yield _make_line(stage, server, earlier_run, UNLIMITED_OPTIONS, time.process_time)


def _make_line(
    stage: str, server: Etcd, earlier_run: EarlierLedgers, options: StoreOptions, clock: Callable[[], float]
) -> Line:
    own_seconds, full_seconds = alternate(
        lambda: _read_changed(server, earlier_run, options), lambda: _read_full(server, options), clock=clock
    )
    table = _read_changed(server, earlier_run, UNLIMITED_OPTIONS)
    if _comparable_rows(table) != _comparable_rows(_read_full(server, UNLIMITED_OPTIONS)):
        sys.exit(f"incremental: {stage}: not the rows of a full read")
    reused_rows = pc.sum(table["reused"]).as_py()
    note = f"{reused_rows:,} of {table.num_rows:,} rows taken"
    return Line(
        stage,
        LEDGER_COUNT,
        "ledgers",
        own_seconds,
        "all read",
        LEDGER_COUNT,
        full_seconds,
        target=TARGET_RATIO,
        note=note,
    )


def _read_full(server: Etcd, options: StoreOptions) -> pa.Table:
    store = _open_store(server, options)
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, FILE_COUNT)
    batches = [ledger_rows(batch, ROOT_PATH, LayoutKind.ETCD) for part in parts for batch in store.read(part)]
    store.close()
    return pa.Table.from_batches(batches, LEDGERS)


def _read_changed(server: Etcd, earlier_run: EarlierLedgers, options: StoreOptions) -> pa.Table:
    store = _open_store(server, options)
    parts = store.parts_since(earlier_run, FILE_COUNT)
    batches = [rows for part in parts for rows in store.rows_since(part, LEDGERS)]
    store.close()
    return pa.Table.from_batches(batches, LEDGERS)


def _open_store(server: Etcd, options: StoreOptions) -> EtcdStore:
    store = open_store(f"etcd://{server.host}{ROOT_PATH}", options)
    assert isinstance(store, EtcdStore)
    store.cluster()
    return store


def _comparable_rows(table: pa.Table) -> pa.Table:
    """Return the rows in a fixed order, without the columns that differ between reads."""
    return table.drop_columns(["mtime", "reused"]).sort_by("path").combine_chunks()


def _write_earlier(run: Path, table: pa.Table) -> EarlierLedgers:
    run.mkdir()
    names = [f"part-{number:05}.parquet" for number in range(FILE_COUNT)]
    rows_per_file = -(-table.num_rows // FILE_COUNT)
    for number, name in enumerate(names):
        pq.write_table(
            table.slice(number * rows_per_file, rows_per_file), run / name, write_page_checksum=True
        )
    return find_ledgers(str(run), names)
