"""Causes of findings: their evidence, the findings that follow from them, and the findings that do not."""

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


def issue(id: str, name: str | None, confidence: str = "confirmed", **evidence: Any) -> dict[str, Any]:
    return {"id": id, "bookie_id": name, "confidence": confidence, "evidence": json.dumps(evidence)}


def member(name: str, **columns: Any) -> dict[str, Any]:
    facts = {"foreign_instance": False, "has_cookie": True, "replicas": 100, "absent_directories": []}
    return bookie(name, **(facts | {"storage": "rocksdb", "suspect": False} | columns))


def claims(
    *rows: dict[str, Any],
    bookies: list[dict[str, Any]] | None = None,
    losses: LossCounts | None = None,
    **tables: list[dict[str, Any]],
) -> dict[str, Claim]:
    pool = bookies if bookies is not None else [member(A), member(B), member(C)]
    return {claim.kind: claim for claim in find_claims(rows, roster(CLUSTER, bookies=pool, **tables), losses)}


MISMATCH = issue("instance-mismatch", A, cookies=[{"place": "p", "instance_id": "other"}])


def test_foreign_instance_claim_needs_all_directories_of_the_bookie() -> None:
    foreign = [member(A, foreign_instance=True, read="unread")]
    unread = issue("bookie-unread", A, "unknown", read="unread", reason="of another cluster")
    [claim] = claims(MISMATCH, unread, bookies=foreign).values()
    assert (claim.kind, claim.bookies) == ("foreign-instance", (A,))
    assert claim.sentence == f"all directories of {A} are from another cluster, instance id other"
    assert {"instance-mismatch", "metadata-suspect", "bookie-unread"} <= claim.bookie_checks
    assert claims(MISMATCH) == {}


def test_store_older_claim_needs_the_id_generator_and_starts_at_the_lowest_id() -> None:
    older = [
        issue("metadata-suspect", name, rules=["store-older"], undrawn_lowest=lowest)
        for name, lowest in ((A, "900"), (B, "850"))
    ]
    claim = claims(*older)["store-older"]
    assert (claim.bookies, claim.min_ledger) == ((A, B), 850)
    assert claims(issue("metadata-suspect", A, rules=["orphan-share"], undrawn_lowest=None)) == {}
    assert claims(issue("metadata-suspect", A, "suspect", rules=["store-older"], undrawn_lowest="9")) == {}


def disk_mismatch(place: str, *names: str) -> dict[str, Any]:
    return issue("disk-id-mismatch", place, directories=[{"names": name} for name in names])


def test_disks_swapped_claim_needs_each_bookie_to_have_the_others_disk() -> None:
    assert claims(disk_mismatch(A, B), disk_mismatch(B, A))["disks-swapped"].bookies == (A, B)
    assert claims(disk_mismatch(A, B)) == {}
    assert claims(disk_mismatch(A, B), disk_mismatch(B, C)) == {}
    assert claims(disk_mismatch(A, B), disk_mismatch(B, A, C)) == {}


def test_disk_not_mounted_claim_needs_an_empty_directory() -> None:
    def missing(*empty: bool | None) -> dict[str, Any]:
        directories = [{"path": f"/d{n}", "empty": is_empty} for n, is_empty in enumerate(empty)]
        return issue("disk-version-missing", A, directories=directories)

    unread = issue("bookie-unread", A, "unknown", read="partial", reason="/d0 and more")
    claim = claims(missing(True), unread, bookies=[member(A, absent_directories=["/d0"])])["disk-not-mounted"]
    assert claim.sentence == f"{A} has 1 disk that is new or not mounted: /d0 is empty"
    assert claim.copy_checks == {"replication-undecided"}
    assert claims(missing(True, False)) == claims(missing(None)) == {}
    for fault, is_explained in (("version-missing", True), ("store-differs", False)):
        starts = [{"bookie_id": A, "fault": fault, "paths": ["/d0"], "agreed": False}]
        refused = claims(missing(True), starts=starts)["disk-not-mounted"]
        assert ("start-refused" in refused.bookie_checks) is is_explained
    # something else keeps it from being read besides, and nobody knows whether the disk alone would
    claims_by_kind = claims(missing(True), unread)
    assert [*claims_by_kind] == ["disk-not-mounted", "not-read"]
    assert claims_by_kind["disk-not-mounted"].copy_checks == set()


def test_missing_directory_is_a_disk_not_found_claim_without_other_causes() -> None:
    unread = issue("bookie-unread", A, "unknown", read="partial", reason="index directory /d1: no such ...")
    [claim] = claims(unread, bookies=[member(A, read="partial", absent_directories=["/d1"])]).values()
    assert claim.kind == "disk-not-found"
    assert claim.sentence == f"{A} has 1 disk that is not mounted or not given: /d1 was not found"
    assert claim.copy_checks == {"replication-undecided"}


def test_unregistered_bookie_explains_unknown_replication_only_without_data() -> None:
    down, depends = issue("bookie-down", A), issue("on-unregistered-bookie", A)
    down_bookie = member(A, registered=None, read="unread", found=False)
    unread = issue("bookie-unread", A, "unknown", read="unread", reason="no source")
    claim = claims(down, depends, unread, bookies=[down_bookie])["not-registered"]
    assert claim.sentence == f"{A} is not registered and has no data that the audit found"
    assert claim.evidence == (("bookie-down", A), ("on-unregistered-bookie", A))
    assert "bookie-unread" in claim.bookie_checks
    assert claim.copy_checks == {"replication-undecided"}
    read = claims(down, bookies=[member(A, registered=None)])["not-registered"]
    assert read.copy_checks == set()
    assert "bookie-unread" not in read.bookie_checks
    assert claims(down, bookies=[member(A)]) == {}


def test_unregistered_alias_of_a_registered_bookie_is_an_other_id_claim() -> None:
    alias: dict[str, Any] = {"ids": [{"bookie_id": A}, {"bookie_id": B}]}
    rows = [member(A, registered=None), member(B)]
    claim = claims(issue("bookie-alias", A, **alias), issue("bookie-down", A), bookies=rows)["other-id"]
    assert claim.sentence == f"{A} is not registered, and is another id of {B}"
    assert {"bookie-down", "alias-gc-danger"} <= claim.bookie_checks
    assert claims(issue("bookie-alias", A, "suspect", **alias), issue("bookie-down", A), bookies=rows) == {}


def test_unread_bookie_is_its_own_claim_unless_it_is_not_registered() -> None:
    unread = issue("bookie-unread", A, "unknown", read="partial", reason="/d1 was not found")
    [claim] = claims(unread).values()
    assert claim.sentence == f"{A} was read in part: /d1 was not found"
    ghost = issue("ghost-bookie", A)
    rows = [member(A, registered=None, read="unread", found=False, has_cookie=False)]
    assert [*claims(unread, ghost, bookies=rows)] == ["not-registered"]


def test_listing_overflow_explains_only_deletions_without_another_cause() -> None:
    def deletes(name: str, *causes: str) -> dict[str, Any]:
        return issue("gc-would-delete-live", name, causes=[*causes])

    rows = (deletes(A, "listing-overflows"), deletes(B, "listed-out-of-order", "listing-overflows"))
    assert claims(*rows)["listing-overflows"].bookies == (A,)


def test_data_gone_claim_needs_nearly_every_replica_to_lack_entries() -> None:
    claim = claims(losses={A: {0: 96}, B: {0: 94}, "unheard": {0: 500}})["data-gone"]
    assert claim.bookies == (A,)
    assert claim.sentence == f"{A} lacks entries in 96 of 100 replicas: data is gone"
    assert claims(losses={A: {0: 9}}, bookies=[member(A, replicas=9)]) == {}


def disks(*ledgers: int) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of A's directories. Each argument is the number of ledgers in one directory."""
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
    ("ledgers", "lacking", "overrides", "claimed"),
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
def test_disk_lost_claim_needs_one_emptied_directory_and_intact_others(
    ledgers: tuple[int, ...], lacking: dict[int, int], overrides: dict[str, Any], claimed: bool
) -> None:
    claims_by_kind = claims(bookies=[member(A, **overrides)], losses={A: lacking}, **disks(*ledgers))
    assert ("disk-lost" in claims_by_kind) is claimed
    if claimed:
        claim = claims_by_kind["disk-lost"]
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


def test_finding_follows_a_cause_that_covers_all_its_bookies_and_ledgers(spark: SparkSession) -> None:
    undecided = frozenset({"replication-undecided"})
    all_claims = [
        Claim("not-registered", (A,), "", (), frozenset({"bookie-down"}), undecided),
        Claim("store-older", (C,), "", (), frozenset({"metadata-suspect", "orphan-ledger"}), min_ledger=900),
        Claim("data-gone", (B, C), "", (), frozenset(), frozenset({"entry-lost"})),
        Claim("disk-lost", (A,), "", (), frozenset(), frozenset({"below-ack-quorum"}), id_modulo=(2, 3)),
        Claim("not-registered", ("d:1",), "", (), frozenset({"bookie-down"}), undecided),
        Claim("data-gone", (A,), "", (), frozenset({"bookie-down"}), frozenset({"entry-lost"})),
    ]
    rows = [
        (id, ledger, name, [(bookie_id,) for bookie_id in missing], [*unknown])
        for id, ledger, name, missing, unknown, _ in ROWS
    ]
    schema = (
        "id string, ledger_id bigint, bookie_id string, missing array<struct<bookie_id:string>>, "
        "unknown array<string>"
    )
    table = spark.createDataFrame(rows, schema).withColumn("cause", cause_column(all_claims))
    assert [row["cause"] for row in table.collect()] == [row[-1] for row in ROWS]


@pytest.mark.parametrize("row", [issue("bookie-unread", None, "unknown", read="unread", reason="none given")])
def test_finding_without_a_bookie_gives_no_claim(row: dict[str, Any]) -> None:
    assert claims(row) == {}


def test_disk_lost_claim_counts_confirmed_losses_by_ledger_id(spark: SparkSession) -> None:
    """The claim counts only losses of bookies with a nearly empty directory, and no suspected losses."""
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
    bookies = [member(A), member(B)]
    inputs = replace(
        tables(spark), roster=roster(CLUSTER, bookies=bookies, **disks(30, 0)), empty_table_names=frozenset()
    )
    [claim] = find_cause_claims(spark.createDataFrame(rows, schema), inputs)
    assert (claim.kind, claim.bookies, claim.id_modulo) == ("disk-lost", (A,), (1, 2))
    assert "entries of 12 of 12 ledgers" in claim.sentence
