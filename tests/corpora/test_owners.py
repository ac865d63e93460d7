"""Owners of the ledgers of a real Pulsar: the audit finds all planted faults, and no others.

The corpus's oracle has Pulsar's own view, and the expected result for each ledger.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from auditor import Audit, open_run
from auditor.demo.sample import extract
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from auditor.model.report_source import NOBODY
from auditor.model.run_facts import sentence_of
from auditor.model.views import Backlog
from auditor.runs.load_topic import topic_view
from auditor.runs.owners import OwnerTotals
from auditor.runs.reader import RunReader
from auditor.sources.metadata.stores import open_store
from auditor.sources.owners.applications import OWNERS
from auditor.tables.ownership import OWNERSHIP
from tests.cli.test_doors import bkaudit
from tests.codecs.pulsar.pulsar_values import oracle
from tests.corpora.audited import RunWithTables, audit
from tests.corpora.cluster import set_clocks
from tests.made_runs import made_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data" / "pulsar-a"
ORACLE = oracle()
DAY = 24 * 3_600_000
FAULTS = ORACLE["faults"]
# Read only of saved metadata, with the bookies' disks.
IN_A_CURSORS_LEDGER = ("owner-dangling", 58, None)
OWNER_CHECKS = {
    "ledger-unowned", "owner-dangling", "owner-length-mismatch", "owner-unreadable", "ledger-misattributed",
    "offload-incomplete", "offload-not-trimmed",
}  # fmt: skip


REPLICAS_BY_TOPIC = """
SELECT o.tenant, o.namespace, o.topic, r.bookie_id, count(*) AS ledgers
FROM (SELECT scope_id, ledger_id, explode(replicas) AS r FROM ledgers)
LEFT JOIN (SELECT * FROM ownership WHERE NOT coalesce(borrowed, false)) o USING (scope_id, ledger_id)
GROUP BY ALL
"""

LOG_BYTES_BY_TOPIC = """
SELECT o.tenant, o.namespace, o.topic, s.bookie_id, s.path, s.class, sum(s.bytes) AS bytes
FROM (SELECT * FROM space WHERE kind = 'log') s
LEFT JOIN (SELECT * FROM ownership WHERE NOT coalesce(borrowed, false)) o USING (scope_id, ledger_id)
GROUP BY ALL
"""


@pytest.fixture(scope="session")
def owned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunWithTables:
    """Return an audit of the corpus without grace: all of it was made within two minutes."""
    root = tmp_path_factory.mktemp("pulsar")
    shutil.copytree(DATA / "zookeeper", root / "zookeeper")
    extract(DATA / "bookies.tar.gz", root)
    uri = f"zk-snapshot://{root}/zookeeper/version-2"
    scanned = open_store(uri).cluster().scan_time
    set_clocks(root / "bookies", scanned)
    bookies, run = root / "bookies", root / "run"
    return audit(spark, uri, bookies, run, index_time=scanned, owner_grace=0.0, entry_logs=True)


def expected_faults() -> set[tuple[str, int | None, str | None]]:
    return {
        (fault["expect"], fault["ledger"], fault["path"] if fault["ledger"] is None else None)
        for fault in FAULTS
        if fault["expect"] != "none"
    }


def owner_faults(rows: list[dict[str, Any]]) -> set[tuple[str, int | None, str | None]]:
    """Return the findings about owners: id, ledger, and the path if there is no ledger."""
    return {
        (
            row["id"],
            row["ledger_id"],
            json.loads(row["evidence"])["path"] if row["ledger_id"] is None else None,
        )
        for row in rows
        if row["id"] in OWNER_CHECKS
    }


def test_owner_findings_are_exactly_the_planted_faults(owned: RunWithTables) -> None:
    assert owner_faults(owned.findings()) == expected_faults()


def test_audit_of_a_broker_is_complete_and_has_no_unexpected_check_ids(owned: RunWithTables) -> None:
    """Exceptions: ledgers whose metadata was removed, and bookie names for one machine's addresses."""
    ledger_lists = json.loads((DATA / "ledgers.json").read_text())
    assert {row["ledger_id"] for row in owned.table("ledgers")} - {None} == {*ledger_lists["with_metadata"]}
    assert {row["ledger_id"] for row in owned.findings_of("orphan-ledger")} <= {
        *ledger_lists["without_metadata"]
    }
    of_logs = {id for id in owned.report.counts if id.startswith("entry-log-")}
    expected = {"endpoint-drift", "orphan-ledger", "owners-suspect"}  # nobody declared the store complete
    assert owned.report.counts.keys() - OWNER_CHECKS - of_logs == expected
    assert owned.report.complete
    assert owned.report.run.causes == []
    coverage = owned.report.coverage.ledgers
    assert (coverage.total, coverage.undecided) == (len(ledger_lists["with_metadata"]), 0)
    # A broker's open ledgers: nobody knows yet which of their entries are to stay.
    assert coverage.open == sum(row["class"] == "not-closed" for row in owned.table("verdicts"))


def test_live_store_has_the_same_findings_except_one_in_a_cursors_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(DATA / "zookeeper", tmp_path / "server")
    run = tmp_path / "run"
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        options = AuditOptions(owner_grace=0.0)
        report = Audit(f"zk://{server.hosts}/ledgers", [], str(run), options).run(spark)
    rows = pq.read_table(run / "findings").to_pylist()
    assert owner_faults(rows) == expected_faults() - {IN_A_CURSORS_LEDGER}
    dangling = [row["confidence"] for row in rows if row["id"] == "owner-dangling"]
    assert set(dangling) == {"confirmed"}, "nothing moved between the two scans"
    assert any("owners were read: pulsar:zk://" in note for note in map(sentence_of, report.run.remarks))


def test_every_ledger_has_the_owner_that_the_broker_sees(owned: RunWithTables) -> None:
    rows = owned.table("ownership")
    by_ledger: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_ledger.setdefault(row["ledger_id"], []).append(row)
    for name, expected in ORACLE["ledgers"].items():
        owner_rows = by_ledger.get(int(name), [])
        if expected["listed"] is True:
            own = [row for row in owner_rows if not row["borrowed"]]
            assert [(row["path"], row["kind"]) for row in own] == [(expected["path"], expected["owner"])]
        elif expected["bk_metadata"]:
            assert [row["path"] for row in owner_rows] == [None]
        else:
            assert owner_rows == []


def test_owner_tables_have_the_published_schemas(owned: RunWithTables) -> None:
    for name, schema in (("owners", OWNERS), ("ownership", OWNERSHIP)):
        read = pq.read_schema(next((owned.out / "tables" / name).glob("*.parquet")))
        assert [(field.name, field.type) for field in read] == [(field.name, field.type) for field in schema]


def test_every_finding_about_an_owned_ledger_names_its_owner(owned: RunWithTables) -> None:
    rows = owned.findings()
    orphans = [row for row in rows if row["id"] == "orphan-ledger" and row["ledger_id"] == 126]
    assert orphans, "its metadata were removed, and its entries are on the disks"
    for row in rows:
        expected = ORACLE["ledgers"].get(str(row["ledger_id"]))
        owner = json.loads(row["evidence"]).get("owner")
        if expected is None or expected["listed"] is not True:
            assert owner is None
        else:
            assert (owner["path"], owner["kind"]) == (expected["path"], expected["owner"])
            if "topic" in expected:
                name = f"{owner['tenant']}/{owner['namespace']}/{owner['topic']}"
                assert expected["topic"] == f"persistent://{name}"


def test_log_with_owner_named_ledgers_is_neither_reclaimable_nor_pinned(owned: RunWithTables) -> None:
    """Each bookie has one log, with bytes of ledgers whose metadata is gone and that an owner names."""
    holders = {row["bookie_id"] for row in owned.table("space") if row["class"] == "owner-named"}
    assert holders == {f"bookie-{number}.example:3181" for number in range(3)}
    assert owned.findings_of("entry-log-pinned") == []
    assert owned.findings_of("entry-log-reclaimable") == []


def test_owner_queries_count_replicas_log_bytes_and_surplus_by_topic(
    owned: RunWithTables, spark: SparkSession, tmp_path: Path
) -> None:
    document = (Path(__file__).parents[2] / "docs" / "owners.md").read_text("utf-8")
    (surplus,) = re.findall("```sql\n(.*?)```", document, re.DOTALL)
    paths: dict[tuple[int | None, int | None], tuple[str, str, str]] = {
        (row["scope_id"], row["ledger_id"]): (row["tenant"], row["namespace"], row["topic"])
        for row in owned.table("ownership")
        if row["ledger_id"] is not None and not row["borrowed"]
    }
    open_run(owned.out).views(spark)
    assert spark.sql(surplus).collect() == []
    members: Counter[tuple[str | None, ...]] = Counter()
    for row in owned.table("ledgers"):
        for replica in row["replicas"] or []:
            members[*paths[row["scope_id"], row["ledger_id"]], replica["bookie_id"]] += 1
    assert {tuple(row)[:-1]: row["ledgers"] for row in spark.sql(REPLICAS_BY_TOPIC).collect()} == members
    sizes: Counter[tuple[str | None, ...]] = Counter()
    for row in owned.table("space"):
        if row["kind"] == "log":
            owner = paths.get((row["scope_id"], row["ledger_id"]), (None, None, None))
            sizes[*owner, row["bookie_id"], row["path"], row["class"]] += row["bytes"]
    assert {tuple(row)[:-1]: row["bytes"] for row in spark.sql(LOG_BYTES_BY_TOPIC).collect()} == sizes
    # The broker left no surplus: of made-up rows, one ledger of which a shadow topic borrows.
    new = {"scope_id": 0, "tenant": "shop", "namespace": "orders", "topic": "new", "borrowed": False}
    surplus_replicas = [{"bookie_id": "bk-a", "count": 3}, {"bookie_id": "bk-b", "count": 1}]
    run = made_run(
        tmp_path,
        judged=[{"scope_id": 0, "ledger_id": ledger, "surplus": surplus_replicas} for ledger in (1, 2, 3)],
        ownership=[
            {**new, "ledger_id": 1},
            {**new, "ledger_id": 2},
            {**new, "ledger_id": 2, "topic": "copy", "borrowed": True},
        ],
    )
    run.views(spark)
    assert {tuple(row) for row in spark.sql(surplus).collect()} == {
        ("shop", "orders", "new", "bk-a", 2, 6),
        ("shop", "orders", "new", "bk-b", 2, 2),
        (None, None, None, "bk-a", 1, 3),
        (None, None, None, "bk-b", 1, 1),
    }


def test_topic_view_has_its_ledgers_cursors_and_backlog(owned: RunWithTables) -> None:
    view = topic_view(RunReader(owned.out), "persistent://fleet/telemetry/door")
    expected = ORACLE["topics"]["persistent://fleet/telemetry/door"]["internal_info"]["ledgers"]
    assert [ledger.ledger_id for ledger in view.ledgers] == [ledger["ledgerId"] for ledger in expected]
    assert [ledger.fault for ledger in view.ledgers if ledger.ledger_id == 126] == ["owner-dangling"]
    closed = {ledger.replication_class for ledger in view.ledgers if ledger.state == "CLOSED"}
    assert closed == {"healthy"}
    assert [ledger.replication_class for ledger in view.ledgers if ledger.ledger_id == 126] == [None]
    assert {cursor.name for cursor in view.cursors} == {"audit", "main"}
    # Both cursors had ledgers of their own when the broker was halted: what they passed since is there.
    assert {ledger.backlog for ledger in view.ledgers} == {Backlog.POSITION_UNKNOWN}
    shown = bkaudit("explain", "topic", "fleet/telemetry/door", "--run", str(owned.out))
    assert shown.exit_code == 0, shown.output
    assert "owner-dangling" in shown.output


def test_tenant_totals_count_owned_ledgers_and_leaked_bytes(owned: RunWithTables) -> None:
    totals = {total.name: total for total in OwnerTotals(RunReader(owned.out)).totals_of("tenant")}
    assert totals.keys() - {NOBODY} == {"fleet", "pulsar", "shop"}
    for tenant in ("fleet", "pulsar", "shop"):
        # A leak counts where its last owner was.
        leaks = [
            fault["ledger"]
            for fault in FAULTS
            if fault["expect"] == "ledger-unowned" and f"/{tenant}/" in fault["path"]
        ]
        assert totals[tenant].unowned == len(leaks)
        lengths = [ORACLE["ledgers"][str(ledger)].get("length", 0) for ledger in leaks]
        assert totals[tenant].leaked_bytes == sum(lengths)
        owned_here = [
            ledger
            for ledger in ORACLE["ledgers"].values()
            if ledger["listed"] is True and ledger["bk_metadata"] and f"/{tenant}/" in ledger["path"]
        ]
        assert totals[tenant].ledgers == len(owned_here)
        assert totals[tenant].bytes == sum(ledger.get("length", 0) for ledger in owned_here)
    shown = bkaudit("report", str(owned.out), "--by", "topic")
    assert "fleet/telemetry/odometer" in shown.output
