"""The three classes of ledgers with too few copies: one finding per ledger, in its class."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.tables import ClusterFacts, Tables
from tests.checks.tables_builder import entries, facts, find, packed, places, tables

LOST, BELOW_ACK, BELOW_WRITE = "entry-lost", "below-ack-quorum", "below-write-quorum"


def test_each_ledger_gets_one_finding_in_its_class(spark: SparkSession) -> None:
    classes = {
        1: LOST,
        2: BELOW_ACK,
        3: BELOW_WRITE,
        4: "healthy",
        5: "undecided",
        6: "not-closed",
        7: BELOW_ACK,
    }
    cluster_tables = tables(
        spark,
        verdicts=[
            {"ledger_id": ledger, "class": worst, "potential_class": LOST if ledger == 3 else worst}
            for ledger, worst in classes.items()
        ],
        judged=[
            {
                "ledger_id": 1,
                "last_entry_id": 6,
                "m": 3,
                "mu": 3,
                "missing": [entries(bookie, (4, 4, 1, 0)) for bookie in "cab"],
                "class_entries": packed((4, 4, 1, 0)),
            },
            {
                "ledger_id": 2,
                "last_entry_id": 20,
                "m": 2,
                "mu": 2,
                "class_entries": packed((0, 8, 2, 4)),
                "missing": [entries("a", (0, 8, 2, 4))],
                "doubts": ["too fresh"],
            },
            {
                "ledger_id": 3,
                "last_entry_id": 6,
                "m": 1,
                "mu": 3,
                "class_entries": None,
                "missing": [entries("a", (4, 4, 1, 0))],
                "unknown": [("c", 10, "unread"), ("b", 10, "unreadable")],
            },
            {"ledger_id": 5, "m": 0, "mu": 0},
            {"ledger_id": 6, "state": "OPEN", "m": 0, "mu": 0, "lagging": [entries("a", (4, 4, 1, 0))]},
            {
                "ledger_id": 7,
                "state": "OPEN",
                "m": 3,
                "mu": 3,
                "missing": [entries("a", (4, 4, 1, 0))],
                "class_entries": packed((4, 4, 1, 0)),
            },
        ],
    )

    [lost] = find(LOST, cluster_tables)
    assert (lost.where, lost.severity, lost.confidence) == ((1, None), "critical", "confirmed")
    assert lost.missing == [entries(bookie, (4, 4, 1, 0)) for bookie in "abc"]
    assert (
        lost.message
        == "ledger 1: 1 of 7 entries has no copy left (write quorum 3); not marked for re-replication"
    )
    assert lost.evidence["class_entries"] == {"groups": [[4, 4, 1, 0]], "count": 1}
    assert lost.evidence["copies_missing"] == 3

    doubted, still_open = find(BELOW_ACK, cluster_tables)
    assert (doubted.where, doubted.severity, doubted.confidence) == ((2, None), "error", "suspect")
    assert doubted.message.startswith(
        "ledger 2: 6 of 21 entries have fewer copies than the ack quorum of 2, at worst 1 of 3 copies; "
        "not marked"
    )
    assert doubted.evidence["class_entries"] == {"groups": [[0, 8, 2, 4]], "count": 6}
    assert doubted.evidence["doubts"] == ["too fresh"]
    assert (still_open.where, still_open.confidence) == ((7, None), "suspect")
    assert still_open.message.startswith(
        "ledger 7 (OPEN): 1 entry has fewer copies than the ack quorum of 2, at worst 0 of 3 copies; "
    )

    [partly] = find(BELOW_WRITE, cluster_tables)
    assert (partly.where, partly.severity, partly.confidence) == ((3, None), "warning", "confirmed")
    assert partly.unknown == ["b", "c"]
    assert partly.message.startswith(
        "ledger 3: some entries (too irregular to list) have fewer copies than the write quorum of 3, "
        "at worst 2 of 3 copies; "
        "at worst entry-lost: copies on b, c are unknown; not marked"
    )
    assert partly.evidence["class_entries"] is None


def test_healthy_ledger_with_an_unreadable_index_is_undecided(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        verdicts=[
            {"ledger_id": 1, "class": "healthy", "potential_class": BELOW_WRITE},
            {"ledger_id": 2, "class": "healthy", "potential_class": BELOW_WRITE},
            {"ledger_id": 3, "class": BELOW_ACK, "potential_class": BELOW_ACK},
            {"ledger_id": 4, "class": "not-closed", "potential_class": BELOW_ACK},
        ],
        judged=[
            {"ledger_id": 1, "mu": 1, "unknown": [("b", 10, "unreadable")]},
            {"ledger_id": 2, "mu": 1, "unknown": [("b", 10, "unread")]},
            {"ledger_id": 3, "m": 2, "mu": 2, "unknown": [("b", 10, "unreadable")]},
            {
                "ledger_id": 4,
                "mu": 2,
                "state": "OPEN",
                "unknown": [("b", 1, "unread"), ("a", 1, "unreadable")],
            },
        ],
    )
    closed, still_open = find("replication-undecided", cluster_tables)
    assert (closed.where, closed.severity, closed.confidence) == ((1, None), "note", "unknown")
    assert (closed.unknown, closed.missing) == (["b"], [])
    assert closed.evidence["potential_class"] == BELOW_WRITE
    assert (still_open.where, still_open.unknown) == ((4, None), ["a", "b"])


def test_undecided_finding_names_the_reason(spark: SparkSession) -> None:
    classes = {"class": "healthy", "potential_class": BELOW_WRITE}
    cluster_tables = tables(
        spark,
        verdicts=[{"ledger_id": number, **classes} for number in (1, 2, 3)],
        judged=[
            {"ledger_id": 1, "mu": 1, "unknown": [("b", 10, "misplaced"), ("a", 10, "misplaced")]},
            {"ledger_id": 2, "mu": 1, "unknown": [("b", 10, "not-indexed")]},
            {
                "ledger_id": 3,
                "mu": 1,
                "unknown": [("a", 1, "limbo"), ("b", 1, "unread"), ("c", 1, "unreadable")],
            },
        ],
    )
    elsewhere, unserved, several = (
        finding.message for finding in find("replication-undecided", cluster_tables)
    )
    assert elsewhere == (
        "ledger 1: undecided, at worst below-write-quorum; index file in the wrong place on a, b"
    )
    assert unserved.endswith("; not in the index of ledgers on b")
    assert several.endswith("; index unreadable on c; in limbo on a; not read: b")


def test_causes_reported_per_bookie_get_no_finding_per_ledger(spark: SparkSession) -> None:
    whys = ["limbo", "wrong-directory", "unread", "unreadable"]
    cluster_tables = tables(
        spark,
        verdicts=[
            {"ledger_id": n, "class": "healthy", "potential_class": BELOW_WRITE} for n in range(len(whys))
        ],
        judged=[{"ledger_id": n, "mu": 1, "unknown": [("a", 1, why)]} for n, why in enumerate(whys)],
    )
    assert places(find("replication-undecided", cluster_tables)) == [(3, None)]


def test_index_without_journal_entries_gets_one_finding_per_bookie(spark: SparkSession) -> None:
    """440 ledgers of bookies with journalWriteData=false once gave 440 findings."""
    no_data = "the journal has master keys and no entries: journalWriteData=false"
    ledgers = range(1, 7)
    cluster_tables = tables(
        spark,
        bookies=[
            {"bookie_id": "a", "tail": "unread", "tail_reason": no_data},
            {"bookie_id": "b", "tail": "read"},
            {"bookie_id": "c", "tail": "unread"},
        ],
        verdicts=[
            {"ledger_id": n, "class": "healthy", "potential_class": BELOW_ACK if n == 2 else BELOW_WRITE}
            for n in ledgers
        ],
        judged=[
            {"ledger_id": 1, "mu": 1, "unknown": [("a", 1, "not-asked")]},
            {"ledger_id": 2, "mu": 2, "unknown": [("a", 1, "index-incomplete"), ("c", 1, "not-asked")]},
            {"ledger_id": 3, "mu": 1, "unknown": [("b", 1, "not-asked")]},
            {"ledger_id": 4, "mu": 1, "unknown": [("a", 1, "unreadable")]},
            {"ledger_id": 5, "mu": 2, "unknown": [("a", 1, "not-asked"), ("b", 1, "unreadable")]},
            {"ledger_id": 6, "mu": 1, "unknown": [("c", 1, "unread")]},
        ],
    )
    by_place = {finding.where: finding for finding in find("replication-undecided", cluster_tables)}
    assert by_place.keys() == {(None, "a"), (None, "c"), (3, None), (4, None), (5, None)}
    assert {finding.confidence for finding in by_place.values()} == {"unknown"}
    bookie_finding = by_place[None, "a"]
    assert bookie_finding.message == (
        "a: its index is older than 3 ledgers (at worst below-ack-quorum, below-write-quorum), and its "
        f"journal shows no newer entries: {no_data}"
    )
    assert (bookie_finding.unknown, bookie_finding.evidence["ledgers"]) == (["a"], 3)
    assert by_place[None, "c"].message.endswith(
        "(at worst below-ack-quorum), and its journal shows no newer entries"
    )


def test_only_missing_entries_at_an_open_end_are_lagging(spark: SparkSession) -> None:
    lagging = [entries(bookie, (7, 7, 1, 0)) for bookie in "ba"]
    cluster_tables = tables(
        spark,
        judged=[
            {"ledger_id": 1, "state": "OPEN", "lagging": lagging},
            {"ledger_id": 2, "state": "OPEN", "missing": lagging},
        ],
    )
    [finding] = find("copy-lagging", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((1, None), "note", "suspect")
    assert finding.missing == sorted(lagging)
    assert places(find(BELOW_WRITE, cluster_tables)) == []


def lost_ledgers(spark: SparkSession, cluster: ClusterFacts | None = None, **rows: Any) -> Tables:
    numbers = (1, 2, 3, 4)
    return tables(
        spark,
        cluster,
        verdicts=[{"ledger_id": n, "class": LOST, "potential_class": LOST} for n in numbers],
        judged=[{"ledger_id": n, "m": 3, "mu": 3, "missing": [entries("a", (4, 4, 1, 0))]} for n in numbers],
        **rows,
    )


def test_finding_says_if_its_ledger_is_marked_and_which_worker_locks_it(
    spark: SparkSession,
) -> None:
    cluster_tables = lost_ledgers(
        spark,
        marks=[
            {"ledger_id": 1, "replicas": ["b", "a"], "ctime": 70, "mtime": 90},
            {"ledger_id": 2, "replicas": ["a"], "mtime": 80},
            {"ledger_id": 4, "replicas": ["a"], "ctime": 70, "misplaced": True},  # no worker looks there
        ],
        locks=[
            {"ledger_id": 2, "owner": "worker1", "ctime": 85},
            {"ledger_id": 3, "owner": "gc", "ctime": 86},
        ],
    )
    by_ledger = {finding.ledger_id: finding for finding in find(LOST, cluster_tables)}
    queues = {number: tuple(finding.evidence["queue"].values()) for number, finding in by_ledger.items()}
    assert queues == {
        1: (True, 70, ["a", "b"], None, None),
        2: (True, 80, ["a"], "worker1", 85),
        3: (False, None, None, "gc", 86),
        4: (False, None, None, None, None),
    }
    assert {number: finding.message.split("; ")[-1] for number, finding in by_ledger.items()} == {
        1: "marked for re-replication, not locked by any worker",
        2: "marked for re-replication, locked by worker1",
        3: "not marked for re-replication, locked by gc",
        4: "not marked for re-replication",
    }


@pytest.mark.parametrize(
    ("keeps_marks", "why"),
    [(False, "this store keeps no under-replication marks"), (True, "not all marks could be listed")],
)
def test_finding_says_why_replication_marks_are_unknown(
    spark: SparkSession, keeps_marks: bool, why: str
) -> None:
    # Not by the layout: Pulsar's metadata-store:etcd has the layout of ZooKeeper's paths, and marks.
    for finding in find(
        LOST, lost_ledgers(spark, facts(layout="etcd", has_marks=False, keeps_marks=keeps_marks))
    ):
        assert finding.evidence["queue"]["marked"] is None
        assert finding.message.endswith(f"; it is unknown whether it is marked for re-replication: {why}")
