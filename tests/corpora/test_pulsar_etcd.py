"""A Pulsar cluster whose metadata lie in etcd at ZooKeeper's paths is what it was in ZooKeeper."""

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
from tests.corpora.test_owners import DAY, IN_A_CURSORS_LEDGER, seen, wanted
from tests.servers.etcd import running
from tests.sources.owners.pulsar_stores import FILES, TREES, znodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_is_the_same_and_its_owners_are_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    held = {node.path: node.data for node in znodes(*TREES) if node.data}
    with running(tmp_path / "etcd") as server:
        server.load(held.items())
        server.save(tmp_path / "saved.db")
        said = json.loads(server.ctl("get", "--prefix", "/", "-w", "json"))
        copies = [f"metadata-store:etcd://{server.host}/ledgers", f"dump://{dump(said, tmp_path)}"]
        for copy in copies:
            with compare_stores(f"zk-snapshot://{FILES}", copy, spark=spark) as (comparison, _):
                assert (comparison.exit_code, comparison.differences) == (EXIT_CLEAN, 0), comparison.gaps
                owners = {tally.item: tally.same for tally in comparison.tallies}[StoreItem.OWNER]
                assert owners == sum(path.startswith(("/managed-ledgers/", "/schemas/")) for path in held)
    uri = f"metadata-store:etcd-snapshot://{tmp_path / 'saved.db'}"
    leaks = {each for each in wanted() if each[0] == "ledger-unowned"}
    others = wanted() - {IN_A_CURSORS_LEDGER} - leaks
    scanned = open_store(uri).cluster().scan_time
    found, confirmed = [], []

    def options(scan_time: int) -> AuditOptions:
        store = f"pulsar:etcd-snapshot://{tmp_path / 'saved.db'}"
        return AuditOptions(scan_time=scan_time, owners_complete=store)

    for days in (0, 2):
        run = tmp_path / f"run{days}"
        report = Audit(uri, [], str(run), options(scanned + days * DAY)).run(spark)
        rows = pq.read_table(run / "findings").to_pylist()
        found.append({each for each in seen(rows) if not each[0].startswith("offload-")})
        confirmed.append({row["confidence"] for row in rows if row["id"] == "ledger-unowned"})
    old = {each for each in others if not each[0].startswith("offload-")}
    assert found == [old, old | leaks], "etcd keeps no times: a leak's age is known when it is seen again"
    assert confirmed == [set(), {"confirmed"}]
    assert report.cluster.layout == "hierarchical"
    assert (report.run.keeps_marks, report.run.keeps_times, report.run.marks_listed) == (True, False, True)
    blind = {*(report.run.blind or ())}
    assert {"recovery-stuck", "lock-without-mark"} <= blind
    assert "mark-stale" in blind, "no bookie was read"
    assert "mark-of-deleted-ledger" not in blind, "its marks were read"
    assert any("pulsar:etcd-snapshot://" in note for note in map(sentence_of, report.run.remarks))


def dump(said: dict[str, list[dict[str, str]]], folder: Path) -> Path:
    """What etcdctl prints of all keys, as `conf/etcd_dump.py` makes a dump of it."""
    records = [
        {
            "path": base64.b64decode(each["key"]).decode(), "key": each["key"], "data": each.get("value", ""),
            "createRevision": each["create_revision"], "modRevision": each["mod_revision"],
            "version": each["version"], "lease": 0,
        }
        for each in said["kvs"]
    ]  # fmt: skip
    lines = [{"begin": {}}, *records, {"end": {"nodes": len(records)}}]
    path = folder / "dump.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
