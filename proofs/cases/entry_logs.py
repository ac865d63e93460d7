"""Cases about entry logs: a damaged record that hides later records, deleted logs, and one log per ledger."""

from __future__ import annotations

import time
from pathlib import Path

from proofs.cases.session import CaseSession
from tests.clusters.idle import idle_cluster
from tests.clusters.living import IDLE_SETTINGS, LivingBookies, living_cluster
from tests.servers.bookies.driver import Bookies

FLUSHED_S = 5
"""Seconds to wait for a flush: longer than two flush intervals."""
COLLECTED_S = 25
"""Seconds to wait for garbage collection: longer than several collections at intervals of three seconds."""
ENTRIES = 20


def collect_damaged_log(case: CaseSession) -> None:
    """Flip one bit of a record's length.

    Garbage collection then deletes the log, although live ledgers have entries after that record.
    """
    conf = case.root / "bk_server.conf"
    conf.write_text("gcWaitTime=900000\n")
    with living_cluster(
        case.root, case.storage, bookies=3, settings=IDLE_SETTINGS, flush_interval_s=2, release=case.release
    ) as cluster:
        for ledger in range(1, 13):
            cluster.write(ledger, cluster.ids, 3, 3, ENTRIES)
        bookie = cluster.ids[0]
        time.sleep(FLUSHED_S)
        cluster.kill(bookie)
        cluster.start(bookie)
        cluster.write(20, cluster.ids, 3, 3, ENTRIES)
        time.sleep(FLUSHED_S)
        cluster.stop(bookie)
        log, offset = _flip_bit(cluster.place(bookie) / "ledgers0/current")
        cluster.settings({**IDLE_SETTINGS, "gcWaitTime": 600_000})
        cluster.start(bookie)
        cluster.write(21, cluster.ids, 3, 3, ENTRIES)
        time.sleep(FLUSHED_S)
        print(f"{log} is damaged at byte {offset}; served: {_count_served_entries(cluster, bookie)}")
        for ledger in range(1, 8):
            cluster.delete(ledger)
        options = ("--entry-logs", "--deep", "--bookie-conf", conf)
        case.print_findings(run := case.audit(cluster.store.uri, "before", *options))
        case.run("space", run)
        cluster.settings({**IDLE_SETTINGS, "gcWaitTime": 3_000})
        cluster.stop(bookie)
        cluster.start(bookie)
        cluster.write(22, cluster.ids, 3, 3, ENTRIES)
        time.sleep(COLLECTED_S)
        print(f"after collections; served: {_count_served_entries(cluster, bookie)}")


def _flip_bit(directory: Path) -> tuple[str, int]:
    """Flip the sign bit of one record's length in the log with ledger 7; return its name and the offset."""
    for log in sorted(directory.glob("*.log")):
        data, pos, of_ledger_7 = bytearray(log.read_bytes()), 1024, []
        while pos + 12 <= len(data) and (size := int.from_bytes(data[pos : pos + 4], "big", signed=True)) > 0:
            if int.from_bytes(data[pos + 4 : pos + 12], "big") == 7:
                of_ledger_7.append(pos)
            pos += 4 + size
        if len(of_ledger_7) > ENTRIES // 2:
            data[of_ledger_7[ENTRIES // 2]] ^= 0x80
            log.write_bytes(data)
            return log.name, of_ledger_7[ENTRIES // 2]
    raise AssertionError("no log has ledger 7")


def _count_served_entries(cluster: LivingBookies, bookie: str) -> dict[int, int]:
    answers = cluster.read(dict.fromkeys(range(1, 13), ENTRIES - 1), [bookie])
    return {ledger: of_bookies[bookie].count("1") for ledger, of_bookies in answers.items()}


def lose_log_on_all_copies(case: CaseSession) -> None:
    """Delete an entry log on every bookie of its ledgers. Servers then report "entry log not found"."""
    with living_cluster(
        case.root,
        case.storage,
        bookies=3,
        settings={**IDLE_SETTINGS, "logSizeLimit": 12_000},
        flush_interval_s=2,
        release=case.release,
    ) as cluster:
        for ledgers in (range(1, 13), range(20, 33)):
            for ledger in ledgers:
                cluster.write(ledger, cluster.ids, 3, 2, ENTRIES)
            time.sleep(FLUSHED_S)
        for bookie in cluster.ids:
            cluster.stop(bookie)
            (cluster.place(bookie) / "ledgers0/current/0.log").unlink()
            cluster.start(bookie)
        print("served:", cluster.read(dict.fromkeys((1, 2, 3, 20), ENTRIES - 1)))
        uri = cluster.store.uri
        case.audit(uri, "plain")
        case.print_findings(deep := case.audit(uri, "deep", "--entry-logs", "--deep"))
        case.run("explain", "ledger", 1, "--run", deep)
        cluster.stop(*cluster.ids)
        dump = case.root / "metadata.jsonl"
        case.run("dump", uri, dump)
        case.print_findings(saved := case.audit(f"dump://{dump}", "saved", "--entry-logs", "--deep"))
        case.run("plan", saved, "--out", case.root / "plan.toml")
        case.run("simulate", saved)


def keep_log_per_ledger(case: CaseSession) -> None:
    """Delete all ledgers of some logs while entryLogPerLedgerEnabled is set: the bookie keeps the logs."""
    settings = {"entryLogPerLedgerEnabled": "true", "entrylogMapAccessExpiryTimeInSeconds": 2}
    conf = case.root / "bk_server.conf"
    lines = [f"{name}={value}" for name, value in settings.items()]
    storage = "InterleavedLedgerStorage"
    lines += ["gcWaitTime=900000", f"ledgerStorageClass=org.apache.bookkeeper.bookie.{storage}"]
    conf.write_text("\n".join(lines) + "\n")
    options = ("--entry-logs", "--bookie-conf", conf, "--owner-grace", 0)
    with idle_cluster(case.root, storage, 3, settings=settings, release=case.release) as (bookies, store):
        bookies.create(1, bookies.ids, 2, 2)
        bookies.append(1, 10)  # ledger 1 stays open, so its log stays the lowest unflushed one
        for ledger in range(2, 12):
            bookies.write(ledger, bookies.ids, 2, 2, 10)
        for _ in range(6):
            bookies.append(1, 3)
            time.sleep(1)
        bookies.flush()
        bookies.append(1, 3)
        bookies.flush()
        print("logs:", _logs(bookies))
        for ledger in range(2, 8):
            bookies.delete(ledger)
        case.audit(store.uri, "before", *options)
        for number in (1, 2):
            for bookie in bookies.ids:
                bookies.append(1, 3)
                bookies.collect(bookie)
            print(f"logs after collection {number}:", _logs(bookies))
        case.audit(store.uri, "after", *options)


def _logs(bookies: Bookies) -> list[str]:
    place = bookies.place(bookies.ids[0]) / "ledgers0/current"
    return sorted(path.name for path in place.glob("*.log"))
