"""Causes: what proves them, what follows from them, and what they leave alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from auditor.findings.causes import Claim, cause_column, find_claims
from tests.tables.test_roster import bookie, roster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = "bk-a:3181", "bk-b:3181", "bk-c:3181"


def found(id: str, name: str | None, confidence: str = "confirmed", **evidence: Any) -> dict[str, Any]:
    return {"id": id, "bookie_id": name, "confidence": confidence, "evidence": json.dumps(evidence)}


def known(name: str, **said: Any) -> dict[str, Any]:
    facts = {"foreign_instance": False, "has_cookie": True, "replicas": 100}
    return bookie(name, **(facts | said))


def claims(
    *rows: dict[str, Any], bookies: list[dict[str, Any]] | None = None, lacking: dict[str, int] | None = None
) -> dict[str, Claim]:
    every = bookies if bookies is not None else [known(A), known(B), known(C)]
    return {each.kind: each for each in find_claims(rows, roster(bookies=every), lacking)}


MISMATCH = found("instance-mismatch", A, cookies=[{"place": "p", "instance_id": "other"}])


def test_a_bookie_of_another_cluster_is_one_only_if_all_its_directories_say_so() -> None:
    foreign = [known(A, foreign_instance=True, read="unread")]
    unread = found("bookie-unread", A, "unknown", read="unread", reason="of another cluster")
    [claim] = claims(MISMATCH, unread, bookies=foreign).values()
    assert (claim.kind, claim.bookies) == ("foreign-instance", (A,))
    assert claim.sentence == f"all directories of {A} are of another cluster, instance id other"
    assert {"instance-mismatch", "metadata-suspect", "bookie-unread"} <= claim.of_bookies
    assert claims(MISMATCH) == {}


def test_a_store_is_older_where_its_id_generator_says_so_and_explains_no_lower_orphan() -> None:
    older = [
        found("metadata-suspect", name, rules=["store-older"], undrawn_lowest=lowest)
        for name, lowest in ((A, "900"), (B, "850"))
    ]
    claim = claims(*older)["store-older"]
    assert (claim.bookies, claim.from_ledger) == ((A, B), 850)
    assert claims(found("metadata-suspect", A, rules=["orphan-share"], undrawn_lowest=None)) == {}
    assert claims(found("metadata-suspect", A, "suspect", rules=["store-older"], undrawn_lowest="9")) == {}


def carrying(place: str, *names: str) -> dict[str, Any]:
    return found("disk-id-mismatch", place, directories=[{"names": name} for name in names])


def test_disks_are_swapped_where_each_has_the_others() -> None:
    assert claims(carrying(A, B), carrying(B, A))["disks-swapped"].bookies == (A, B)
    assert claims(carrying(A, B)) == {}
    assert claims(carrying(A, B), carrying(B, C)) == {}
    assert claims(carrying(A, B), carrying(B, A, C)) == {}


def test_a_disk_is_not_mounted_where_its_directory_is_there_and_empty() -> None:
    def missing(*empty: bool | None) -> dict[str, Any]:
        directories = [{"path": f"/d{n}", "empty": each} for n, each in enumerate(empty)]
        return found("disk-version-missing", A, directories=directories)

    claim = claims(missing(True))["disk-not-mounted"]
    assert claim.sentence == f"{A} has 1 disk that is not mounted, or new: /d0 is empty"
    assert claim.of_copies == {"replication-undecided"}
    assert claims(missing(True, False)) == claims(missing(None)) == {}


def test_a_bookie_that_is_gone_explains_what_is_not_known_of_it_only_where_it_has_no_data() -> None:
    down, depends = found("bookie-down", A), found("on-unregistered-bookie", A)
    gone = known(A, registered=None, read="unread", found=False)
    unread = found("bookie-unread", A, "unknown", read="unread", reason="no source")
    claim = claims(down, depends, unread, bookies=[gone])["not-registered"]
    assert claim.sentence == f"{A} is not registered and has no data that was found"
    assert claim.evidence == (("bookie-down", A), ("on-unregistered-bookie", A))
    assert "bookie-unread" in claim.of_bookies
    assert claim.of_copies == {"replication-undecided"}
    read = claims(down, bookies=[known(A, registered=None)])["not-registered"]
    assert read.of_copies == set()
    assert "bookie-unread" not in read.of_bookies
    assert claims(down, bookies=[known(A)]) == {}


def test_a_bookie_by_another_id_is_not_one_that_is_gone() -> None:
    alias: dict[str, Any] = {"ids": [{"bookie_id": A}, {"bookie_id": B}]}
    gone = [known(A, registered=None), known(B)]
    claim = claims(found("bookie-alias", A, **alias), found("bookie-down", A), bookies=gone)["other-id"]
    assert claim.sentence == f"{A} is not registered, and is {B} by another id"
    assert {"bookie-down", "alias-gc-danger"} <= claim.of_bookies
    assert claims(found("bookie-alias", A, "suspect", **alias), found("bookie-down", A), bookies=gone) == {}


def test_an_unread_bookie_is_a_cause_of_its_own_where_no_other_says_why() -> None:
    unread = found("bookie-unread", A, "unknown", read="partial", reason="/d1 was not found")
    [claim] = claims(unread).values()
    assert claim.sentence == f"{A} was read in part: /d1 was not found"
    ghost = found("ghost-bookie", A)
    gone = [known(A, registered=None, read="unread", found=False, has_cookie=False)]
    assert [*claims(unread, ghost, bookies=gone)] == ["not-registered"]


def test_an_overflow_explains_only_deletions_that_have_no_other_cause() -> None:
    def deletes(name: str, *causes: str) -> dict[str, Any]:
        return found("gc-would-delete-live", name, causes=[*causes])

    rows = (deletes(A, "listing-overflows"), deletes(B, "listed-out-of-order", "listing-overflows"))
    assert claims(*rows)["listing-overflows"].bookies == (A,)


def test_data_is_gone_where_nearly_every_replica_lacks_entries() -> None:
    claim = claims(lacking={A: 96, B: 94, "unheard": 500})["data-gone"]
    assert claim.bookies == (A,)
    assert claim.sentence == f"{A} lacks entries in 96 of 100 replicas: data is gone"
    assert claims(lacking={A: 9}, bookies=[known(A, replicas=9)]) == {}


ROWS = (
    # id, ledger, bookie, missing on, unknown on, the cause
    ("bookie-down", None, A, (), (), 1),
    ("bookie-down", None, B, (), (), None),
    ("start-refused", None, A, (), (), None),
    ("replication-undecided", 1, None, (), (A,), 1),
    ("replication-undecided", 2, None, (), (A, C), None),
    ("replication-undecided", 3, None, (), (), None),
    ("entry-lost", 4, None, (B, C), (), 3),
    ("entry-lost", 5, None, (B, A), (), None),
    ("entry-lost", 6, None, (B,), (A,), None),
    ("orphan-ledger", 900, C, (), (), 2),
    ("orphan-ledger", 899, C, (), (), None),
    ("metadata-suspect", None, C, (), (), 2),
)


def test_a_finding_follows_where_all_that_it_is_about_is_the_causes(spark: SparkSession) -> None:
    undecided = frozenset({"replication-undecided"})
    every = [
        Claim("not-registered", (A,), "", (), frozenset({"bookie-down"}), undecided),
        Claim("store-older", (C,), "", (), frozenset({"metadata-suspect", "orphan-ledger"}), from_ledger=900),
        Claim("data-gone", (B, C), "", (), frozenset(), frozenset({"entry-lost"})),
    ]
    rows = [
        (id, ledger, name, [(each,) for each in missing], [*unknown])
        for id, ledger, name, missing, unknown, _ in ROWS
    ]
    schema = (
        "id string, ledger_id bigint, bookie_id string, missing array<struct<bookie_id:string>>, "
        "unknown array<string>"
    )
    table = spark.createDataFrame(rows, schema).withColumn("cause", cause_column(every))
    assert [row["cause"] for row in table.collect()] == [row[-1] for row in ROWS]


@pytest.mark.parametrize("row", [found("bookie-unread", None, "unknown", read="unread", reason="none given")])
def test_what_is_of_no_bookie_proves_nothing(row: dict[str, Any]) -> None:
    assert claims(row) == {}
