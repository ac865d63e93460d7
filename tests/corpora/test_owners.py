"""Owners of the ledgers of a real Pulsar: the faults that were planted are found, all of them and no others.

Pulsar's own view, and what a check should say of each ledger, is the corpus's oracle.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.demo.sample import extract
from auditor.sources.metadata.stores import open_store
from tests.codecs.pulsar.pulsar_values import oracle
from tests.corpora.audited import Asked, audit
from tests.corpora.cluster import set_clocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data" / "pulsar-a"
KNOWN = oracle()
FAULTS = KNOWN["faults"]
OWNER_CHECKS = {
    "ledger-unowned", "owner-dangling", "owner-length-mismatch", "owner-unreadable", "ledger-misattributed",
    "offload-incomplete", "offload-not-trimmed",
}  # fmt: skip
# Only the last entry of a cursor's ledger names it, which no znode shows.
IN_A_CURSORS_LEDGER = {("owner-dangling", 58)}


@pytest.fixture(scope="session")
def owned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The corpus, audited with no grace: all of it was made within two minutes."""
    root = tmp_path_factory.mktemp("pulsar")
    shutil.copytree(DATA / "zookeeper", root / "zookeeper")
    extract(DATA / "bookies.tar.gz", root)
    uri = f"zk-snapshot://{root}/zookeeper/version-2"
    scanned = open_store(uri).cluster().scan_time
    set_clocks(root / "bookies", scanned)
    return audit(spark, uri, root / "bookies", root / "run", index_time=scanned, owner_grace=0.0)


def wanted() -> set[tuple[str, int | None, str | None]]:
    return {
        (fault["expect"], fault["ledger"], fault["path"] if fault["ledger"] is None else None)
        for fault in FAULTS
        if fault["expect"] != "none"
    }


def test_the_planted_faults_are_found_and_no_others(owned: Asked) -> None:
    found = {
        (
            row["id"],
            row["ledger_id"],
            json.loads(row["evidence"])["path"] if row["ledger_id"] is None else None,
        )
        for row in owned.findings()
        if row["id"] in OWNER_CHECKS
    }
    missed = {(id, ledger, None) for id, ledger in IN_A_CURSORS_LEDGER}
    assert found == wanted() - missed


def test_every_ledger_has_the_owner_that_the_broker_sees(owned: Asked) -> None:
    rows = owned.table("ownership")
    by_ledger: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_ledger.setdefault(row["ledger_id"], []).append(row)
    for name, said in KNOWN["ledgers"].items():
        here = by_ledger.get(int(name), [])
        if said["listed"] is True and said.get("named_by") != "cursor ledger entry":
            own = [row for row in here if not row["borrowed"]]
            assert [(row["path"], row["kind"]) for row in own] == [(said["path"], said["owner"])]
        elif said["bk_metadata"]:
            assert [row["path"] for row in here] == [None]
        else:
            assert here == []
