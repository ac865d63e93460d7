"""Causes: what proves them, what follows from them, and what they leave alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from auditor.audit.check_stage import find_cause_claims
from auditor.findings.causes import Claim, LossCounts, cause_column, find_claims
from tests.checks.tables_builder import tables
from tests.tables.test_roster import CLUSTER, bookie, roster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = "bk-a:3181", "bk-b:3181", "bk-c:3181"


def found(id: str, name: str | None, confidence: str = "confirmed", **evidence: Any) -> dict[str, Any]:
    return {"id": id, "bookie_id": name, "confidence": confidence, "evidence": json.dumps(evidence)}


def known(name: str, **said: Any) -> dict[str, Any]:
    facts = {"foreign_instance": False, "has_cookie": True, "replicas": 100, "absent_directories": []}
    return bookie(name, **(facts | {"storage": "rocksdb", "suspect": False} | said))


def claims(
    *rows: dict[str, Any],
    bookies: list[dict[str, Any]] | None = None,
    lacking: LossCounts | None = None,
    **tables: list[dict[str, Any]],
) -> dict[str, Claim]:
    every = bookies if bookies is not None else [known(A), known(B), known(C)]
    return {each.kind: each for each in find_claims(rows, roster(CLUSTER, bookies=every, **tables), lacking)}


MISMATCH = found("instance-mismatch", A, cookies=[{"place": "p", "instance_id": "other"}])


def test_a_bookie_of_another_cluster_is_one_only_if_all_its_directories_say_so() -> None:
    foreign = [known(A, foreign_instance=True, read="unread")]
    unread = found("bookie-unread", A, "unknown", read="unread", reason="of another cluster")
    [claim] = claims(MISMATCH, unread, bookies=foreign).values()
    assert (claim.kind, claim.bookies) == ("foreign-instance", (A,))
    assert claim.sentence == f"all directories of {A} are from another cluster, instance id other"
    assert {"instance-mismatch", "metadata-suspect", "bookie-unread"} <= claim.bookie_checks
    assert claims(MISMATCH) == {}


def test_a_store_is_older_where_its_id_generator_says_so_and_explains_no_lower_orphan() -> None:
    older = [
        found("metadata-suspect", name, rules=["store-older"], undrawn_lowest=lowest)
        for name, lowest in ((A, "900"), (B, "850"))
    ]
    claim = claims(*older)["store-older"]
    assert (claim.bookies, claim.min_ledger) == ((A, B), 850)
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

    unread = found("bookie-unread", A, "unknown", read="partial", reason="/d0 and more")
    claim = claims(missing(True), unread, bookies=[known(A, absent_directories=["/d0"])])["disk-not-mounted"]
    assert claim.sentence == f"{A} has 1 disk that is new or not mounted: /d0 is empty"
    assert claim.copy_checks == {"replication-undecided"}
    assert claims(missing(True, False)) == claims(missing(None)) == {}
    for fault, of in (("version-missing", True), ("store-differs", False)):
        starts = [{"bookie_id": A, "fault": fault, "paths": ["/d0"], "agreed": False}]
        refused = claims(missing(True), starts=starts)["disk-not-mounted"]
        assert ("start-refused" in refused.bookie_checks) is of
    # something else keeps it from being read besides, and nobody knows whether the disk alone would
    both = claims(missing(True), unread)
    assert [*both] == ["disk-not-mounted", "not-read"]
    assert both["disk-not-mounted"].copy_checks == set()


def test_a_directory_that_was_not_found_is_a_cause_where_nothing_else_is_the_matter() -> None:
    unread = found("bookie-unread", A, "unknown", read="partial", reason="index directory /d1: no such ...")
    [claim] = claims(unread, bookies=[known(A, read="partial", absent_directories=["/d1"])]).values()
    assert claim.kind == "disk-not-found"
    assert claim.sentence == f"{A} has 1 disk that is not mounted or not given: /d1 was not found"
    assert claim.copy_checks == {"replication-undecided"}


def test_a_bookie_that_is_gone_explains_what_is_not_known_of_it_only_where_it_has_no_data() -> None:
    down, depends = found("bookie-down", A), found("on-unregistered-bookie", A)
    gone = known(A, registered=None, read="unread", found=False)
    unread = found("bookie-unread", A, "unknown", read="unread", reason="no source")
    claim = claims(down, depends, unread, bookies=[gone])["not-registered"]
    assert claim.sentence == f"{A} is not registered and has no data that the audit found"
    assert claim.evidence == (("bookie-down", A), ("on-unregistered-bookie", A))
    assert "bookie-unread" in claim.bookie_checks
    assert claim.copy_checks == {"replication-undecided"}
    read = claims(down, bookies=[known(A, registered=None)])["not-registered"]
    assert read.copy_checks == set()
    assert "bookie-unread" not in read.bookie_checks
    assert claims(down, bookies=[known(A)]) == {}


def test_a_bookie_by_another_id_is_not_one_that_is_gone() -> None:
    alias: dict[str, Any] = {"ids": [{"bookie_id": A}, {"bookie_id": B}]}
    gone = [known(A, registered=None), known(B)]
    claim = claims(found("bookie-alias", A, **alias), found("bookie-down", A), bookies=gone)["other-id"]
    assert claim.sentence == f"{A} is not registered, and is another id of {B}"
    assert {"bookie-down", "alias-gc-danger"} <= claim.bookie_checks
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
    claim = claims(lacking={A: {0: 96}, B: {0: 94}, "unheard": {0: 500}})["data-gone"]
    assert claim.bookies == (A,)
    assert claim.sentence == f"{A} lacks entries in 96 of 100 replicas: data is gone"
    assert claims(lacking={A: {0: 9}}, bookies=[known(A, replicas=9)]) == {}


def disks(*ledgers: int) -> dict[str, list[dict[str, Any]]]:
    """Directories of A that hold so many ledgers each."""
    paths = [f"/d{place}" for place in range(len(ledgers))]
    return {
        "starts": [
            {
                "bookie_id": A,
                "agreed": True,
                "fault": None,
                "paths": [],
                "index_dirs": None,
                "ledger_dirs": paths,
            }
        ],
        "directories": [{"owner": A, "configured": path, "path": f"/copy{path}"} for path in paths],
        "contents": [
            {"directory": f"/copy{path}", "ledgers": number}
            for path, number in zip(paths, ledgers, strict=True)
            if number
        ],
    }


@pytest.mark.parametrize(
    ("ledgers", "lacking", "of", "claimed"),
    [
        ((50, 0), {1: 48}, {}, True),
        ((50, 2), {1: 48}, {}, True),
        ((50, 3), {1: 48}, {}, False),  # too many of them are there
        ((50, 0), {1: 9}, {}, False),  # too few to say it
        ((50, 0), {0: 48}, {}, False),  # they belong in the other directory
        ((0, 0), {0: 45, 1: 45}, {}, False),  # no directory shows that ids are spread over both
        ((50, 0), {1: 48}, {"storage": "idx"}, False),  # any directory may have an index file
        ((50, 0), {1: 48}, {"suspect": True}, False),
        ((50, 0), {1: 48}, {"read": "partial"}, False),
        ((50, 0), {0: 48, 1: 48}, {"replicas": 98}, False),  # all of the bookie's data is gone
    ],
)
def test_a_disk_is_lost_where_what_belongs_there_is_gone_and_other_disks_have_theirs(
    ledgers: tuple[int, ...], lacking: dict[int, int], of: dict[str, Any], claimed: bool
) -> None:
    found_ = claims(bookies=[known(A, **of)], lacking={A: lacking}, **disks(*ledgers))
    assert ("disk-lost" in found_) is claimed
    if claimed:
        claim = found_["disk-lost"]
        assert claim.id_modulo == (1, 2)
        number = 48 + ledgers[1]
        assert claim.sentence == (
            f"{A} lost the data of a disk: entries of 48 of {number} ledgers that belong in /copy/d1 are gone"
        )


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
    ("below-ack-quorum", 11, None, (A,), (), 4),
    ("below-ack-quorum", 12, None, (A,), (), None),
    ("below-ack-quorum", -7, None, (A,), (), 4),
    ("below-ack-quorum", 14, None, (A, B), (), None),
    ("bookie-down", None, "d:1", (), (), 5),
    ("replication-undecided", 7, None, ("d:1",), ("d:1",), 5),
    ("replication-undecided", 8, None, (), (A, "d:1"), None),
    ("entry-lost", 9, None, (A,), (), 6),
)


def test_a_finding_follows_where_all_that_it_is_about_is_the_causes(spark: SparkSession) -> None:
    undecided = frozenset({"replication-undecided"})
    every = [
        Claim("not-registered", (A,), "", (), frozenset({"bookie-down"}), undecided),
        Claim("store-older", (C,), "", (), frozenset({"metadata-suspect", "orphan-ledger"}), min_ledger=900),
        Claim("data-gone", (B, C), "", (), frozenset(), frozenset({"entry-lost"})),
        Claim("disk-lost", (A,), "", (), frozenset(), frozenset({"below-ack-quorum"}), id_modulo=(2, 3)),
        Claim("not-registered", ("d:1",), "", (), frozenset({"bookie-down"}), undecided),
        Claim("data-gone", (A,), "", (), frozenset({"bookie-down"}), frozenset({"entry-lost"})),
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


def test_what_belongs_into_a_lost_directory_is_counted_by_ids(spark: SparkSession) -> None:
    """Only of bookies with a nearly empty directory; what is suspected only is not counted."""
    lacking = [
        *((ledger, "confirmed", [A, B]) for ledger in range(1, 24, 2)),
        *((ledger, "suspect", [A]) for ledger in range(25, 41, 2)), (2, "confirmed", [A]),
    ]  # fmt: skip
    rows = [
        ("below-ack-quorum", ledger, None, confidence, "{}", [(name,) for name in names])
        for ledger, confidence, names in lacking
    ]
    schema = (
        "id string, ledger_id bigint, bookie_id string, confidence string, evidence string, "
        "missing array<struct<bookie_id:string>>"
    )
    known_ = [known(A), known(B)]
    asked = replace(
        tables(spark), roster=roster(CLUSTER, bookies=known_, **disks(30, 0)), empty_table_names=frozenset()
    )
    [claim] = find_cause_claims(spark.createDataFrame(rows, schema), asked)
    assert (claim.kind, claim.bookies, claim.id_modulo) == ("disk-lost", (A,), (1, 2))
    assert "entries of 12 of 12 ledgers" in claim.sentence
