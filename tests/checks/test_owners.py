"""Checks of owners: each finds the rows of its fault, says whose they are, and leaves all others alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.checks.tables_builder import find, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.tables import Tables

PATH = "/managed-ledgers/shop/orders/persistent/returns"
TOPIC = {"kind": "data", "topic": "returns", "path": PATH}
CURSOR = {"kind": "cursor", "topic": "returns", "cursor": "audit", "path": f"{PATH}/audit"}
SCHEMA = {"kind": "schema", "topic": "returns", "detail": "0", "path": "/schemas/shop/orders/returns"}


def row(ledger_id: int | None, fault: str | None, **said: Any) -> dict[str, Any]:
    return {"ledger_id": ledger_id, "fault": fault, "standing": "owned", **said}


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
    row(12, "offload-not-trimmed", **TOPIC, offload="deleted"),
    row(13, "offload-not-trimmed", **TOPIC, offload="complete"),
    row(None, "owner-unreadable", standing=None, path=PATH, damage="cut (at byte 3)", damage_offset=3),
    row(14, None, standing="young", claim=PATH),
    row(15, None, standing="unknown", claim=PATH, why="a gap"),
]
FOUND: dict[str, dict[int | None, tuple[str, str, str]]] = {
    "owner-dangling": {
        2: ("error", "confirmed", "topic shop/orders/returns names ledger 2 (1 of 3 in its list), which is"),
        3: ("error", "suspect", "subscription audit of shop/orders/returns names ledger 3, which is not in "
            "the store; in doubt: /ledgers/00/0000: not listed"),
        4: ("error", "confirmed", "schema shop/orders/returns names ledger 4"),
        5: ("warning", "confirmed", "its copy in the object store is whole"),
    },
    "ledger-unowned": {
        6: ("note", "suspect", f"ledger 6, 700 bytes belongs to nobody: {PATH} does not name it"),
        7: ("note", "confirmed", f"ledger 7 belongs to nobody: {PATH} does not name it"),
        8: ("note", "suspect", "in doubt: not saved together"),
    },
    "owner-length-mismatch": {
        9: ("warning", "confirmed", "lists ledger 9 with 13 entries and 600 bytes, it has 10 and 601"),
    },
    "ledger-misattributed": {
        10: ("warning", "confirmed", "made for /managed-ledgers/shop/orders/persistent/other"),
    },
    "offload-incomplete": {11: ("note", "suspect", "the offload of ledger 11 of topic shop/orders/returns")},
    "offload-not-trimmed": {
        12: ("note", "confirmed", "was given up for it, and is still there"),
        13: ("note", "confirmed", "was not given up for it, and is still there"),
    },
    "owner-unreadable": {None: ("error", "confirmed", f"{PATH}: cut (at byte 3)")},
}  # fmt: skip


@pytest.fixture(scope="module")
def owned(spark: SparkSession) -> Tables:
    return tables(spark, ownership=ROWS)


@pytest.mark.parametrize("check", FOUND)
def test_a_check_finds_its_faults_and_nothing_else(check: str, owned: Tables) -> None:
    found = {each.ledger_id: each for each in find(check, owned)}
    assert found.keys() == FOUND[check].keys()
    for ledger, (severity, confidence, words) in FOUND[check].items():
        assert (found[ledger].severity, found[ledger].confidence) == (severity, confidence)
        assert words in found[ledger].message
        assert found[ledger].evidence["application"] == "pulsar"
        assert found[ledger].bookie_id is None
