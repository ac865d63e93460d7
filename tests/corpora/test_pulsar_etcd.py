"""A Pulsar cluster with its metadata in etcd at ZooKeeper's paths is audited as in ZooKeeper."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from auditor import Audit
from auditor.compare.stores import compare_stores
from auditor.model.comparison import StoreItem
from auditor.model.options import AuditOptions
from auditor.model.report import EXIT_CLEAN
from auditor.model.run_facts import sentence_of
from auditor.sources.metadata.stores import open_store
from tests.corpora.test_owners import DAY, IN_A_CURSORS_LEDGER, expected_faults, owner_faults
from tests.servers.etcd import running
from tests.sources.owners.pulsar_stores import FILES, TREES, znodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_pulsar_etcd_store_and_owner_findings_match_zookeeper(spark: SparkSession, tmp_path: Path) -> None:
    values = {node.path: node.data for node in znodes(*TREES) if node.data}
    with running(tmp_path / "etcd") as server:
        server.load(values.items())
        server.save(tmp_path / "saved.db")
        key_listing = json.loads(server.ctl("get", "--prefix", "/", "-w", "json"))
        copies = [f"metadata-store:etcd://{server.host}/ledgers", f"dump://{dump(key_listing, tmp_path)}"]
        for copy in copies:
            with compare_stores(f"zk-snapshot://{FILES}", copy, spark=spark) as (comparison, _):
                assert (comparison.exit_code, comparison.differences) == (EXIT_CLEAN, 0), comparison.gaps
                owners = {tally.item: tally.same for tally in comparison.tallies}[StoreItem.OWNER]
                assert owners == sum(path.startswith(("/managed-ledgers/", "/schemas/")) for path in values)
    uri = f"metadata-store:etcd-snapshot://{tmp_path / 'saved.db'}"
    leaks = {fault for fault in expected_faults() if fault[0] == "ledger-unowned"}
    other_faults = expected_faults() - {IN_A_CURSORS_LEDGER} - leaks
    scanned = open_store(uri).cluster().scan_time
    by_day, confirmed = [], []

    def options(scan_time: int) -> AuditOptions:
        store = f"pulsar:etcd-snapshot://{tmp_path / 'saved.db'}"
        return AuditOptions(scan_time=scan_time, owners_complete=store)

    for days in (0, 2):
        run = tmp_path / f"run{days}"
        report = Audit(uri, [], str(run), options(scanned + days * DAY)).run(spark)
        rows = pq.read_table(run / "findings").to_pylist()
        by_day.append({fault for fault in owner_faults(rows) if not fault[0].startswith("offload-")})
        confirmed.append({row["confidence"] for row in rows if row["id"] == "ledger-unowned"})
    old = {fault for fault in other_faults if not fault[0].startswith("offload-")}
    assert by_day == [old, old | leaks], "etcd keeps no times: a leak's age is known when it is seen again"
    assert confirmed == [set(), {"confirmed"}]
    assert report.cluster.layout == "hierarchical"
    assert (report.run.keeps_marks, report.run.keeps_times, report.run.marks_listed) == (True, False, True)
    blind = {*(report.run.blind or ())}
    assert {"recovery-stuck", "lock-without-mark"} <= blind
    assert "mark-stale" in blind, "no bookie was read"
    assert "mark-of-deleted-ledger" not in blind, "its marks were read"
    assert any("pulsar:etcd-snapshot://" in note for note in map(sentence_of, report.run.remarks))


def dump(key_listing: dict[str, list[dict[str, str]]], folder: Path) -> Path:
    """Write etcdctl's listing of all keys as a dump, like `conf/etcd_dump.py`."""
    records = [
        {
            "path": base64.b64decode(kv["key"]).decode(), "key": kv["key"], "data": kv.get("value", ""),
            "createRevision": kv["create_revision"], "modRevision": kv["mod_revision"],
            "version": kv["version"], "lease": 0,
        }
        for kv in key_listing["kvs"]
    ]  # fmt: skip
    lines = [{"begin": {}}, *records, {"end": {"nodes": len(records)}}]
    path = folder / "dump.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
