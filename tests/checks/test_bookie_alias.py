"""Several ids of one bookie: reported once, and only if ledgers are stranded under one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from auditor.tables.identities import identity_rows
from tests.checks.tables_builder import Row, entries, find, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.tables import Tables

OLD, NEW, THIRD = "10.0.0.1:3181", "bookie-7", "bookie-8"
DOWN = {"registered": None, "found": False, "read": "unread", "ledgers": 9, "depending": 8, "replicas": 8}
EDGE = {"one": OLD, "other": NEW, "rule": "endpoint-is-id"}


def one_bookie(
    spark: SparkSession,
    edges: Sequence[Row] | None = None,
    old: Row | None = None,
    new: Row | None = None,
    extra_bookies: dict[str, Row] | None = None,
    **rows: Any,
) -> Tables:
    """Return two ids and ``extra_bookies`` with one identity, and a third bookie with another identity."""
    bookies = {OLD: DOWN | dict(old or {}), NEW: dict(new or {}), **(extra_bookies or {})}
    identity_of = dict.fromkeys(bookies, min(bookies)) | {THIRD: THIRD}
    bookies[THIRD] = {}
    unsaid = dict.fromkeys(("marked", "host", "port", "hosts", "disks", "cookie"))
    facts = [
        {
            **unsaid,
            "bookie_id": name,
            "named": row.get("named", True),
            "registered": row.get("registered", "writable") is not None,
        }
        for name, row in bookies.items()
    ]
    return tables(
        spark,
        bookies=[{"bookie_id": name} | dict(row) for name, row in bookies.items()],
        identities=identity_rows(facts, identity_of),
        identity_edges=[EDGE] if edges is None else edges,
        **rows,
    )


def test_ledgers_on_an_unregistered_alias_are_critical(spark: SparkSession) -> None:
    hint = {"one": OLD, "other": NEW, "rule": "same-directories", "joins": False}
    unrelated = {"one": THIRD, "other": OLD, "rule": "short-name", "joins": False, "against": "they differ"}
    [finding] = find("bookie-alias", one_bookie(spark, [hint, EDGE, unrelated]))
    assert (finding.where, finding.severity, finding.confidence) == ((None, OLD), "critical", "suspect")
    assert finding.message == (
        "10.0.0.1:3181 is not registered and is probably the same bookie as bookie-7 "
        "(endpoint-is-id, same-directories); 8 ledgers depend on it"
    )
    assert [bookie["bookie_id"] for bookie in finding.evidence["ids"]] == [OLD, NEW]
    assert finding.evidence["edges"] == [
        {"one": OLD, "other": NEW, "rule": rule, "joins": joins, "evidence": "seen", "against": None}
        for rule, joins in (("endpoint-is-id", True), ("same-directories", False))
    ]


def test_same_ledgers_confirm_an_alias_unless_the_bookie_is_suspect(spark: SparkSession) -> None:
    ledgers = {"one": OLD, "other": NEW, "rule": "same-ledgers"}
    [finding] = find("bookie-alias", one_bookie(spark, [EDGE, ledgers]))
    [swapped] = find("bookie-alias", one_bookie(spark, [ledgers], new={"suspect": True}))
    assert (finding.confidence, swapped.confidence) == ("confirmed", "suspect")


def test_alias_that_no_entry_depends_on_is_a_note(spark: SparkSession) -> None:
    [finding] = find("bookie-alias", one_bookie(spark, old={"depending": 0}))
    assert finding.severity == "note"


def test_bookie_of_many_ids_gets_one_finding(spark: SparkSession) -> None:
    aliases: dict[str, Row] = {"BK1:3181": DOWN | {"depending": 2}, "bk1:3181": DOWN | {"named": False}}
    edges = [EDGE, {"one": "BK1:3181", "other": "bk1:3181", "rule": "same-address"}]
    [finding] = find("bookie-alias", one_bookie(spark, edges, extra_bookies=aliases))
    assert finding.where == (None, OLD)
    assert finding.message.startswith(
        "10.0.0.1:3181 is not registered and is probably the same bookie as BK1:3181, bk1:3181, bookie-7 ("
    )
    assert finding.message.endswith("; 10 ledgers depend on it")
    assert len(finding.evidence["edges"]) == 2


def test_two_unregistered_ids_that_ledgers_name_get_a_finding(spark: SparkSession) -> None:
    assert len(find("bookie-alias", one_bookie(spark, new={"registered": None}))) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"registered": "readonly"}, {}, id="both are registered: they answer at one address"),
        pytest.param({"named": False}, {}, id="no ensemble names the old id: its ledgers were taught"),
        pytest.param({}, {"named": False, "registered": None}, id="only a cookie knows the other id"),
    ],
)
def test_aliases_that_strand_no_ledger_get_no_finding(spark: SparkSession, old: Row, new: Row) -> None:
    assert find("bookie-alias", one_bookie(spark, old=old, new=new)) == []


def test_bookies_with_one_id_each_get_no_finding(spark: SparkSession) -> None:
    ids = [{"bookie_id": name, "identity": name, "stranded": False} for name in (OLD, NEW)]
    cluster_tables = tables(spark, bookies=[{"bookie_id": OLD, **DOWN}, {"bookie_id": NEW}], identities=ids)
    assert find("bookie-alias", cluster_tables) == []


# What other checks leave to it, or take from it.


def test_ghost_finding_lists_the_bookies_other_ids(spark: SparkSession) -> None:
    ghost = {"has_cookie": False}
    [finding] = find("ghost-bookie", one_bookie(spark, old=ghost))
    assert finding.evidence["aliases"] == [NEW]
    [single_id] = find("ghost-bookie", tables(spark, bookies=[{"bookie_id": OLD, **DOWN, **ghost}]))
    assert single_id.evidence["aliases"] is None


def test_disk_id_mismatch_is_reported_only_where_the_alias_check_reports_nothing(spark: SparkSession) -> None:
    disks = {"one": OLD, "other": NEW, "rule": "disks-name", "joins": False}
    rows: list[Row] = [{"path": "/d/1", "place": NEW, "cookie_bookie_id": OLD}]
    assert find("disk-id-mismatch", one_bookie(spark, [EDGE, disks], directories=rows)) == []
    # Not said by bookie-alias: some disks only; ids that strand no ledger; two bookies.
    for cluster_tables in (
        one_bookie(spark, [EDGE], directories=rows),
        one_bookie(spark, [EDGE, disks], old={"named": False}, directories=rows),
        one_bookie(spark, [disks], directories=[{**rows[0], "place": THIRD}]),
        one_bookie(spark, [disks], directories=[{**rows[0], "cookie_bookie_id": THIRD}]),
    ):
        assert len(find("disk-id-mismatch", cluster_tables)) == 1


def test_disk_with_ledgers_of_its_bookies_other_id_is_not_misplaced(spark: SparkSession) -> None:
    row = {
        "directory": "/d/1", "place": NEW, "owner": NEW, "ledgers": 40, "candidate": OLD, "named": 30,
        "exact": 30, "better": 30,
    }  # fmt: skip
    down = {"registered": None}
    assert find("disk-content-mismatch", one_bookie(spark, new=down, contents=[row])) == []
    anothers = one_bookie(spark, new=down, contents=[{**row, "candidate": THIRD}])
    assert len(find("disk-content-mismatch", anothers)) == 1


DUE = entries("", (0, 9, 1, 3))[1]
LESS = entries("", (0, 6, 1, 3))[1]


def on_disk(groups: bytes) -> dict[str, Any]:
    """Return a ledger that names the old id and is on the new one's disk."""
    pair: Row = {"scope_id": 0, "ledger_id": 7, "bookie_id": NEW}
    return {
        "ledgers": [{**ledger(7), "replicas": [(OLD, DUE, True), (THIRD, DUE, True)]}],
        "over_replicated": [{**pair, "count": 4}],
        "unequal": [{**pair, "held": groups, "index_state": "ok"}],
    }


def test_known_alias_confirms_the_danger_for_one_ledger_even_with_entries_missing(
    spark: SparkSession,
) -> None:
    for groups in (DUE, LESS):
        [finding] = find("alias-gc-danger", one_bookie(spark, **on_disk(groups)))
        assert (finding.where, finding.confidence) == ((None, NEW), "confirmed")
        assert finding.evidence["aliases"][0]["same_bookie"] is True
    two: dict[str, Any] = {"bookies": [{"bookie_id": OLD, **DOWN}, {"bookie_id": NEW}, {"bookie_id": THIRD}]}
    [unlinked] = find("alias-gc-danger", tables(spark, **two, **on_disk(DUE)))
    assert unlinked.confidence == "suspect"
    assert find("alias-gc-danger", tables(spark, **two, **on_disk(LESS))) == []
