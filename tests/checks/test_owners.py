"""Each check of owners reports the rows with its fault and their owner, and no other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.checks.tables_builder import find, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.tables import Tables

UID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
PATH = "/managed-ledgers/shop/orders/persistent/returns"
TOPIC = {"kind": "data", "topic": "returns", "path": PATH}
CURSOR = {"kind": "cursor", "topic": "returns", "cursor": "audit", "path": f"{PATH}/audit"}
SCHEMA = {"kind": "schema", "topic": "returns", "detail": "0", "path": "/schemas/shop/orders/returns"}


def row(ledger_id: int | None, fault: str | None, **overrides: Any) -> dict[str, Any]:
    return {"ledger_id": ledger_id, "fault": fault, "standing": "owned", **overrides}


ROWS = [
    row(1, None, **TOPIC),
    row(2, "owner-dangling", **TOPIC, place=0, list_size=3, entries=10, size=600),
    row(3, "owner-dangling", **CURSOR, why="/ledgers/00/0000: not listed"),
    row(4, "owner-dangling", **SCHEMA),
    row(5, "owner-dangling", **TOPIC, place=2, list_size=3, offload="complete"),
    row(6, "ledger-unowned", claim=PATH, length=700, topic=None),
    row(7, "ledger-unowned", claim=PATH, seen_before=True, topic=None),
    row(8, "ledger-unowned", claim=PATH, seen_before=True, why="not saved together", topic=None),
    row(9, "owner-length-mismatch", **TOPIC, entries=13, size=600, last_entry_id=9, length=601),
    row(10, "ledger-misattributed", **TOPIC, claim="/managed-ledgers/shop/orders/persistent/other"),
    row(11, "offload-incomplete", **TOPIC, offload="incomplete", offload_uid="u"),
    row(12, "offload-not-trimmed", **TOPIC, offload="deleted", offload_uid=UID),
    row(13, "offload-not-trimmed", **TOPIC, offload="complete", offload_uid=UID.upper()),
    row(24, "offload-not-trimmed", **TOPIC, offload="complete", offload_uid=UID),
    row(None, "owner-unreadable", standing=None, path=PATH, damage="cut (at byte 3)", damage_offset=3),
    row(14, None, standing="young", claim=PATH),
    row(15, None, standing="unknown", claim=PATH, why="a gap"),
    row(16, "owner-length-mismatch", **TOPIC, size=600, last_entry_id=9, length=601),
]
OBJECTS = [
    row(21, "object-orphan", standing=None, objects=2, bytes=700, path=None),
    row(22, "object-orphan", standing=None, path=None, why=f"{PATH}: cut (at byte 3)"),
    row(
        23,
        "offload-object-missing",
        **TOPIC,
        standing=None,
        offload="deleted",
        has_data=False,
        has_index=False,
    ),
    row(24, "offload-object-missing", **TOPIC, standing=None, offload="complete", has_index=False),
    row(
        25, "offload-object-missing", **TOPIC, standing=None, offload="deleted", has_data=False, why="too new"
    ),
    row(26, None, **TOPIC, standing=None, offload="complete"),
    row(12, None, **TOPIC, standing=None, offload="deleted"),
    row(13, None, **TOPIC, standing=None, offload="complete"),
]
for object_row in OBJECTS:
    del object_row["standing"]
    object_row |= (
        {"application": "pulsar", "tenant": "shop", "namespace": "orders"} if object_row["path"] else {}
    )
EXPECTED: dict[str, dict[int | None, tuple[str, str, str]]] = {
    "owner-dangling": {
        2: ("error", "confirmed", "ledger 2 is not in the store, but topic shop/orders/returns "
            "names it (place 1 of 3 in its list)"),
        3: ("error", "suspect", "ledger 3 is not in the store, but subscription audit of shop/orders/returns "
            "names it; unconfirmed: /ledgers/00/0000: not listed"),
        4: ("error", "confirmed", "ledger 4 is not in the store, but schema shop/orders/returns names it"),
        5: ("warning", "confirmed", "its copy in the object store is complete"),
    },
    "ledger-unowned": {
        6: ("note", "suspect", f"ledger 6 (700 bytes) has no owner: {PATH} does not name it"),
        7: ("note", "confirmed", f"ledger 7 has no owner: {PATH} does not name it"),
        8: ("note", "suspect", "unconfirmed: not saved together"),
    },
    "owner-length-mismatch": {
        9: ("warning", "confirmed", "ledger 9 has 10 entries and 601 bytes, but topic shop/orders/returns "
            "lists it with 13 entries and 600"),
        16: ("warning", "confirmed", "ledger 16 has 10 entries and 601 bytes, but topic shop/orders/returns "
             "lists it with 600 bytes"),
    },
    "ledger-misattributed": {
        10: ("warning", "confirmed", "created for /managed-ledgers/shop/orders/persistent/other"),
    },
    "offload-incomplete": {
        11: ("note", "suspect", "ledger 11 of topic shop/orders/returns: its offload was started, "
             "but is incomplete"),
    },
    "offload-not-trimmed": {
        12: ("note", "confirmed", "is recorded as deleted from BookKeeper, but BookKeeper still has it"),
        13: ("note", "confirmed", "is not recorded as deleted from BookKeeper, but BookKeeper still has it"),
    },
    "owner-unreadable": {None: ("error", "confirmed", f"{PATH}: cut (at byte 3)")},
    "object-orphan": {
        21: ("note", "suspect", f"ledger 21: the bucket has a copy (700 bytes, {UID}) that no topic"),
        22: ("note", "unknown", f"lists; unconfirmed: {PATH}: cut (at byte 3)"),
    },
    "offload-object-missing": {
        23: ("critical", "confirmed", "its copy in the bucket is incomplete: both objects are not in the "
             "listing, and the ledger is recorded as deleted from BookKeeper"),
        24: ("error", "confirmed", "its index object is not in the listing"),
        25: ("critical", "suspect", "its data object is not in the listing, and the ledger is recorded"),
    },
}  # fmt: skip


PROVED = {
    "source": "pulsar:zk://h1:2181", "kind": "owners", "declared": True, "reason": None, "claims": 5,
    "foreign_claims": 0, "unowned": 3, "listed_before": 5, "dropped": 0, "gaps": 0,
}  # fmt: skip
UNPROVED = {**PROVED, "declared": False, "reason": "owners_complete does not contain this store"}


@pytest.fixture(scope="module")
def owned(spark: SparkSession) -> Tables:
    return tables(spark, ownership=ROWS, offload_objects=OBJECTS, owner_stores=[PROVED])


@pytest.mark.parametrize("check", EXPECTED)
def test_each_check_finds_exactly_its_own_faults(check: str, owned: Tables) -> None:
    by_ledger = {finding.ledger_id: finding for finding in find(check, owned)}
    assert by_ledger.keys() == EXPECTED[check].keys()
    for ledger, (severity, confidence, words) in EXPECTED[check].items():
        assert (by_ledger[ledger].severity, by_ledger[ledger].confidence) == (severity, confidence)
        assert words in by_ledger[ledger].message
        assert check == "object-orphan" or by_ledger[ledger].evidence["application"] == "pulsar"
        assert by_ledger[ledger].bookie_id is None


def test_unowned_ledgers_are_suspect_while_an_owner_store_may_be_unread(spark: SparkSession) -> None:
    findings = find("ledger-unowned", tables(spark, ownership=ROWS, owner_stores=[PROVED, UNPROVED]))
    assert {finding.confidence for finding in findings} == {"suspect"}
    assert {finding.evidence["owners_complete"] for finding in findings} == {False}
    [seen_twice] = [finding for finding in findings if finding.ledger_id == 7]
    assert "unconfirmed: the owner stores are not proved complete (owners-suspect)" in seen_twice.message


@pytest.mark.parametrize(
    ("unowned", "severity"),
    [(0, "note"), (1, "warning")],
    ids=["nothing to delete", "a ledger is called unowned"],
)
def test_unproved_owner_stores_are_a_warning_only_if_ledgers_are_unowned(
    unowned: int, severity: str, spark: SparkSession
) -> None:
    stores = [{**store, "unowned": unowned} for store in (PROVED, UNPROVED)]
    [finding] = find("owners-suspect", tables(spark, owner_stores=stores))
    assert (finding.severity, finding.confidence) == (severity, "confirmed")
    assert "pulsar:zk://h1:2181: owners_complete does not contain this store" in finding.message
    assert find("owners-suspect", tables(spark, owner_stores=[PROVED])) == []
    assert find("owners-suspect", tables(spark)) == []


def test_offloaded_copy_without_listed_objects_is_only_suspect(spark: SparkSession) -> None:
    findings = find("offload-not-trimmed", tables(spark, ownership=ROWS))
    assert {finding.ledger_id for finding in findings} == {12, 13, 24}
    assert {finding.confidence for finding in findings} == {"suspect"}
    assert all("BookKeeper may have the only copy" in finding.message for finding in findings)
