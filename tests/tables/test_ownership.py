"""Owners joined with ledgers, compared with a plain implementation of the rules on 600 random ledgers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.model.owner_scope import ROLLOVER_MS
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.sources.owners.applications import OWNERS
from auditor.tables import ownership as owned_tables
from auditor.tables.ownership import NO_AGE_REASON, OWNERSHIP, ReadTimes, ownership
from auditor.tables.scans import DOUBTFUL_IDS, MOVED_LEDGERS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
NOW_MS, GRACE, FIRST_ZXID, FIRST_TIME = 1_000_000_000, ROLLOVER_MS, 500, 900_000
TOPIC = "/managed-ledgers/shop/orders/persistent/"
UNREADABLE, HIDDEN, COMPACTED = f"{TOPIC}spoiled", f"{TOPIC}hidden", f"{TOPIC}compacted/__compaction"
DELETED, CREATED, DOUBTED, SEEN_BEFORE = range(60), range(60, 90), range(90, 120), range(0, 600, 2)
OTHER_TOPIC = f"{TOPIC}another"


def frame(spark: SparkSession, schema: pa.Schema, rows: list[Row]) -> DataFrame:
    full = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(full, from_arrow_schema(schema))


def random_metadata(draw: random.Random) -> dict[str, bytes]:
    """Draw custom metadata: of no application, another application, an unknown kind, or any known kind."""
    topic = draw.choice(["plain", "a b", "spoiled", "hidden", "hidden-not", "compacted"])
    name = f"shop/orders/persistent/{topic.replace(' ', '+')}".encode()
    full = f"persistent://shop/orders/{topic}".encode()
    pulsar = {"application": b"pulsar"}
    return draw.choice(
        [
            {},
            {"application": b"\xff\xfe"},
            {"application": b"other", "component": b"managed-ledger"},
            {**pulsar, "component": b"new-kind"},
            {**pulsar, "component": b"compacted-ledger", "pulsar/compactedTopic": b"no full name"},
            {**pulsar, "component": b"managed-ledger", "pulsar/managed-ledger": name},
            {**pulsar, "component": b"managed-ledger", "pulsar/managed-ledger": name, "pulsar/cursor": b"s"},
            {**pulsar, "component": b"compacted-ledger", "pulsar/compactedTopic": full},
            {**pulsar, "component": b"schema", "pulsar/schemaId": b"shop/orders/" + topic.encode()},
            {
                **pulsar, "component": b"delayed-index-bucket", "pulsar/delayedIndexTopic": full,
                "pulsar/delayedIndexCursor": "süß/1".encode(),
            },
        ]
    )  # fmt: skip


def claimed_path(metadata: dict[str, bytes]) -> str | None:
    """Return the path of the owner that custom metadata name."""
    if (ledger_name := metadata.get("pulsar/managed-ledger")) is not None:
        return f"/managed-ledgers/{ledger_name.decode()}" + ("/s" if "pulsar/cursor" in metadata else "")
    if (schema := metadata.get("pulsar/schemaId")) is not None:
        return f"/schemas/{schema.decode()}"
    full = (metadata.get("pulsar/compactedTopic") or metadata.get("pulsar/delayedIndexTopic") or b"").decode()
    if "://" not in full:
        return None
    path = TOPIC + full.rpartition("/")[2].replace(" ", "+")
    return path + ("/__compaction" if "pulsar/compactedTopic" in metadata else "/s%C3%BC%C3%9F%2F1")


def random_cluster(seed: int) -> tuple[list[Row], list[Row]]:
    """Return random ledgers and references to them."""
    draw = random.Random(seed)
    ledgers, owners = [], []
    for id in range(600):
        metadata = random_metadata(draw)
        if draw.random() < 0.8:
            ledgers.append(
                {
                    "scope_id": 0, "ledger_id": id, "status": "ok", "version": 1, "custom_metadata": metadata,
                    "state": draw.choice(["OPEN", "CLOSED"]), "last_entry_id": 9, "length": 100,
                    "ctime": draw.choice([None, NOW_MS - 1, NOW_MS - GRACE, NOW_MS - GRACE - 1, 5]),
                }
            )  # fmt: skip
        if draw.random() < 0.5:
            borrowed = draw.random() < 0.1
            owners.append(
                {
                    "application": "pulsar", "status": "ok", "kind": draw.choice(["data", "cursor"]),
                    "ledger_id": id, "path": claimed_path(metadata) if draw.random() < 0.8 else OTHER_TOPIC,
                    "entries": draw.choice([None, 10, 10, 11]), "size": draw.choice([None, 100, 100, 99]),
                    "offload": draw.choice([None, None, "incomplete", "complete", "deleted"]),
                    "offload_time": draw.choice([None, NOW_MS - 1, 5]), "borrowed": borrowed,
                    "mzxid": draw.choice([FIRST_ZXID, FIRST_ZXID + 1]),
                    "mtime": draw.choice([None, FIRST_TIME - 1, FIRST_TIME]), "stale": False,
                }
            )  # fmt: skip
            owners[-1]["path"] = owners[-1]["path"] or OTHER_TOPIC
    owners += [
        {
            "application": "pulsar",
            "status": "unreadable",
            "path": UNREADABLE,
            "damage": "cut",
            "damage_offset": 3,
        },
        {"application": "pulsar", "status": "gap", "path": HIDDEN, "damage": "not listed"},
        {"application": "pulsar", "status": "ok", "path": COMPACTED, "kind": "compacted", "stale": True},
    ]
    return ledgers, owners


def standing_of(ledger: Row | None, owner: Row | None, id: int, stores: str) -> tuple[str | None, bool]:
    """Return the standing by the written rules, and whether a dangling reference is in doubt."""
    live = stores != "saved"
    exists = ledger is not None or (live and id in CREATED)
    if owner is not None:
        if exists:
            return "owned", False
        if owner["offload"] == "deleted":
            return "offloaded", False
        if owner["borrowed"]:
            return "unknown", False
        changed = {
            "saved": False,
            "one": owner["mzxid"] > FIRST_ZXID,
            "two": owner["mtime"] is None or owner["mtime"] >= FIRST_TIME,
        }
        return "dangling", id in DOUBTED or changed[stores]
    if ledger is None:
        return ("unnamed", False) if exists else (None, False)
    metadata = ledger["custom_metadata"]
    if metadata.get("application") not in (b"pulsar", b"other"):
        return "unnamed", False
    if metadata["application"] != b"pulsar":
        return "foreign", False
    if ledger["ctime"] is not None and NOW_MS - ledger["ctime"] <= GRACE:
        return "young", False
    path = claimed_path(metadata)
    shut = path is not None and (path in (UNREADABLE, HIDDEN, COMPACTED) or path.startswith(f"{HIDDEN}/"))
    # A ledger that a run which is older by the grace has seen is older than the grace.
    ageless = ledger["ctime"] is None and id not in SEEN_BEFORE
    if path is None or ageless or shut or (live and id in DELETED):
        return "unknown", False
    return "unowned", False


def fault_of(ledger: Row | None, owner: Row | None, standing: str | None) -> str | None:
    """Return the id of the check that reports the ledger, or None."""
    if standing in ("dangling", "unowned"):
        return {"dangling": "owner-dangling", "unowned": "ledger-unowned"}[standing]
    if standing != "owned" or ledger is None or owner is None or owner["borrowed"]:
        return None
    path = claimed_path(ledger["custom_metadata"])
    if path is not None and path != owner["path"]:
        return "ledger-misattributed"
    if owner["kind"] != "data":
        return None
    entries, size = owner["entries"] or 10, owner["size"] or 100
    if ledger["state"] == "CLOSED" and (entries, size) != (10, 100):
        return "owner-length-mismatch"
    times = [time for time in (ledger["ctime"], owner["offload_time"]) if time is not None]
    if times and NOW_MS - max(times) > GRACE and owner["offload"] is not None:
        return "offload-incomplete" if owner["offload"] == "incomplete" else "offload-not-trimmed"
    return None


@pytest.mark.parametrize("stores", ["saved", "one", "two"])
def test_ownership_of_every_ledger_follows_the_rules(spark: SparkSession, stores: str) -> None:
    """The rules hold for a saved store, a running store, and two: one with ledgers, one with owners."""
    live = stores != "saved"
    ledgers, owners = random_cluster(len(stores))
    by_id, owner_by_id = (
        {row["ledger_id"]: row for row in ledgers},
        {row["ledger_id"]: row for row in owners if "ledger_id" in row},
    )
    moved = [
        {"scope_id": 0, "ledger_id": id, "listed": True, "version": 1} for id in DELETED if id in by_id
    ] + [
        {"scope_id": 0, "ledger_id": id, "listed": True, "version_again": 1}
        for id in CREATED
        if id not in by_id
    ]
    doubtful = [{"scan": 1, "scope_id": 0, "low": DOUBTED[0], "high": DOUBTED[-1], "why": "a gap"}]
    earlier: list[Row] = [
        {"ledger_id": id, "standing": "unowned"}
        if id % 2
        else {"ledger_id": id, "standing": "unknown", "why": NO_AGE_REASON}
        for id in SEEN_BEFORE
    ]
    earlier += [
        {"ledger_id": id, "standing": "unknown", "why": "a gap"} for id in range(600) if id not in SEEN_BEFORE
    ]
    ownership_rows = ownership(
        frame(spark, LEDGERS, ledgers),
        frame(spark, OWNERS, owners),
        frame(spark, MOVED_LEDGERS, moved) if live else None,
        frame(spark, DOUBTFUL_IDS, doubtful),
        frame(spark, OWNERSHIP, earlier),
        None,
        ("pulsar",),
        ReadTimes(
            NOW_MS,
            GRACE,
            {},
            FIRST_ZXID if stores == "one" else None,
            FIRST_TIME if stores == "two" else None,
        ),
    ).collect()
    rows = {row["ledger_id"]: row for row in ownership_rows if row["ledger_id"] is not None}
    assert len(rows) == sum(row["ledger_id"] is not None for row in ownership_rows)
    outcomes = set()
    for id in range(600):
        standing, doubted = standing_of(by_id.get(id), owner_by_id.get(id), id, stores)
        row = rows.get(id)
        assert (row["standing"] if row else None) == standing, id
        if row is None:
            continue
        fault = fault_of(by_id.get(id), owner_by_id.get(id), standing)
        assert row["fault"] == fault, id
        assert row["seen_before"] == (id in SEEN_BEFORE)
        if standing == "dangling":
            assert (row["why"] is not None) == doubted, id
        assert (row["why"] is not None) or standing != "unknown"
        outcomes.add((standing, fault))
    assert len(outcomes) >= 12, "every standing and fault was met"
    path_faults = [(row["path"], row["fault"]) for row in ownership_rows if row["ledger_id"] is None]
    assert sorted(path_faults) == [
        (COMPACTED, None), (HIDDEN, "owner-unreadable"), (UNREADABLE, "owner-unreadable"),
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "limit"), [("gap", 1000), ("unreadable", 20)])
@pytest.mark.parametrize("above", [0, 1])
def test_too_many_unread_paths_make_no_ledger_unowned(
    status: str, limit: int, above: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_tables, "MAX_UNREAD_PATHS", 20)
    metadata = {
        "application": b"pulsar", "component": b"managed-ledger",
        "pulsar/managed-ledger": b"shop/orders/persistent/plain",
    }  # fmt: skip
    leak = {"scope_id": 0, "ledger_id": 7, "status": "ok", "custom_metadata": metadata, "ctime": 5}
    # None of them is above the owner that the ledger names, or is that owner.
    unread = [
        {"application": "pulsar", "status": status, "path": f"{TOPIC}of-others-{number}", "damage": "cut"}
        for number in range(limit + above)
    ]
    ownership_rows = ownership(
        frame(spark, LEDGERS, [leak]),
        frame(spark, OWNERS, unread),
        None,
        frame(spark, DOUBTFUL_IDS, []),
        None,
        None,
        ("pulsar",),
        ReadTimes(NOW_MS, GRACE),
    )
    [row] = ownership_rows.where("ledger_id = 7").collect()
    many = "too many paths in the owner stores were not read"
    assert (row["standing"], row["why"]) == (("unknown", many) if above else ("unowned", None))


WEST, EAST = "pulsar:zk://west:2181", "pulsar:zk://east:2181/east"


def claimed_ledger(id: int, name: str) -> Row:
    metadata = {
        "application": b"pulsar", "component": b"managed-ledger",
        "pulsar/managed-ledger": name.encode(),
    }  # fmt: skip
    return {"scope_id": 0, "ledger_id": id, "status": "ok", "custom_metadata": metadata, "ctime": 5}


def join_owners(
    spark: SparkSession, ledgers: list[Row], owners: list[Row], lists: list[Row]
) -> dict[int, Row]:
    """Return ownership rows of two stores, one at the top of its ZooKeeper and one below a chroot."""
    usual = {"application": "pulsar", "status": "ok", "kind": "data", "borrowed": False, "stale": False}
    ownership_rows = ownership(
        frame(spark, LEDGERS, ledgers),
        frame(spark, OWNERS, [{**usual, **row} for row in owners]),
        None,
        frame(spark, DOUBTFUL_IDS, []),
        None,
        frame(spark, OWNERSHIP, lists),
        ("pulsar",),
        ReadTimes(NOW_MS, GRACE, {WEST: "", EAST: "/east"}),
    )
    return {row["ledger_id"]: row.asDict() for row in ownership_rows.collect()}


def test_ledgers_of_two_stores_are_joined_and_other_namespaces_are_foreign(
    spark: SparkSession,
) -> None:
    topic = "public/default/persistent/t"
    owners: list[Row] = [
        {"ledger_id": 1, "store": WEST, "path": f"/managed-ledgers/{topic}"},
        {"ledger_id": 2, "store": EAST, "path": f"/east/managed-ledgers/{topic}"},
        {"store": EAST, "status": "gap", "path": "/east/managed-ledgers/hidden", "damage": "not listed"},
    ]
    ledgers = [
        claimed_ledger(1, topic), claimed_ledger(2, topic), claimed_ledger(3, topic),
        claimed_ledger(4, "public/other/persistent/t"), claimed_ledger(5, "old/west/other/persistent/t"),
        claimed_ledger(6, "hidden/default/persistent/t"),
    ]  # fmt: skip
    rows = join_owners(spark, ledgers, owners, [])
    standings = {id: row["standing"] for id, row in rows.items() if id is not None}
    assert standings == {1: "owned", 2: "owned", 3: "unowned", 4: "foreign", 5: "foreign", 6: "unknown"}
    assert {rows[id]["fault"] for id in (1, 2)} == {None}, "a claim names no store"
    assert [rows[id]["store"] for id in (1, 2, 3)] == [WEST, EAST, None]
    assert [rows[id]["namespace_read"] for id in (1, 3, 4)] == [True, True, False]
    assert "no owner store that was read contains the namespace public/other" in rows[4]["why"]
    assert "contains the namespace old/other" in rows[5]["why"]
    assert [rows[id]["claim"] for id in (2, 3)] == [
        f"/east/managed-ledgers/{topic}",
        f"/managed-ledgers/{topic}",
    ]


def test_ledger_dropped_from_list_is_marked_until_an_owner_names_it(spark: SparkSession) -> None:
    topic = "public/default/persistent/t"
    owners = [{"ledger_id": 1, "store": WEST, "path": f"/managed-ledgers/{topic}"}]
    lists: list[Row] = [
        {"ledger_id": 1, "standing": "unowned", "store": WEST, "dropped_since": NOW_MS - 9},
        {"ledger_id": 2, "standing": "owned", "store": EAST},
        {"ledger_id": 3, "standing": "unowned", "store": EAST, "dropped_since": NOW_MS - 9},
        {"ledger_id": 4, "standing": "unowned"},
        {"ledger_id": 5, "standing": "owned", "store": EAST},
    ]
    rows = join_owners(spark, [claimed_ledger(id, topic) for id in range(1, 5)], owners, lists)
    list_states = {
        id: (row["store"], row["listed_before"], row["dropped_since"])
        for id, row in rows.items()
        if id is not None
    }
    assert list_states == {
        1: (WEST, True, None),
        2: (EAST, True, NOW_MS),
        3: (EAST, True, NOW_MS - 9),
        4: (None, False, None),
    }, "ledger 5 is gone from BookKeeper too: retention took it"
