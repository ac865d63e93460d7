"""Bookies that refuse to start, and the findings of an audit before and after."""

from __future__ import annotations

import json
import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.holds import ActionKind
from auditor.plan.plan_file import make_plan
from auditor.runs.reader import RunReader
from tests.clusters.idle import audit
from tests.clusters.living import IDLE_SETTINGS, TICK_MS, LivingBookies, living_cluster, wait_until
from tests.clusters.store import ROOT, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGERS, ENTRIES = 4, 6


def damage_journal(cluster: LivingBookies, bookie: str, damage: bytes) -> int:
    """Overwrite the beginning of a record in the middle of a stopped bookie's journal; return its offset."""
    [path] = (cluster.place(bookie) / "journal/current").glob("*.txn")
    data = bytearray(path.read_bytes())
    offset, records = 512, []
    while (length := int.from_bytes(data[offset : offset + 4], "big", signed=True)) != 0:
        if length < 0:  # padding
            offset += 8 + int.from_bytes(data[offset + 4 : offset + 8], "big")
            continue
        records.append(offset)
        offset += 4 + length
    middle = records[len(records) // 2]
    data[middle : middle + len(damage)] = damage
    path.write_bytes(data)
    return middle


def starts(cluster: LivingBookies, bookie: str) -> bool:
    """Start a bookie; return whether it then serves."""
    with suppress(RuntimeError):
        cluster.start(bookie)
        return True
    cluster.kill(bookie)
    return False


@pytest.mark.parametrize(
    ("damage", "exception", "fault", "skippable"),
    [
        (struct.pack(">i", -448299468), "java.io.IOException", "journal-invalid-record", True),
        (struct.pack(">i", 8), "java.nio.BufferUnderflowException", "journal-unreadable", False),
        (struct.pack(">ii", -256, -9), "java.lang.IllegalArgumentException", "journal-unreadable", False),
    ],
)
def test_start_fails_on_a_damaged_journal_record_as_the_audit_says(
    damage: bytes, exception: str, fault: str, skippable: bool, tmp_path: Path, spark: SparkSession
) -> None:
    with living_cluster(
        tmp_path, "DbLedgerStorage", bookies=3, settings=IDLE_SETTINGS, flush_interval_s=3600
    ) as cluster:
        assert isinstance(cluster.store, Store)
        for ledger in range(1, LEDGERS + 1):
            cluster.write(ledger, cluster.ids, 3, 2, ENTRIES)
        down = cluster.ids[0]
        cluster.kill(down)
        offset = damage_journal(cluster, down, damage)
        available = f"{ROOT}/available"
        wait_until(lambda: down not in cluster.store.client.get_children(available), f"{down} goes")
        run = audit(spark, cluster.store, [str(cluster.directory)], tmp_path / "run")
        [finding] = run.findings_of("start-refused")
        assert (finding["bookie_id"], finding["severity"]) == (down, "error")
        assert finding["confidence"] == "confirmed"
        assert f"at byte {offset}; the replay of the journal ends there" in finding["message"]
        evidence = json.loads(finding["evidence"])
        assert (evidence["error"], evidence["fault"]) == (exception, fault)
        assert (evidence["way_out"] is not None) is skippable
        assert not starts(cluster, down)
        assert re.search(exception, cluster.log(down).read_text(errors="replace"))
        cluster.settings({**IDLE_SETTINGS, "skipReplayJournalInvalidRecord": "true"})
        assert starts(cluster, down) is skippable


def cut_table(database: Path) -> None:
    table = max(database.glob("*.sst"))
    os.truncate(table, table.stat().st_size // 2)


def remove_table(database: Path) -> None:
    max(database.glob("*.sst")).unlink()


def spoil_manifest(database: Path) -> None:
    [manifest] = database.glob("MANIFEST-*")
    data = manifest.read_bytes()
    manifest.write_bytes(data[:20] + bytes(20) + data[40:])


def remove_current(database: Path) -> None:
    (database / "CURRENT").unlink()


def spoil_log(database: Path) -> None:
    log = max(database.glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[10] ^= 0xFF
    log.write_bytes(data)


DAMAGES = (cut_table, remove_table, spoil_manifest, remove_current, spoil_log)


@pytest.mark.parametrize("release", ["4.14.7", "4.17.3"])
def test_bookies_with_damaged_databases_are_forbidden_to_start(
    release: str, tmp_path: Path, spark: SparkSession
) -> None:
    with (
        EmbeddedZooKeeper(tmp_path / "zookeeper", tick_time_ms=TICK_MS) as server,
        Store(server.hosts) as store,
        LivingBookies(
            store, tmp_path, "DbLedgerStorage", 6, release=release, settings=IDLE_SETTINGS
        ) as cluster,
    ):
        for ledger in range(1, LEDGERS + 1):
            cluster.write(ledger, cluster.ids, 6, 6, ENTRIES)
        *damaged, _ = cluster.ids
        cluster.stop(*damaged)
        for bookie, damage in zip(damaged, DAMAGES, strict=True):
            if damage is not spoil_log:
                # A start makes a table of what the log of the database had.
                cluster.start(bookie)
                cluster.stop(bookie)
            damage(cluster.place(bookie) / "ledgers0/current/locations")
        run = audit(spark, store, [str(cluster.directory)], tmp_path / "run")
        assert {row["bookie_id"] for row in run.findings_of("index-unreadable")} == {*damaged}
        holds = [row for row in run.table("holds") if row["reason"] == "index-damaged"]
        assert {(row["object"], row["key"], *row["forbids"]) for row in holds} == {
            ("bookie", name, "start") for name in damaged
        }
        assert "start" not in [action["kind"] for action in run.report.run.actions]
        plan = make_plan(RunReader(str(run.out)))
        assert ActionKind.START not in {step.kind for step in plan.steps}
        # With a damaged log a bookie starts, without what the log has behind the damage.
        assert [starts(cluster, name) for name in damaged] == [False, False, False, False, True]


def with_index_directories(cookie: str) -> str:
    """Return a cookie of 4.14 as 4.16 and later write it: with layout 5 and the index directories."""
    directories = re.search(r'ledgerDirs: "(1.t.*)"', cookie)
    assert directories is not None
    indexes = directories[1].replace("ledgers0", "index0")
    return cookie.replace("4\n", "5\n", 1) + f'indexDirs: "{indexes}"\n'


@pytest.mark.parametrize("storage", ["DbLedgerStorage", "InterleavedLedgerStorage"])
def test_index_directories_prevent_the_start_after_an_upgrade_from_4_14(
    storage: str, tmp_path: Path, spark: SparkSession
) -> None:
    in_rocksdb = storage == "DbLedgerStorage"
    with (
        EmbeddedZooKeeper(tmp_path / "zookeeper", tick_time_ms=TICK_MS) as server,
        Store(server.hosts) as store,
        LivingBookies(
            store, tmp_path, storage, 3,
            release="4.14.7", index_apart=True, flush_interval_s=1, settings=IDLE_SETTINGS,
        ) as cluster,
    ):  # fmt: skip
        ledgers = dict.fromkeys(range(1, LEDGERS + 1), ENTRIES - 1)
        for ledger in ledgers:
            cluster.write(ledger, cluster.ids, 3, 2, ENTRIES)
        bookies = [str(cluster.directory)]
        before = audit(spark, store, bookies, tmp_path / "before")
        assert before.copy_findings() == []
        assert [(row["severity"], row["confidence"]) for row in before.findings_of("start-refused")] == [
            ("note", "suspect")
        ] * 3
        cluster.stop(*cluster.ids)
        cluster.upgrade("4.17.3")
        first = cluster.ids[0]
        assert not starts(cluster, first)
        assert "InvalidCookieException" in cluster.log(first).read_text(errors="replace")
        after = audit(spark, store, bookies, tmp_path / "after")
        refusals = after.findings_of("start-refused")
        assert [(row["bookie_id"], row["severity"]) for row in refusals] == [
            (name, "error") for name in sorted(cluster.ids)
        ]
        evidence = json.loads(refusals[0]["evidence"])
        assert evidence["fault"] == "index-not-in-cookie"
        assert evidence["way_out"].startswith(
            "without the setting indexDirectories" if in_rocksdb else "write the bookie's index"
        )
        actions = [action["text"] for action in after.report.run.actions]
        assert not any(text.startswith("start ") for text in actions)
        if in_rocksdb:
            cluster.without_index_directories()
        else:
            for name in cluster.ids:
                for path in cluster.place(name).glob("*/current/VERSION"):
                    path.write_text(with_index_directories(path.read_text()))
                znode = f"{ROOT}/cookies/{name}"
                cookie = with_index_directories(store.client.get(znode)[0].decode())
                store.client.set(znode, cookie.encode())
        cluster.start(*cluster.ids)
        served = cluster.read(ledgers)
        assert {letters for by_bookie in served.values() for letters in by_bookie.values()} == {"1" * ENTRIES}
