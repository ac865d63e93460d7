"""Speed of reading the ledgers of a running etcd, compared with plain paging with the client package.

The benchmark starts a server on loopback and loads keys as BookKeeper's driver writes them. The plain
reader uses the package's client. It requests one page of 5,000 keys after the other, at the revision of the
first page. It keeps keys and values. This program divides the key range, checks counts and returns columns.
Both wait for the server, so the benchmark measures elapsed time.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import etcd3

from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.ledger_rows import ledger_rows
from auditor.sources.metadata.store import StoreOptions, Tree, ZnodeBatch
from auditor.sources.metadata.stores import open_store
from benchmarks import ledger_records as made
from benchmarks.measure import Line, alternate
from tests.servers.etcd import Etcd, running

KEY_COUNT = 120_000
"""Number of ledgers. Dividing the range takes about thirty requests, which would dominate for few keys."""
KEYS_PER_PAGE = 5_000
ROOT_PATH = "/bk"
PART_COUNT = 8


def lines() -> Iterator[Line]:
    """Yield a line for one part, for eight parts, and for decoded ledgers."""
    ledger_ids = (
        (number % etcd.BUCKET_COUNT << 56) + number // etcd.BUCKET_COUNT + 1 for number in range(KEY_COUNT)
    )
    written_records = {
        f"{ROOT_PATH}/{etcd.to_path(LedgerId(ledger_id))}": made.encode_binary(message)
        for ledger_id, message in zip(ledger_ids, made.make_messages(KEY_COUNT), strict=True)
    }
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        server.load([(f"{ROOT_PATH}/layout", b""), *written_records.items()])
        plain_records = {key.decode(): value for key, value, _ in _read_with_client(server)}
        if plain_records != written_records or _read_data(server) != written_records:
            sys.exit("what was read is not what was written")
        one_part, eight_parts, decoded_rows, plain_seconds = alternate(
            lambda: [len(batch.paths) for batch in _read_batches(server, 1)],
            lambda: [len(batch.paths) for batch in _read_batches(server, PART_COUNT)],
            lambda: [
                len(ledger_rows(batch, ROOT_PATH, LayoutKind.ETCD)) for batch in _read_batches(server, 1)
            ],
            lambda: _read_with_client(server),
        )
    for stage, seconds, target, note in (
        ("live etcd, one part", one_part, 0.8, ""),
        ("live etcd, eight parts", eight_parts, 0.8, "one after the other; tasks read them side by side"),
        (
            "live etcd to ledgers",
            decoded_rows,
            None,
            "decoded, with expected entries; the rival still only has bytes",
        ),
    ):
        yield Line(
            stage,
            KEY_COUNT,
            "ledgers",
            seconds,
            "plain pages with etcd3",
            KEY_COUNT,
            plain_seconds,
            target=target,
            note=note,
        )


def _read_with_client(server: Etcd) -> list[tuple[bytes, bytes, int]]:
    """Read all ledgers in the simplest way: request a page, then the page after its last key."""
    host, port = server.host.split(":")
    client = etcd3.client(host=host, port=int(port))
    start_key, end_key = etcd.children(ROOT_PATH, etcd.LEDGERS_KEY)
    revision = None
    records: list[tuple[bytes, bytes, int]] = []
    while True:
        page = client.get_range_response(start_key, end_key, limit=KEYS_PER_PAGE, revision=revision)
        revision = page.header.revision
        records += [(key_value.key, key_value.value, key_value.mod_revision) for key_value in page.kvs]
        if not page.more:
            client.close()
            return records
        start_key = page.kvs[-1].key + b"\0"


def _read_batches(server: Etcd, part_count: int) -> Iterator[ZnodeBatch]:
    """Yield the batches of all parts, read one part after the other."""
    store = open_store(f"etcd://{server.host}{ROOT_PATH}", StoreOptions(rate_limit=0))
    try:
        store.cluster()
        for store_part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, part_count):
            yield from store.read(store_part)
    finally:
        store.close()


def _read_data(server: Etcd) -> dict[str, bytes]:
    return {
        path: data
        for batch in _read_batches(server, PART_COUNT)
        for path, data in zip(batch.paths, batch.data, strict=True)
    }
