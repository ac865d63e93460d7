"""Ids that are one bookie: told once, and only where ledgers are stranded under one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from auditor.tables.identities import identity_rows
from tests.checks.tables_builder import Row, entries, find, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.tables import Tables

OLD, NEW, OTHER = "10.0.0.1:3181", "bookie-7", "bookie-8"
GONE = {"registered": None, "found": False, "read": "unread", "ledgers": 9, "depending": 8, "replicas": 8}
EDGE = {"one": OLD, "other": NEW, "rule": "endpoint-is-id"}


def one_bookie(
    spark: SparkSession,
    edges: Sequence[Row] | None = None,
    old: Row | None = None,
    new: Row | None = None,
    more: dict[str, Row] | None = None,
    **rows: Any,
) -> Tables:
    """Two ids of one identity, and ``more`` of it; a third bookie is another."""
    bookies = {OLD: GONE | dict(old or {}), NEW: dict(new or {}), **(more or {})}
    of = dict.fromkeys(bookies, min(bookies)) | {OTHER: OTHER}
    bookies[OTHER] = {}
    unsaid = dict.fromkeys(("marked", "host", "port", "hosts", "disks", "cookie"))
    facts = [
        {
            **unsaid,
            "bookie_id": name,
            "named": said.get("named", True),
            "registered": said.get("registered", "writable") is not None,
        }
        for name, said in bookies.items()
    ]
    return tables(
        spark,
        bookies=[{"bookie_id": name} | dict(said) for name, said in bookies.items()],
        identities=identity_rows(facts, of),
        identity_edges=[EDGE] if edges is None else edges,
        **rows,
    )


def test_a_bookie_that_ledgers_name_by_an_id_that_is_gone_is_critical(spark: SparkSession) -> None:
    hint = {"one": OLD, "other": NEW, "rule": "same-directories", "joins": False}
    apart = {"one": OTHER, "other": OLD, "rule": "short-name", "joins": False, "against": "they differ"}
    [found] = find("bookie-alias", one_bookie(spark, [hint, EDGE, apart]))
    assert (found.where, found.severity, found.confidence) == ((None, OLD), "critical", "suspect")
    assert found.message == (
        "10.0.0.1:3181 is not registered and is probably the same bookie as bookie-7 "
        "(endpoint-is-id, same-directories); 8 ledgers depend on it"
    )
    assert [each["bookie_id"] for each in found.evidence["ids"]] == [OLD, NEW]
    assert found.evidence["edges"] == [
        {"one": OLD, "other": NEW, "rule": rule, "joins": joins, "evidence": "seen", "against": None}
        for rule, joins in (("endpoint-is-id", True), ("same-directories", False))
    ]


def test_ledgers_on_its_disks_confirm_it_unless_a_disk_is_out_of_place(spark: SparkSession) -> None:
    ledgers = {"one": OLD, "other": NEW, "rule": "same-ledgers"}
    [found] = find("bookie-alias", one_bookie(spark, [EDGE, ledgers]))
    [swapped] = find("bookie-alias", one_bookie(spark, [ledgers], new={"suspect": True}))
    assert (found.confidence, swapped.confidence) == ("confirmed", "suspect")


def test_an_id_that_no_entry_depends_on_is_a_note(spark: SparkSession) -> None:
    [found] = find("bookie-alias", one_bookie(spark, old={"depending": 0}))
    assert found.severity == "note"


def test_a_bookie_of_many_ids_is_told_once(spark: SparkSession) -> None:
    more: dict[str, Row] = {"BK1:3181": GONE | {"depending": 2}, "bk1:3181": GONE | {"named": False}}
    edges = [EDGE, {"one": "BK1:3181", "other": "bk1:3181", "rule": "same-address"}]
    [found] = find("bookie-alias", one_bookie(spark, edges, more=more))
    assert found.where == (None, OLD)
    assert found.message.startswith(
        "10.0.0.1:3181 is not registered and is probably the same bookie as BK1:3181, bk1:3181, bookie-7 ("
    )
    assert found.message.endswith("; 10 ledgers depend on it")
    assert len(found.evidence["edges"]) == 2


def test_two_ids_that_ledgers_name_and_nobody_is_registered_as_are_told(spark: SparkSession) -> None:
    assert len(find("bookie-alias", one_bookie(spark, new={"registered": None}))) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"registered": "readonly"}, {}, id="both are registered: they answer at one address"),
        pytest.param({"named": False}, {}, id="no ensemble names the old id: its ledgers were taught"),
        pytest.param({}, {"named": False, "registered": None}, id="only a cookie knows the other id"),
    ],
)
def test_aliases_that_strand_no_ledger_are_left_alone(spark: SparkSession, old: Row, new: Row) -> None:
    assert find("bookie-alias", one_bookie(spark, old=old, new=new)) == []


def test_ids_of_one_bookie_each_are_left_alone(spark: SparkSession) -> None:
    ids = [{"bookie_id": name, "identity": name, "stranded": False} for name in (OLD, NEW)]
    asked = tables(spark, bookies=[{"bookie_id": OLD, **GONE}, {"bookie_id": NEW}], identities=ids)
    assert find("bookie-alias", asked) == []


# What other checks leave to it, or take from it.


def test_a_ghost_is_told_with_its_other_ids(spark: SparkSession) -> None:
    ghost = {"has_cookie": False}
    [found] = find("ghost-bookie", one_bookie(spark, old=ghost))
    assert found.evidence["aliases"] == [NEW]
    [alone] = find("ghost-bookie", tables(spark, bookies=[{"bookie_id": OLD, **GONE, **ghost}]))
    assert alone.evidence["aliases"] is None


def test_a_place_whose_disks_all_carry_its_other_id_is_told_once(spark: SparkSession) -> None:
    disks = {"one": OLD, "other": NEW, "rule": "disks-name", "joins": False}
    rows: list[Row] = [{"path": "/d/1", "place": NEW, "cookie_bookie_id": OLD}]
    assert find("disk-id-mismatch", one_bookie(spark, [EDGE, disks], directories=rows)) == []
    # Not said by bookie-alias: some disks only; ids that strand no ledger; two bookies.
    for asked in (
        one_bookie(spark, [EDGE], directories=rows),
        one_bookie(spark, [EDGE, disks], old={"named": False}, directories=rows),
        one_bookie(spark, [disks], directories=[{**rows[0], "place": OTHER}]),
        one_bookie(spark, [disks], directories=[{**rows[0], "cookie_bookie_id": OTHER}]),
    ):
        assert len(find("disk-id-mismatch", asked)) == 1


def test_a_disk_with_the_ledgers_of_its_bookies_other_id_is_not_out_of_place(spark: SparkSession) -> None:
    row = {
        "directory": "/d/1", "place": NEW, "owner": NEW, "ledgers": 40, "candidate": OLD, "named": 30,
        "exact": 30, "better": 30,
    }  # fmt: skip
    down = {"registered": None}
    assert find("disk-content-mismatch", one_bookie(spark, new=down, contents=[row])) == []
    anothers = one_bookie(spark, new=down, contents=[{**row, "candidate": OTHER}])
    assert len(find("disk-content-mismatch", anothers)) == 1


DUE = entries("", (0, 9, 1, 3))[1]
LESS = entries("", (0, 6, 1, 3))[1]


def on_disk(held: bytes) -> dict[str, Any]:
    """One ledger that names the old id, and lies on the new one's disk."""
    pair: Row = {"scope_id": 0, "ledger_id": 7, "bookie_id": NEW}
    return {
        "ledgers": [{**ledger(7), "replicas": [(OLD, DUE, True), (OTHER, DUE, True)]}],
        "over_replicated": [{**pair, "count": 4}],
        "unequal": [{**pair, "held": held, "index_state": "ok"}],
    }


def test_of_an_alias_one_ledger_is_in_danger_for_sure_even_if_not_all_of_it_is_left(
    spark: SparkSession,
) -> None:
    for held in (DUE, LESS):
        [found] = find("alias-gc-danger", one_bookie(spark, **on_disk(held)))
        assert (found.where, found.confidence) == ((None, NEW), "confirmed")
        assert found.evidence["aliases"][0]["same_bookie"] is True
    two: dict[str, Any] = {"bookies": [{"bookie_id": OLD, **GONE}, {"bookie_id": NEW}, {"bookie_id": OTHER}]}
    [alone] = find("alias-gc-danger", tables(spark, **two, **on_disk(DUE)))
    assert alone.confidence == "suspect"
    assert find("alias-gc-danger", tables(spark, **two, **on_disk(LESS))) == []
