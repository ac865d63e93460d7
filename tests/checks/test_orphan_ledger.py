"""Ledgers without metadata, and the conditions that make such a finding suspect."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, places, tables


def test_a_ledger_that_no_scan_lists_is_an_orphan_on_each_of_its_bookies(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}, {"bookie_id": "swapped", "suspect": True}],
        holdings=[
            {"bookie_id": "bk1", "ledgers": 9, "orphans": 3},
            {"bookie_id": "bk2", "ledgers": 100, "orphans": 100},
        ],
        orphans=[
            {"bookie_id": "bk1", "ledger_id": 1},
            {"bookie_id": "bk2", "ledger_id": 1},  # as all that bk2 has
            {"bookie_id": "bk1", "ledger_id": 2, "newer_than_scan": True},
            {"bookie_id": "swapped", "ledger_id": 3},
            {"bookie_id": "bk1", "ledger_id": 4, "in_m0": True},  # deleted meanwhile
            {"bookie_id": "bk1", "ledger_id": 5, "in_m1": True},  # made meanwhile
            {"bookie_id": "bk1", "ledger_id": 6, "doubt": "/r/00: refused"},
            {"bookie_id": "bk1", "ledger_id": 7, "in_m0": True, "doubt": "/r/00: refused"},
        ],
    )
    findings = find("orphan-ledger", cluster_tables)
    assert {finding.severity for finding in findings} == {"note"}
    assert [(*finding.where, finding.confidence, finding.evidence["doubts"]) for finding in findings] == [
        (1, "bk1", "confirmed", []),
        (1, "bk2", "suspect", ["metadata-suspect"]),
        (2, "bk1", "suspect", ["newer-than-scan"]),
        (3, "swapped", "suspect", ["attribution-suspect"]),
        (6, "bk1", "suspect", ["id-in-doubt"]),
    ]
    assert findings[0].message == "ledger 1 is on bk1, but not in the metadata"
    assert findings[-1].message == (
        "ledger 6 is on bk1, but not in the metadata; unconfirmed: the store may have the "
        "ledger at a path that could not be read, or at a wrong path (/r/00: refused)"
    )
    assert [finding.evidence["doubt"] for finding in findings] == [None] * 4 + ["/r/00: refused"]

    deleting, missed = find("orphan-ledger-deleting", cluster_tables)
    assert (deleting.where, deleting.severity, deleting.confidence) == ((4, "bk1"), "note", "confirmed")
    assert (missed.where, missed.confidence) == ((7, "bk1"), "suspect")
    assert missed.message.endswith(", or at a wrong path (/r/00: refused)")
    assert places(find("metadata-suspect", cluster_tables)) == [(None, "bk2")]
