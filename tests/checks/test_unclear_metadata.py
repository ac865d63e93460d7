"""Metadata that cannot be decoded, and znodes that belong to no ledger."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables

ROWS: list[Row] = [
    {"ledger_id": 1, "path": "L1"},
    {
        "ledger_id": 2,
        "path": "L2",
        "status": "unreadable",
        "damage": "no header",
        "damage_offset": 0,
        "version": 4,
    },
    {"ledger_id": 3, "path": "wrong/L3", "status": "misplaced", "low": 3, "high": 3, "damage": "wrong tree"},
    {"ledger_id": 3, "path": "L3"},
    {"path": "L0x", "status": "misplaced", "low": 0, "high": 9999},
    {"path": "L9x", "status": "misplaced"},
    {"path": "00", "status": "gap", "low": 0, "high": 99},
]


def test_unreadable_metadata_finding_has_the_byte_offset(spark: SparkSession) -> None:
    [finding] = find("metadata-unreadable", tables(spark, ledgers=ROWS))
    assert (finding.where, finding.severity, finding.confidence) == ((2, None), "error", "confirmed")
    assert finding.evidence == {"path": "L2", "offset": 0, "reason": "no header", "version": 4}
    assert finding.message.endswith("no header (at byte 0)")


def test_misplaced_znodes_get_one_finding_per_ledger_id(spark: SparkSession) -> None:
    nameless, identified = find("metadata-misplaced", tables(spark, ledgers=ROWS))
    assert places([nameless, identified]) == [(None, None), (3, None)]
    assert nameless.evidence["paths"] == ["L0x", "L9x"]
    assert (nameless.evidence["low"], nameless.evidence["high"]) == ("0", "9999")
    assert (identified.evidence["paths"], identified.evidence["count"]) == (["wrong/L3"], 1)
    assert identified.severity == "error"
    assert "critical" not in {nameless.severity, identified.severity}


def misplaced_row(number: int, listed: bool) -> Row:
    id = number if listed else None
    columns: Row = {"status": "misplaced", "damage": "a path of layout longhierarchical", "ledger_id": id}
    return {**columns, "path": f"{number:03}", "low": number, "high": number}


DISAGREE = (
    "LAYOUT says flat, but 12 ledgers are at paths of layout longhierarchical; 0 are at paths of the "
    "layout in use"
)


def test_ledgers_in_a_tree_of_another_layout_get_one_finding_that_says_so_first(spark: SparkSession) -> None:
    rows = [
        *(misplaced_row(number, listed=False) for number in range(1, 13)),
        {"path": "notes", "status": "misplaced"},
    ]
    [finding] = find("metadata-misplaced", tables(spark, facts(wrong_tree_reason=DISAGREE), ledgers=rows))
    assert (finding.where, finding.severity, finding.confidence) == ((None, None), "critical", "confirmed")
    assert finding.message.startswith(f"{DISAGREE}; 13 znodes are not at the path of a ledger: 001, 002, ")
    assert finding.message.endswith(
        "; bookies do not list these ledgers, and garbage collection deletes them"
    )
    assert {key: finding.evidence[key] for key in ("count", "elsewhere", "low", "high")} == {
        "count": 13,
        "elsewhere": 12,
        "low": "1",
        "high": "12",
    }
    # Without a LAYOUT, as in a dump that is cut, it is not known whose tree it is.
    [unsure] = find(
        "metadata-misplaced",
        tables(spark, facts(wrong_tree_reason=DISAGREE, layout_known=False), ledgers=rows),
    )
    assert (unsure.severity, unsure.confidence) == ("critical", "suspect")
    # Few of many are not a tree.
    [few] = find("metadata-misplaced", tables(spark, ledgers=rows))
    assert (few.severity, few.message.partition(": ")[0]) == (
        "error",
        "13 znodes are not at the path of a ledger",
    )


def test_ledgers_of_another_tree_that_bookies_list_are_an_error_and_not_critical(spark: SparkSession) -> None:
    """The hierarchical layout has two trees. Only its readers check which ids belong to which tree."""
    rows = [*(misplaced_row(number, listed=True) for number in (1, 2)), *ROWS[3:4]]
    cluster_tables = tables(
        spark, facts(wrong_tree_reason=DISAGREE), ledgers=[*rows, {**ROWS[2], "damage": None}]
    )
    findings = find("metadata-misplaced", cluster_tables)
    assert [(finding.ledger_id, finding.severity) for finding in findings] == [(None, "error"), (3, "error")]
    assert findings[0].message == f"{DISAGREE}; 2 znodes are not at the path of a ledger: 001, 002"


def test_wrong_tree_of_ledgers_leaves_deleted_marks_and_unused_cookies_unproved(
    spark: SparkSession,
) -> None:
    rows: dict[str, list[Row]] = {
        "ledgers": [misplaced_row(1, listed=False)],
        "marks": [{"ledger_id": 7, "replicas": ["bk1"]}],
        "bookies": [{"bookie_id": "bk1", "named": False, "registered": None}],
    }
    clear, unknown = (tables(spark, facts(wrong_tree_reason=why), **rows) for why in (None, DISAGREE))
    assert len(find("mark-of-deleted-ledger", clear)) == 1
    assert find("mark-of-deleted-ledger", unknown) == []
    unused = [find("cookie-unused", cluster_tables)[0].confidence for cluster_tables in (clear, unknown)]
    assert unused == ["confirmed", "suspect"]
