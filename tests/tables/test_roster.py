"""The roster: rows in the driver, and the facts in them that are certain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auditor.tables import ClusterFacts, Roster

CLUSTER = ClusterFacts("a77a8e0d", 90_000_000, live=False, layout="flat", two_scans=False)


def roster(cluster: ClusterFacts = CLUSTER, **rows: list[dict[str, Any]]) -> Roster:
    return Roster.read(lambda name: rows.get(name, []), cluster)


def bookie(name: str, **values: Any) -> dict[str, Any]:
    return {
        "bookie_id": name,
        "named": True,
        "found": True,
        "registered": "writable",
        "read": "read",
        **values,
    }


def test_incompletely_listed_bookie_is_not_reported_unregistered() -> None:
    rows = [bookie("bk1"), bookie("bk2", registered=None), bookie("bk3", registered=None, named=False)]
    complete_roster = roster(bookies=rows)
    assert [row["bookie_id"] for row in complete_roster.unregistered] == ["bk2"]
    unclear = replace(CLUSTER, unclear_bookies=frozenset({"bk2"}))
    assert roster(unclear, bookies=rows).unregistered == []
    assert [row["bookie_id"] for row in roster(unclear, bookies=rows).certain_bookies] == ["bk1", "bk3"]
    assert roster(replace(CLUSTER, bookies_listed=False), bookies=rows).certain_bookies == []


def test_unread_bookies_exclude_unnamed_bookies_without_directory() -> None:
    rows = [
        bookie("bk1"),
        bookie("bk2", read="partial"),
        bookie("bk3", named=False, read="unread"),
        bookie("bk4", found=False, named=False, read="unread"),
    ]
    assert [row["bookie_id"] for row in roster(bookies=rows).unread_bookies] == ["bk2", "bk3"]


def test_aliases_of_stranded_identities_are_pairs_in_both_orders() -> None:
    rows = [
        {"bookie_id": "old", "aliases": ["new"], "stranded": True},
        {"bookie_id": "new", "aliases": ["old"], "stranded": True},
        {"bookie_id": "a", "aliases": ["b"], "stranded": False},
    ]
    assert roster(identities=rows).aliases == {("old", "new"), ("new", "old")}
