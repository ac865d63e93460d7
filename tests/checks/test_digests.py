"""Findings of entries with wrong digests and of copies that differ, from the rows that were read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.sources.bookies.entry_logs.whole_entries import WHOLE_ENTRIES
from auditor.tables import Tables
from auditor.tables.digests import digests
from tests.checks.tables_builder import Row, find, ledger, tables

TYPES = {1: "CRC32C", 2: "CRC32", 3: "MAC", 4: "DUMMY", 5: None, 6: "CRC32C", 7: "MAC"}
"""Digest types of the ledgers; 6 is closed before entry 5."""


def read(bookie: str, ledger_id: int | None, entry: int = 0, payload: int = 111, **overrides: Any) -> Row:
    """Return a copy that matches no digest type. Its payload has this checksum under every type."""
    row: dict[str, Any] = dict.fromkeys(WHOLE_ENTRIES.names)
    row |= {"bookie_id": bookie, "scope_id": 0, "ledger_id": ledger_id, "entry_id": entry, "entry_bytes": 100}
    row |= {"crc32_right": False, "crc32c_right": False, "header_bytes": 32, "entries": 1}
    row |= {f"payload_{name}": payload for name in ("crc32c", "crc32", "mac", "dummy")}
    return row | overrides


CRC32C, CRC32, MAC = {"crc32c_right": True}, {"crc32_right": True}, {"mac_right": True}
NOT_MAC = {"mac_right": False}

COPIES = [
    read("bk1", 1, **CRC32C),
    read("bk2", 1, **CRC32C, payload=222),  # right, and another payload
    read("bk3", 1, **CRC32C),
    read("bk4", 1, **CRC32C, payload=333),  # no ensemble names it
    read("bk1", 1, 1, **CRC32C),
    read("bk2", 1, 1, payload=222),  # refuted by its digest
    read("bk1", 2, **CRC32),
    read("bk2", 2, **CRC32C, payload=222),  # the digest of another type
    read("bk1", 3, 0, **MAC),
    read("bk2", 3, 0, **NOT_MAC),
    read("bk1", 4),
    read("bk2", 4, payload=222),
    read("bk1", 5, 0, **CRC32),
    read("bk1", 5, 1),
    read("bk1", 6, 5, **CRC32C),
    read("bk2", 6, 5, **CRC32C, payload=222),  # past the end
    read("bk1", 7, 0, **NOT_MAC),
    read("bk1", 8, 0, **CRC32C),  # gone
    read("bk1", None, entries=40, reason="budget"),
]


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> Tables:
    rows = [
        ledger(number, "bk1", "bk2", "bk3", digest_type=kind, last_entry_id=4 if number == 6 else 99)
        for number, kind in TYPES.items()
    ]
    cluster_tables = tables(
        spark, ledgers=rows, bookies=[{"bookie_id": f"bk{number}"} for number in (1, 2, 3, 4)]
    )
    frame = spark.createDataFrame(
        [tuple(row[name] for name in WHOLE_ENTRIES.names) for row in COPIES], from_arrow_schema(WHOLE_ENTRIES)
    )
    return cluster_tables.add(digests=digests(frame, cluster_tables.ledgers).cache())


def test_each_copy_is_judged_by_the_digest_type_in_the_metadata(known: Tables) -> None:
    assert known.digests is not None
    states = {
        (row["ledger_id"], row["entry_id"], row["bookie_id"]): (row["state"], row["reason"])
        for row in known.digests.collect()
    }
    wrong, right = ("wrong", None), ("right", None)
    assert states == {
        (1, 0, "bk1"): right,
        (1, 0, "bk2"): right,
        (1, 0, "bk3"): right,
        (1, 0, "bk4"): right,
        (1, 1, "bk1"): right,
        (1, 1, "bk2"): wrong,
        (2, 0, "bk1"): right,
        (2, 0, "bk2"): wrong,
        (3, 0, "bk1"): right,
        (3, 0, "bk2"): wrong,
        (4, 0, "bk1"): ("not-checked", "dummy"),
        (4, 0, "bk2"): ("not-checked", "dummy"),
        (5, 0, "bk1"): right,
        (5, 1, "bk1"): ("not-checked", "type"),
        (6, 5, "bk1"): right,
        (6, 5, "bk2"): right,
        (7, 0, "bk1"): ("not-checked", "other-password"),
        (8, 0, "bk1"): ("not-checked", "metadata"),
        (None, 0, "bk1"): ("not-checked", "budget"),
    }


def test_wrong_digests_are_counted_in_one_finding_per_bookie(known: Tables) -> None:
    [finding] = find("entry-digest-wrong", known)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk2"), "error", "confirmed")
    assert (finding.evidence["entries"], finding.evidence["ledgers"]) == (3, 3)
    assert finding.evidence["sample"] == ["1", "2", "3"]
    assert finding.evidence["entry_id"] == 1


def test_differing_copies_get_one_finding_per_ledger_with_their_bookies(known: Tables) -> None:
    by_place = {finding.where: finding for finding in find("replica-mismatch", known)}
    assert set(by_place) == {(1, None), (4, None)}
    mismatch = by_place[1, None]
    assert (mismatch.severity, mismatch.confidence, mismatch.evidence["entries"]) == ("error", "confirmed", 1)
    assert mismatch.evidence["sample"] == [
        {
            "entry_id": 0,
            "copies": [
                {"payload_bytes": 64, "payload_crc32c": "0000006f", "bookies": ["bk1", "bk3"]},
                {"payload_bytes": 64, "payload_crc32c": "000000de", "bookies": ["bk2"]},
            ],
        }
    ]


def key(bookie: str, ledger_id: int, tag: int | None, right: bool | None = None, **overrides: Any) -> Row:
    """Return a correct copy of a ledger whose master key in the index has this tag."""
    return read(bookie, ledger_id, **{**CRC32C, **overrides}, key_tag=tag, key_right=right)


KEYS: dict[int, tuple[list[Row], dict[str, str | None]]] = {
    1: (
        [key("bk1", 1, 7), key("bk2", 1, 7), key("bk3", 1, 8)],
        {"bk1": "right", "bk2": "right", "bk3": "wrong"},
    ),
    2: ([key("bk1", 2, 7), key("bk2", 2, 8)], {"bk1": "differs", "bk2": "differs"}),
    3: (
        [key("bk1", 3, 7), key("bk2", 3, 7), key("bk3", 3, None)],
        {"bk1": "right", "bk2": "right", "bk3": None},
    ),
    4: ([key("bk1", 4, 7, False), key("bk2", 4, 8, True)], {"bk1": "wrong", "bk2": "right"}),
    5: ([key("bk1", 5, 7), key("bk2", 5, None)], {"bk1": None, "bk2": None}),
    # Nobody knows what ledgers without a password in their metadata were copied under.
    6: ([key("bk1", 6, 7), key("bk2", 6, 7), key("bk3", 6, 8)], dict.fromkeys(("bk1", "bk2", "bk3"))),
    # No ensemble names the fourth.
    7: (
        [key("bk1", 7, 7), key("bk2", 7, 7), key("bk4", 7, 8)],
        {"bk1": "right", "bk2": "right", "bk4": None},
    ),
    # An HMAC of the ledger says that the password is its own.
    8: ([key("bk3", 8, 8, False, **MAC)], {"bk3": "wrong"}),
    # The password is another ledger's.
    9: ([key("bk1", 9, 7, False), key("bk2", 9, 8, False)], {"bk1": "differs", "bk2": "differs"}),
    10: (
        [key("bk1", 10, 7), key("bk1", 10, 7, entry=1), key("bk2", 10, 8)],
        {"bk1": "differs", "bk2": "differs"},
    ),
}


def test_master_key_is_compared_with_the_password_and_other_bookies(spark: SparkSession) -> None:
    kinds: dict[int, str | None] = {**dict.fromkeys(KEYS, "CRC32C"), 6: None, 8: "MAC"}
    ledgers = [
        ledger(number, "bk1", "bk2", "bk3", digest_type=kind, last_entry_id=99)
        for number, kind in kinds.items()
    ]
    unjudged = tables(
        spark, ledgers=ledgers, bookies=[{"bookie_id": f"bk{number}"} for number in (1, 2, 3, 4)]
    )
    rows = [tuple(row[name] for name in WHOLE_ENTRIES.names) for copies, _ in KEYS.values() for row in copies]
    frame = spark.createDataFrame(rows, from_arrow_schema(WHOLE_ENTRIES))
    judged = digests(frame, unjudged.ledgers).cache()
    states: dict[int, dict[str, str | None]] = {}
    for row in judged.collect():
        states.setdefault(row["ledger_id"], {})[row["bookie_id"]] = row["master_key"]
    assert states == {number: expected for number, (_, expected) in KEYS.items()}
    by_place = {
        finding.where: finding for finding in find("master-key-mismatch", unjudged.add(digests=judged))
    }
    assert {where: finding.confidence for where, finding in by_place.items()} == {
        (None, "bk1"): "confirmed", (None, "bk3"): "confirmed", (2, None): "suspect", (9, None): "suspect",
        (10, None): "suspect",
    }  # fmt: skip
    assert by_place[None, "bk3"].evidence["sample"] == ["1", "8"]
    assert by_place[2, None].evidence["bookies"] == ["bk1", "bk2"]
    assert {finding.severity for finding in by_place.values()} == {"warning"}


def test_digest_findings_of_a_suspect_bookie_are_suspect(known: Tables, spark: SparkSession) -> None:
    bookies = [{"bookie_id": f"bk{number}", "suspect": number == 2} for number in (1, 2, 3, 4)]
    suspects = tables(spark, bookies=bookies)
    doubted = replace(known.add(bookies=suspects.bookies), roster=suspects.roster)
    for id in ("entry-digest-wrong", "replica-mismatch"):
        assert {finding.confidence for finding in find(id, doubted)} == {"suspect"}
