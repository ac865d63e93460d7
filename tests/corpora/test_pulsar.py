"""BookKeeper below Pulsar: what its broker makes and deletes is no damage; with an instance id or without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from auditor import Audit
from auditor.demo.sample import extract
from auditor.model.options import AuditOptions
from auditor.sources.metadata.stores import open_store
from tests.corpora.cluster import Cluster, set_clocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data" / "pulsar-a"
"""Apache Pulsar 4.2.4 with three bookies 4.17.3 on DbLedgerStorage, halted while all of it ran.

Faults were planted in Pulsar's own metadata, and the metadata of some ledgers was removed (`ledgers.json`).
"""


def test_a_pulsar_is_healthy_but_for_the_ledgers_whose_metadata_was_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(DATA / "zookeeper", tmp_path / "zookeeper")
    extract(DATA / "bookies.tar.gz", tmp_path)
    uri = f"zk-snapshot://{tmp_path}/zookeeper/version-2"
    scanned = open_store(uri).cluster().scan_time
    set_clocks(tmp_path / "bookies", scanned)
    run = tmp_path / "run"
    options = AuditOptions(index_time=scanned, owners="none")  # who refers to them: test_owners.py
    report = Audit(uri, [str(tmp_path / "bookies")], str(run), options).run(spark)
    known = json.loads((DATA / "ledgers.json").read_text())
    listed = {row["ledger_id"] for row in pq.read_table(run / "tables" / "ledgers").to_pylist()}
    assert listed - {None} == set(known["with_metadata"])
    rows = pq.read_table(run / "findings").to_pylist()
    assert {row["ledger_id"] for row in rows if row["id"] == "orphan-ledger"} <= set(
        known["without_metadata"]
    )
    # The names of its bookies stand for addresses of one machine.
    assert (report.verdict, report.complete) == ("healthy", True)
    assert report.counts.keys() == {"endpoint-drift", "orphan-ledger"}
    assert report.coverage.ledgers.decided == report.coverage.ledgers.total == len(known["with_metadata"])


def test_a_pulsar_that_never_had_an_instance_id_is_healthy(spark: SparkSession, tmp_path: Path) -> None:
    made = Cluster(instance=None)
    made.ledger(1, {0: [made.bookie("127.0.0.1:3181")]}, (1, 1), 9)
    root = made.write(tmp_path)
    report = Audit(f"dump://{root}/metadata.jsonl", [str(root / "bookies")], str(root / "run")).run(spark)
    assert (report.verdict, report.complete) == ("healthy", True)
    assert report.counts == {"instance-id-missing": 1}
    assert report.findings[0].severity == "note"
