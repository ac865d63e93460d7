"""A collector's action on each ledger, and whether it is right: one cluster, one ledger per case."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from auditor.model.collector_settings import CollectorSettings
from auditor.model.ledger_id import LayoutKind
from auditor.tables.gc_foresight import CollectorInputs, gc_foresight
from auditor.tables.gc_listing import ServerListing
from auditor.tables.run_tables import TABLES
from tests.checks.tables_builder import NOW_MS, Row, entries, frame, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL, MEMBER, MEMBER_2, OLD = "bk1", "bk2", "bk3", "bk1-old"
PLAIN_LISTING = ServerListing()
FIVE = (5, 5, 1, 0)
"""Entry 5 alone, as a group."""


def copy(ledger_id: int, **values: Any) -> Row:
    return {"ledger_id": ledger_id, "bookie_id": LOCAL, "count": 1, **values}


def holds(ledger_id: int, *groups: tuple[int, int, int, int]) -> Row:
    held_bytes = b"".join(struct.pack(">qqii", *group) for group in groups)
    return {
        "scope_id": 0,
        "ledger_id": ledger_id,
        "bookie_id": LOCAL,
        "held": held_bytes,
        "index_state": "ok",
    }


def verdict(
    ledger_id: int, class_name: str, potential: str = "", unread: Sequence[str] = (), **values: Any
) -> Row:
    return {
        "ledger_id": ledger_id, "class": class_name, "potential_class": potential or class_name,
        "unread_bookies": list(unread), "confidence": "confirmed", **values,
    }  # fmt: skip


def lost(ledger_id: int) -> Row:
    """Return a judgement: entry 5 is missing on both members, entry 6 on one."""
    missing = [entries(MEMBER, (5, 5, 2, 0)), entries(MEMBER_2, FIVE)]
    return {"ledger_id": ledger_id, "write_quorum": 2, "missing": missing}


def answers(
    spark: SparkSession, listing: ServerListing = PLAIN_LISTING, layout: str = "flat", **settings: Any
) -> dict[int, tuple[str, ...]]:
    """Return the action, cause, verdict and reason of each ledger."""
    audit_tables = tables(
        spark,
        ledgers=[ledger(number, MEMBER, MEMBER_2) for number in (*range(10, 19), *range(20, 25))]
        + [ledger(19, OLD, MEMBER_2), ledger(30, LOCAL, MEMBER), ledger(31, MEMBER)]
        + [ledger(32, LOCAL, undecidable=True, status="unreadable")],
        over_replicated=[
            copy(10), copy(11), copy(12), copy(13, marked=True), copy(14, exposed=True), copy(15),
            copy(16, state="OPEN"), copy(17, locked=True), copy(18), copy(19), copy(20, behind_end=3),
            copy(21, marked=True, exposed=True), copy(22), copy(23), copy(24),
        ],
        unequal=[holds(11, FIVE), holds(12, (6, 6, 1, 0)), holds(18, FIVE), holds(24, (6, 6, 1, 0))],
        judged=[lost(11), lost(12), lost(18), {**lost(24), "unknown": [{"bookie_id": MEMBER_2, "count": 1}]}],
        verdicts=[
            verdict(10, "healthy"), verdict(11, "entry-lost"), verdict(12, "entry-lost"),
            verdict(13, "healthy"), verdict(14, "healthy"), verdict(15, "healthy", "entry-lost", [MEMBER_2]),
            verdict(16, "not-closed"), verdict(17, "healthy"), verdict(19, "healthy"),
            verdict(20, "healthy"), verdict(21, "below-write-quorum", "entry-lost", [MEMBER_2]),
            verdict(22, "below-write-quorum", "entry-lost"), verdict(23, "undecided"),
            verdict(24, "entry-lost"),
            verdict(18, "entry-lost", confidence="suspect"),
        ],
        availability=[{"ledger_id": number, "bookie_id": LOCAL} for number in (30, 31, 32)],
    )  # fmt: skip
    orphans = frame(
        spark,
        "orphans",
        [{"ledger_id": 40, "bookie_id": LOCAL}, {"ledger_id": 90, "bookie_id": LOCAL}],
    )
    doubts = "CASE WHEN ledger_id = 90 THEN array('newer-than-scan') ELSE array() END AS doubts"
    collector = CollectorInputs(
        CollectorSettings(**settings), LayoutKind(layout), listing, frozenset({(LOCAL, OLD), (OLD, LOCAL)})
    )
    rows = gc_foresight(
        collector,
        orphans.selectExpr("*", doubts),
        audit_tables.over_replicated,
        audit_tables.ledgers,
        audit_tables.availability,
        audit_tables.judged,
        audit_tables.verdicts,
        audit_tables.unequal,
        None,
        NOW_MS,
    )
    assert rows.columns == TABLES["gc_foresight"].columns.names
    actions = rows.collect()
    assert {(row["bookie_id"], row["scope_id"], row["since"]) for row in actions} == {(LOCAL, 0, NOW_MS)}
    return {row["ledger_id"]: (row["action"], row["cause"], row["verdict"], row["reason"]) for row in actions}


def ids(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame([(number,) for number in numbers], "ledger_id long")


def test_copies_outside_ensembles_are_judged_by_entries_of_members(spark: SparkSession) -> None:
    actions = answers(spark)
    goes = ("delete", "in-no-ensemble")
    assert actions == {
        10: (*goes, "right", "copies-elsewhere"),
        11: (*goes, "wrong", "last-copy"),
        12: (*goes, "right", "copies-elsewhere"),  # one member has the entry
        13: (*goes, "unknown", "copy-in-flight"),
        14: (*goes, "unknown", "copy-in-flight"),
        15: (*goes, "unknown", "members-unknown"),
        16: ("keep", "not-closed", "right", "kept"),
        17: ("keep", "locked", "right", "kept"),
        18: (*goes, "unknown", "members-unknown"),  # that the entry is lost is not sure
        19: (*goes, "wrong", "under-another-id"),
        20: (*goes, "unknown", "behind-end"),
        21: (*goes, "unknown", "members-unknown"),  # it is being copied, perhaps from here
        22: (*goes, "unknown", "members-unknown"),  # an index on a member that was read is damaged
        23: (*goes, "unknown", "members-unknown"),
        24: (*goes, "unknown", "members-unknown"),  # more may be lost than what it lacks too
        40: ("delete", "not-listed", "right", "no-metadata"),
        90: ("delete", "not-listed", "unknown", "newer-than-scan"),
    }


def test_ledger_listed_out_of_order_is_deleted_although_needed(spark: SparkSession) -> None:
    """The pass ends at 50. It lists ledgers 10 to 20 in order, and does not find 30 to 32."""
    actions = answers(spark, ServerListing(ids(spark, *range(10, 21)), 50))
    out = ("delete", "listed-out-of-order")
    assert {number: actions[number] for number in (30, 31, 32, 40, 90)} == {
        30: (*out, "wrong", "in-its-ensembles"),
        31: (*out, "unknown", "members-unknown"),  # nobody weighed that copy
        32: (*out, "unknown", "metadata-unreadable"),
        40: ("delete", "not-listed", "right", "no-metadata"),
        90: ("keep", "listing-breaks-off", "unknown", "newer-than-scan"),
    }


def test_metadata_verification_keeps_own_ledgers_listed_out_of_order(spark: SparkSession) -> None:
    actions = answers(spark, ServerListing(ids(spark, *range(10, 21)), 50), verify_metadata=True)
    assert {number: actions[number][:2] for number in (30, 31, 32, 40)} == {
        30: ("keep", "metadata-read"),
        31: ("delete", "listed-out-of-order"),
        32: ("keep", "metadata-read"),
        40: ("delete", "not-listed"),
    }


def test_maximum_id_in_listing_deletes_all_and_wrong_name_spares_one_ledger(
    spark: SparkSession,
) -> None:
    over = answers(spark, ServerListing(ids(spark, 30, 31, 32, 40), None, True))
    assert {number: over[number][:3] for number in (30, 40)} == {
        30: ("delete", "listing-overflows", "wrong"),
        40: ("delete", "listing-overflows", "right"),
    }
    spared = answers(spark, ServerListing(ids(spark, *range(10, 20), 30, 31, 32, 40)))
    assert spared[40] == ("keep", "listed-by-another-name", "wrong", "not-collected")
    assert spared.keys().isdisjoint({30, 31, 32})


def test_verified_metadata_on_etcd_keeps_all_ledgers(spark: SparkSession) -> None:
    actions = answers(spark, layout="etcd", verify_metadata=True)
    assert actions[40] == ("keep", "metadata-read", "wrong", "not-collected")
    assert {actions[number][:2] for number in range(10, 20)} == {("keep", "no-locks")}
