"""Cases about bookies that were removed or that do not start again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from proofs.cases.session import CaseSession
from tests.clusters.idle import idle_cluster
from tests.clusters.living import IDLE_SETTINGS, TICK_MS, LivingBookies, living_cluster
from tests.clusters.store import ROOT, Store

ENTRIES = 20
FIRST_RECORD = 512
"""Offset of the first record in a journal file, in bytes."""
NEGATIVE_LENGTH = -448_299_468
"""A record length from bookkeeper #2220."""


def remove_all_members(case: CaseSession) -> None:
    """Stop all bookies of some ledgers, and then remove them for good."""
    with idle_cluster(case.root, case.storage, 4, release=case.release) as (bookies, store):
        removed_bookies, other_bookies = bookies.ids[:2], bookies.ids[2:]
        for ledgers, members in (
            (range(1, 6), removed_bookies),
            (range(6, 9), [removed_bookies[0], other_bookies[0]]),
            (range(9, 12), other_bookies),
        ):
            for ledger in ledgers:
                bookies.write(ledger, members, 2, 2, 10)
        bookies.create(30, [other_bookies[0], removed_bookies[1]], 2, 2)  # open, and never written
        bookies.flush()
        for bookie in removed_bookies:
            bookies.stop(bookie)
        down = case.audit(store.uri, "down")
        for bookie in removed_bookies:
            store.client.delete(f"{ROOT}/cookies/{bookie}")
            shutil.rmtree(bookies.place(bookie))
        case.print_findings(run := case.audit(store.uri, "gone"))
        case.run("explain", "run", run)
        case.run("explain", "ledger", 1, "--run", run)
        case.run("explain", "ledger", 30, "--run", down)
        case.run("plan", run, "--out", case.root / "plan.toml")


def damage_journal(case: CaseSession) -> None:
    """Write a negative record length after the last mark.

    The length ends the journal's replay, so the bookie does not start.
    """
    with living_cluster(
        case.root,
        case.storage,
        bookies=3,
        settings=IDLE_SETTINGS,
        flush_interval_s=3600,
        release=case.release,
    ) as cluster:
        for ledger in range(1, 9):
            cluster.write(ledger, cluster.ids, 3, 2, ENTRIES)
        bookie = cluster.ids[0]
        cluster.kill(bookie)
        path = max((cluster.place(bookie) / "journal/current").glob("*.txn"))
        data, offset, records = bytearray(path.read_bytes()), FIRST_RECORD, []
        while (size := int.from_bytes(data[offset : offset + 4], "big", signed=True)) != 0:
            if size > 0:
                records.append(offset)
                offset += 4 + size
            else:  # padding
                offset += 8 + int.from_bytes(data[offset + 4 : offset + 8], "big")
        middle = records[len(records) // 2]
        data[middle : middle + 4] = NEGATIVE_LENGTH.to_bytes(4, "big", signed=True)
        path.write_bytes(data)
        print(f"{bookie} starts:", _starts(cluster, bookie))
        time.sleep(6)
        case.print_findings(run := case.audit(cluster.store.uri, "run"))
        case.run("explain", "run", run)
        case.run("explain", "bookie", bookie, "--run", run)
        case.run("doctor", "--metadata", cluster.store.uri, "--bookies", case.bookies)


def upgrade_index_directories(case: CaseSession) -> None:
    """Upgrade from 4.14, whose cookies name no index directories: no bookie starts after the upgrade."""
    with _cluster_of_4_14(case) as (cluster, store):
        for ledger in range(1, 9):
            cluster.write(ledger, cluster.ids, 3, 2, 10)
        time.sleep(3)
        case.audit(store.uri, "old")
        cluster.stop(*cluster.ids)
        cluster.upgrade("4.17.3")
        for bookie in cluster.ids:
            print(f"{bookie} starts on 4.17.3:", _starts(cluster, bookie))
        case.print_findings(run := case.audit(store.uri, "new", "--entry-logs"))
        case.run("explain", "run", run)


@contextmanager
def _cluster_of_4_14(case: CaseSession) -> Iterator[tuple[LivingBookies, Store]]:
    with (
        EmbeddedZooKeeper(case.root / "zookeeper", tick_time_ms=TICK_MS) as server,
        Store(server.hosts) as store,
        LivingBookies(
            store, case.root, case.storage, 3,
            release="4.14.7", index_apart=True, flush_interval_s=1, settings=IDLE_SETTINGS,
        ) as cluster,
    ):  # fmt: skip
        yield cluster, store


def _starts(cluster: LivingBookies, bookie: str) -> bool:
    """Start a bookie; return whether it serves. Print the exceptions in its log if it does not."""
    try:
        cluster.start(bookie)
    except RuntimeError:
        lines = cluster.log(bookie).read_text(errors="replace").splitlines()
        print("\n".join(line for line in lines if "Exception" in line)[:1500])
        return False
    return True
