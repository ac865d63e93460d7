"""Metadata that cannot be decoded, and znodes that are no ledger's."""

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


def test_unreadable_metadata_is_told_with_its_byte(spark: SparkSession) -> None:
    [found] = find("metadata-unreadable", tables(spark, ledgers=ROWS))
    assert (found.where, found.severity, found.confidence) == ((2, None), "error", "confirmed")
    assert found.evidence == {"path": "L2", "offset": 0, "reason": "no header", "version": 4}
    assert found.message.endswith("no header (at byte 0)")


def test_misplaced_znodes_are_told_by_the_id_they_stand_for(spark: SparkSession) -> None:
    nameless, named = find("metadata-misplaced", tables(spark, ledgers=ROWS))
    assert places([nameless, named]) == [(None, None), (3, None)]
    assert nameless.evidence["paths"] == ["L0x", "L9x"]
    assert (nameless.evidence["low"], nameless.evidence["high"]) == ("0", "9999")
    assert (named.evidence["paths"], named.evidence["count"]) == (["wrong/L3"], 1)
    assert named.severity == "error"
    assert "critical" not in {nameless.severity, named.severity}


def elsewhere(number: int, listed: bool) -> Row:
    id = number if listed else None
    said: Row = {"status": "misplaced", "damage": "a path of layout longhierarchical", "ledger_id": id}
    return {**said, "path": f"{number:03}", "low": number, "high": number}


DISAGREE = (
    "LAYOUT says flat, but 12 ledgers are at paths of layout longhierarchical; 0 are at paths of the "
    "layout in use"
)


def test_a_tree_that_layout_does_not_name_is_one_finding_and_said_first(spark: SparkSession) -> None:
    rows = [
        *(elsewhere(number, listed=False) for number in range(1, 13)),
        {"path": "notes", "status": "misplaced"},
    ]
    [found] = find("metadata-misplaced", tables(spark, facts(wrong_tree_reason=DISAGREE), ledgers=rows))
    assert (found.where, found.severity, found.confidence) == ((None, None), "critical", "confirmed")
    assert found.message.startswith(f"{DISAGREE}; 13 znodes are not at the path of a ledger: 001, 002, ")
    assert found.message.endswith("; bookies do not list these ledgers, and garbage collection deletes them")
    assert {key: found.evidence[key] for key in ("count", "elsewhere", "low", "high")} == {
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


def test_a_tree_that_bookies_list_all_the_same_is_one_finding_and_no_danger(spark: SparkSession) -> None:
    """The hierarchical layout has two trees; which ids belong to which, only its readers heed."""
    rows = [*(elsewhere(number, listed=True) for number in (1, 2)), *ROWS[3:4]]
    asked = tables(spark, facts(wrong_tree_reason=DISAGREE), ledgers=[*rows, {**ROWS[2], "damage": None}])
    found = find("metadata-misplaced", asked)
    assert [(each.ledger_id, each.severity) for each in found] == [(None, "error"), (3, "error")]
    assert found[0].message == f"{DISAGREE}; 2 znodes are not at the path of a ledger: 001, 002"


def test_what_lies_where_nobody_looks_makes_no_mark_a_deleted_ledgers_and_no_cookie_unused(
    spark: SparkSession,
) -> None:
    rows: dict[str, list[Row]] = {
        "ledgers": [elsewhere(1, listed=False)],
        "marks": [{"ledger_id": 7, "replicas": ["bk1"]}],
        "bookies": [{"bookie_id": "bk1", "named": False, "registered": None}],
    }
    known, unknown = (tables(spark, facts(wrong_tree_reason=why), **rows) for why in (None, DISAGREE))
    assert len(find("mark-of-deleted-ledger", known)) == 1
    assert find("mark-of-deleted-ledger", unknown) == []
    unused = [find("cookie-unused", asked)[0].confidence for asked in (known, unknown)]
    assert unused == ["confirmed", "suspect"]
