"""Real bookies of 4.17.2 asked over the wire, each kind of storage, and what they say of themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.sources.bookies.rpc.listings import DB_LEDGER_STORAGE, rpc_rows
from auditor.sources.bookies.rpc.pairs import Address, endpoints
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store
from auditor.tables.registry import registrations
from tests.codecs.scalar import greedy, packed, runs_of_entries
from tests.servers.bookies.driver import Bookies

LACKED = 4242
LEDGERS: dict[int, range | list[int]] = {
    1: range(30),
    2: range(0, 300, 3),
    3: [0, 1, 2, 7, 8, 9, 40],
    2**63 - 1: [5],
}


@pytest.mark.parametrize("storage", ["InterleavedLedgerStorage", "SortedLedgerStorage", "DbLedgerStorage"])
def test_a_running_bookie_says_what_it_holds_before_it_is_flushed(storage: str, tmp_path: Path) -> None:
    options = StoreOptions(timeout_s=3.0)
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        uri = f"zk+longhierarchical://{server.hosts}/ledgers"
        with Bookies(uri, tmp_path, storage, ["a-custom-id", None, None]) as cluster:
            held: dict[tuple[str, int], bytes] = {}
            for number, (ledger, entries) in enumerate(LEDGERS.items()):
                for bookie in cluster.ids[number % 2 :]:
                    cluster.add(ledger, bookie, entries)
                    held[bookie, ledger] = packed(greedy(runs_of_entries(entries)))
            store = open_store(uri)
            found = endpoints(registrations(store.cluster()), cluster.ids)
            store.close()
            addresses: dict[str, Address] = {
                name: each for name, each in found.items() if not isinstance(each, str)
            }
            assert addresses.keys() == set(cluster.ids)
            pairs = [
                {"bookie_id": bookie, "scope_id": 0, "ledger_id": ledger}
                for bookie in sorted(cluster.ids)
                for ledger in sorted((*LEDGERS, LACKED))
            ]
            batches = list(rpc_rows(iter([pa.RecordBatch.from_pylist(pairs)]), addresses, options))
    rows = [row for batch in batches for row in batch.to_pylist()]
    listed = {(row["bookie_id"], row["ledger_id"]): row["groups"] for row in rows if row["state"] == "ok"}
    truth = {(pair["bookie_id"], pair["ledger_id"]): b"" for pair in pairs} | held
    if storage == "DbLedgerStorage":
        gaps = {row["bookie_id"]: row["reason"] for row in rows if row["state"] == "gap"}
        assert gaps.keys() == set(cluster.ids[1:])  # of the first, two silent ledgers are not enough to tell
        assert all(reason.startswith(DB_LEDGER_STORAGE) for reason in gaps.values())
        assert listed == {pair: groups for pair, groups in truth.items() if not groups}
    else:
        assert {row["state"] for row in rows} == {"ok"}
        assert listed == truth
