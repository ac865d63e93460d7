"""etcd keeps no times and no marks. Their absence causes no finding and no error."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.checks import ROSTER_CHECKS, TABLE_CHECKS
from auditor.findings.table import ask_roster_checks, ask_table_checks
from auditor.sources.metadata.store import NO_TIME, ClusterNodes, Znode
from auditor.tables.cluster_state import make_cluster_rows
from auditor.tables.registry import registrations
from tests.checks.tables_builder import facts, find, ledger, places, tables


def test_healthy_cluster_on_etcd_gets_no_finding(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        facts(layout="etcd", has_marks=False),
        bookies=[{"bookie_id": name, "ledgers": 2, "depending": 2, "replicas": 2} for name in ("bk1", "bk2")],
        ledgers=[
            ledger(1, "bk1", "bk2", mtime=None, ctime=None),
            ledger(2, "bk1", "bk2", mtime=None, ctime=None, state="IN_RECOVERY"),
            ledger(3, "bk1", "bk2", mtime=None, ctime=None, state="OPEN"),
        ],
        judged=[{"ledger_id": 2, "state": "IN_RECOVERY", "mtime": None}],
        verdicts=[{"ledger_id": 1}, {"ledger_id": 2, "class": "not-closed", "potential_class": "not-closed"}],
        holdings=[{"bookie_id": "bk1", "ledgers": 2}],
    )
    assert ask_table_checks(TABLE_CHECKS, cluster_tables).select("id", "message").collect() == []
    assert ask_roster_checks(ROSTER_CHECKS, cluster_tables.roster) == []


def test_store_without_marks_gets_no_missing_mark_finding(spark: SparkSession) -> None:
    down = {"bookie_id": "bk1", "depending": 1, "registered": None}
    cluster_tables = tables(
        spark, facts(has_marks=False), bookies=[down], ledgers=[ledger(1, "bk1", mtime=None)]
    )
    assert find("mark-missing", cluster_tables) == []
    assert places(find("bookie-down", cluster_tables)) == [(None, "bk1")]


@pytest.mark.parametrize("time", [NO_TIME, 5])
def test_missing_store_time_becomes_null(time: int) -> None:
    def node(path: str, data: bytes) -> Znode:
        return Znode(path, data, 3, 4, time, time, 4, 7)

    nodes = {
        "INSTANCEID": node("/bk/instanceid", b"a77a8e0d"),
        "available/bk1:3181": node("/bk/bookies/writable/bk1:3181", b""),
    }
    cluster = ClusterNodes(nodes, 9, "revision 4")
    [identity] = make_cluster_rows(cluster)
    [registered] = registrations(cluster)
    expected = None if time == NO_TIME else time
    assert (identity["mtime"], registered["ctime"]) == (expected, expected)
    # The etcd driver publishes no service info, and takes a bookie's id for its address.
    assert (registered["bookie_id"], registered["damage"]) == ("bk1:3181", None)
