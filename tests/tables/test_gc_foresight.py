"""What a collector does with what it meets, and whether it may: one cluster, every case of it a ledger."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from auditor.model.collector_settings import CollectorSettings
from auditor.model.ledger_id import LayoutKind
from auditor.tables.gc_foresight import CollectorInputs, gc_foresight
from auditor.tables.gc_listing import ServerListing
from auditor.tables.run_tables import TABLES
from tests.checks.tables_builder import NOW, Row, entries, frame, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE, MEMBER, OTHER, OLD = "bk1", "bk2", "bk3", "bk1-old"
SANE = ServerListing()
FIVE = (5, 5, 1, 0)
"""Entry 5 alone, as a group."""


def copy(ledger_id: int, **said: Any) -> Row:
    return {"ledger_id": ledger_id, "bookie_id": HERE, "count": 1, **said}


def holds(ledger_id: int, *groups: tuple[int, int, int, int]) -> Row:
    held = b"".join(struct.pack(">qqii", *group) for group in groups)
    return {"scope_id": 0, "ledger_id": ledger_id, "bookie_id": HERE, "held": held, "index_state": "ok"}


def verdict(ledger_id: int, found: str, potential: str = "", unread: Sequence[str] = (), **said: Any) -> Row:
    return {
        "ledger_id": ledger_id, "class": found, "potential_class": potential or found,
        "unread_bookies": list(unread), "confidence": "confirmed", **said,
    }  # fmt: skip


def lost(ledger_id: int) -> Row:
    """Entry 5 is missing on both of its members, entry 6 on one."""
    missing = [entries(MEMBER, (5, 5, 2, 0)), entries(OTHER, FIVE)]
    return {"ledger_id": ledger_id, "write_quorum": 2, "missing": missing}


def answers(
    spark: SparkSession, listing: ServerListing = SANE, layout: str = "flat", **settings: Any
) -> dict[int, tuple[str, ...]]:
    """Of each ledger: action, cause, verdict and reason."""
    made = tables(
        spark,
        ledgers=[ledger(number, MEMBER, OTHER) for number in (*range(10, 19), *range(20, 25))]
        + [ledger(19, OLD, OTHER), ledger(30, HERE, MEMBER), ledger(31, MEMBER)]
        + [ledger(32, HERE, undecidable=True, status="unreadable")],
        over_replicated=[
            copy(10), copy(11), copy(12), copy(13, marked=True), copy(14, exposed=True), copy(15),
            copy(16, state="OPEN"), copy(17, locked=True), copy(18), copy(19), copy(20, behind_end=3),
            copy(21, marked=True, exposed=True), copy(22), copy(23), copy(24),
        ],
        unequal=[holds(11, FIVE), holds(12, (6, 6, 1, 0)), holds(18, FIVE), holds(24, (6, 6, 1, 0))],
        judged=[lost(11), lost(12), lost(18), {**lost(24), "unknown": [{"bookie_id": OTHER, "count": 1}]}],
        verdicts=[
            verdict(10, "healthy"), verdict(11, "entry-lost"), verdict(12, "entry-lost"),
            verdict(13, "healthy"), verdict(14, "healthy"), verdict(15, "healthy", "entry-lost", [OTHER]),
            verdict(16, "not-closed"), verdict(17, "healthy"), verdict(19, "healthy"),
            verdict(20, "healthy"), verdict(21, "below-write-quorum", "entry-lost", [OTHER]),
            verdict(22, "below-write-quorum", "entry-lost"), verdict(23, "undecided"),
            verdict(24, "entry-lost"),
            verdict(18, "entry-lost", confidence="suspect"),
        ],
        availability=[{"ledger_id": number, "bookie_id": HERE} for number in (30, 31, 32)],
    )  # fmt: skip
    orphans = frame(
        spark,
        "orphans",
        [{"ledger_id": 40, "bookie_id": HERE}, {"ledger_id": 90, "bookie_id": HERE}],
    )
    doubts = "CASE WHEN ledger_id = 90 THEN array('newer-than-scan') ELSE array() END AS doubts"
    collector = CollectorInputs(
        CollectorSettings(**settings), LayoutKind(layout), listing, frozenset({(HERE, OLD), (OLD, HERE)})
    )
    rows = gc_foresight(
        collector,
        orphans.selectExpr("*", doubts),
        made.over_replicated,
        made.ledgers,
        made.availability,
        made.judged,
        made.verdicts,
        made.unequal,
        None,
        NOW,
    )
    assert rows.columns == TABLES["gc_foresight"].columns.names
    found = rows.collect()
    assert {(row["bookie_id"], row["scope_id"], row["since"]) for row in found} == {(HERE, 0, NOW)}
    return {row["ledger_id"]: (row["action"], row["cause"], row["verdict"], row["reason"]) for row in found}


def ids(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame([(number,) for number in numbers], "ledger_id long")


def test_copies_outside_of_the_ensembles_go_where_members_have_every_entry(spark: SparkSession) -> None:
    said = answers(spark)
    goes = ("delete", "in-no-ensemble")
    assert said == {
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


def test_what_is_listed_out_of_order_goes_though_it_is_needed(spark: SparkSession) -> None:
    """The pass ends at 50, finds 10 to 20 in their places, and 30 to 32 not."""
    said = answers(spark, ServerListing(ids(spark, *range(10, 21)), 50))
    out = ("delete", "listed-out-of-order")
    assert {number: said[number] for number in (30, 31, 32, 40, 90)} == {
        30: (*out, "wrong", "in-its-ensembles"),
        31: (*out, "unknown", "members-unknown"),  # nobody weighed that copy
        32: (*out, "unknown", "metadata-unreadable"),
        40: ("delete", "not-listed", "right", "no-metadata"),
        90: ("keep", "listing-breaks-off", "unknown", "newer-than-scan"),
    }


def test_verified_metadata_saves_what_is_listed_out_of_order(spark: SparkSession) -> None:
    said = answers(spark, ServerListing(ids(spark, *range(10, 21)), 50), verify_metadata=True)
    assert {number: said[number][:2] for number in (30, 31, 32, 40)} == {
        30: ("keep", "metadata-read"),
        31: ("delete", "listed-out-of-order"),
        32: ("keep", "metadata-read"),
        40: ("delete", "not-listed"),
    }


def test_the_greatest_id_has_everything_deleted_and_a_name_of_no_ledger_spares_one(
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


def test_on_etcd_nothing_that_is_verified_goes(spark: SparkSession) -> None:
    said = answers(spark, layout="etcd", verify_metadata=True)
    assert said[40] == ("keep", "metadata-read", "wrong", "not-collected")
    assert {said[number][:2] for number in range(10, 20)} == {("keep", "no-locks")}
