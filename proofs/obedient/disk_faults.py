"""Faults of disks: lost, exchanged or copied directories, and damaged indexes and entry logs.

Each function makes one fault and returns its description.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from proofs.obedient.cluster import TrialCluster, TrialLedger
from proofs.obedient.targets import (
    choose_ledgers_on,
    choose_running,
    choose_several_running,
    has_index_files,
    ledger_names,
    start_if_possible,
)


def empty_disks(cluster: TrialCluster) -> str:
    """Replace all directories of a bookie with empty ones. The bookie does not start again."""
    bookie = choose_running(cluster)
    cluster.bookies.stop(bookie)
    for directory in _directories(cluster, bookie):
        shutil.rmtree(directory)
        directory.mkdir()
    start_if_possible(cluster, bookie)
    return f"the disks of {bookie} are empty"


def empty_disks_but_version(cluster: TrialCluster) -> str:
    """Delete all files of a bookie except ``VERSION``. The bookie starts again."""
    bookie = choose_running(cluster)
    cluster.bookies.stop(bookie)
    for directory in _directories(cluster, bookie):
        for path in (directory / "current").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "VERSION":
                path.unlink()
    start_if_possible(cluster, bookie)
    return f"the disks of {bookie} are empty but for VERSION"


def exchange_disks(cluster: TrialCluster) -> str:
    first, second = choose_several_running(cluster, 2)
    for bookie in (first, second):
        cluster.bookies.stop(bookie)
    places = [cluster.bookies.place(bookie) / "ledgers0" for bookie in (first, second)]
    between = cluster.root / "between"
    places[0].rename(between)
    places[1].rename(places[0])
    between.rename(places[1])
    for bookie in (first, second):
        start_if_possible(cluster, bookie)
    return f"the ledger directories of {first} and {second} are exchanged"


def copy_directory(cluster: TrialCluster) -> str:
    """Copy a bookie's directories to a place next to the originals."""
    bookie = choose_running(cluster)
    source = cluster.bookies.place(bookie)
    shutil.copytree(source, source.with_name(f"{source.name}_copy"), ignore_dangling_symlinks=True)
    return f"the directories of {bookie} were copied"


def lose_index_entries(cluster: TrialCluster) -> str:
    """Remove entries of some ledgers from a bookie's index. Its entry logs keep them."""
    bookie = choose_running(cluster)
    ledgers = choose_ledgers_on(cluster, bookie)
    cluster.bookies.flush()
    entry_ids = cluster.bookies.stored_entries()[
        bookie
    ]  # must come before any damage: it reads all entry logs
    cluster.bookies.stop(bookie)
    for ledger in ledgers:
        entries = sorted(entry_ids.get(ledger.id, ()))
        if has_index_files(cluster, bookie):
            for path in _index_files(cluster, bookie, ledger):
                path.unlink()
        elif entries:
            lost = entries if cluster.random.random() < 0.5 else entries[: len(entries) // 2]
            cluster.bookies.forget_entries(bookie, ledger.id, lost)
            if len(lost) == len(entries) and cluster.random.random() < 0.5:
                cluster.bookies.forget_ledger(bookie, ledger.id)
    cluster.bookies.start(bookie)
    return f"the index of {bookie} lacks entries of {ledger_names(ledgers)}"


def damage_index_files(cluster: TrialCluster) -> str:
    """Truncate or empty index files, or overwrite their magic. With RocksDB, truncate table files."""
    bookie = choose_running(cluster)
    ledgers = choose_ledgers_on(cluster, bookie)
    cluster.bookies.flush()
    cluster.bookies.stop(bookie)
    if has_index_files(cluster, bookie):
        for ledger in ledgers:
            for path in _index_files(cluster, bookie, ledger):
                data = path.read_bytes()
                path.write_bytes(cluster.random.choice((b"", b"none" + data[4:], data[:600])))
    else:
        # Opening a RocksDB database writes the content of its log into a table file.
        cluster.restart(bookie)
        cluster.bookies.stop(bookie)
        name = cluster.random.choice(("locations", "ledgers"))
        for table in (cluster.bookies.place(bookie) / "ledgers0" / "current" / name).glob("*.sst"):
            os.truncate(table, table.stat().st_size // 2)
    start_if_possible(cluster, bookie)
    return f"index files of {bookie} are damaged"


def damage_entry_log(cluster: TrialCluster) -> str:
    """Overwrite bytes in an entry log or in its header, or truncate or delete the log."""
    bookie = choose_running(cluster)
    cluster.bookies.flush()
    cluster.bookies.stop(bookie)
    logs = sorted((cluster.bookies.place(bookie) / "ledgers0" / "current").glob("*.log"))
    log = max(logs, key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    how = cluster.random.choice(("overwritten", "cut", "gone", "without its header"))
    middle = len(data) // 2
    if how == "overwritten":
        data[middle : middle + 200] = b"\xee" * len(data[middle : middle + 200])
        log.write_bytes(data)
    elif how == "cut":
        log.write_bytes(data[:middle])
    elif how == "without its header":
        log.write_bytes(b"\xee" * 8 + data[8:])
    else:
        log.unlink()
    start_if_possible(cluster, bookie)
    return f"entry log {log.name} of {bookie} is {how}"


def _directories(cluster: TrialCluster, bookie: str) -> list[Path]:
    place = cluster.bookies.place(bookie)
    return [path for path in (place / "journal", place / "ledgers0") if path.exists()]


def _index_files(cluster: TrialCluster, bookie: str, ledger: TrialLedger) -> list[Path]:
    return [*cluster.bookies.place(bookie).glob(f"ledgers0/current/*/*/{ledger.id:x}.idx")]
