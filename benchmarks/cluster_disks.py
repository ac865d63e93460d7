"""The disks of a generated cluster's bookies: directories with cookies, and index files or databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rocksdict import Options, Rdict, WriteBatch

from auditor.keys import index_path
from benchmarks.cluster import ENTRIES, INDEX_TIME_MS, PLAIN_SHAPE, Cluster, LedgerShape, Longs

INDEX_DIRECTORY = "ledgers0"
# The header of an index file (BookKeeper's FileInfo): magic, version 1, and zeros up to 1,024 bytes.
_INDEX_HEADER = b"BKLE" + (1).to_bytes(4, "big") + bytes(1016)
_SLOTS_PER_PAGE = 128  # in a page of 1,024 bytes
_ENTRY_LOCATION = (
    1 << 32
) | 1028  # entry log 1, offset 1028: the first entry behind the header and its length
_BATCH_KEYS = 50_000  # keys of the database locations in one write
# Value of a ledger in the database ledgers: it exists, is not fenced, and has a master key.
_LEDGER_VALUE = bytes.fromhex("080110001a14") + bytes(20)

_entries_at_offset = cache(LedgerShape.entries_at_offset)  # the method loops over all entries


class HeldLedgers(NamedTuple):
    """Ledgers for which one bookie holds the same entries."""

    shape: LedgerShape
    bookie_offset: int
    ids: Longs


def find_held_ledgers(cluster: Cluster) -> list[list[HeldLedgers]]:
    """Return the ledgers that each bookie holds, in groups with equal entries. Orphans come last."""
    ledgers_by_bookie: list[list[HeldLedgers]] = [[] for _ in cluster.ids]
    for group in cluster.groups_of_ledgers():
        for bookie_offset, bookie in group.members.items():
            ledgers_by_bookie[bookie].append(HeldLedgers(group.shape, bookie_offset, group.ids))
    for bookie, bookie_ledgers in enumerate(ledgers_by_bookie):
        bookie_ledgers.append(HeldLedgers(PLAIN_SHAPE, 0, cluster.orphan_ledgers(bookie)))
    return ledgers_by_bookie


def write_bookies(cluster: Cluster, root: Path) -> list[Path]:
    """Write each bookie's journal and index directory with ``VERSION`` and ``lastMark``, but no indexes.

    Returns the index directories.
    """
    directories = []
    for number, bookie in enumerate(cluster.ids):
        bookie_root = root / bookie.replace(":", "_")
        for name in ("journal", INDEX_DIRECTORY):
            current_directory = bookie_root / name / "current"
            current_directory.mkdir(parents=True)
            (current_directory / "VERSION").write_bytes(cluster.cookie(number))
        last_mark = bookie_root / INDEX_DIRECTORY / "current" / "lastMark"
        last_mark.write_bytes(bytes(16))
        os.utime(last_mark, (INDEX_TIME_MS / 1000,) * 2)
        directories.append(bookie_root / INDEX_DIRECTORY)
    return directories


def write_index_files(cluster: Cluster, root: Path) -> None:
    """Write the directories of all bookies, with one ``.idx`` file for each ledger on each bookie."""
    add_index_files(cluster, write_bookies(cluster, root))


def add_index_files(cluster: Cluster, directories: list[Path]) -> None:
    """Write one ``.idx`` file for each ledger on each bookie into the bookies' existing index directories."""
    for directory, bookie_ledgers in zip(directories, find_held_ledgers(cluster), strict=True):
        parent_directories: set[str] = set()
        for held_ledgers in bookie_ledgers:
            index_slots = np.zeros(-(-ENTRIES // _SLOTS_PER_PAGE) * _SLOTS_PER_PAGE, ">i8")
            index_slots[_entries_at_offset(held_ledgers.shape, held_ledgers.bookie_offset)] = _ENTRY_LOCATION
            file_bytes = _INDEX_HEADER + index_slots.tobytes()
            for ledger in held_ledgers.ids.tolist():
                path = f"{directory}/current/{index_path.to_path(ledger)}"
                parent_directory = path.rpartition("/")[0]
                if parent_directory not in parent_directories:
                    Path(parent_directory).mkdir(parents=True, exist_ok=True)
                    parent_directories.add(parent_directory)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
                os.write(descriptor, file_bytes)
                os.close(descriptor)


def write_databases(cluster: Cluster, root: Path) -> None:
    """Write the directories of all bookies with the two databases of DbLedgerStorage.

    The database ``locations`` has one key for each entry of the bookie, ``ledgers`` one for each ledger.
    """
    for directory, bookie_ledgers in zip(
        write_bookies(cluster, root), find_held_ledgers(cluster), strict=True
    ):
        current_directory = directory / "current"
        locations = Rdict(str(current_directory / "locations"), Options(raw_mode=True))
        ledgers = Rdict(str(current_directory / "ledgers"), Options(raw_mode=True))
        for held_ledgers in bookie_ledgers:
            for keys in _location_keys(held_ledgers):
                batch = WriteBatch(raw_mode=True)
                for key in keys:
                    batch.put(key, _ENTRY_LOCATION.to_bytes(8, "big"))
                locations.write(batch)
            batch = WriteBatch(raw_mode=True)
            for ledger in held_ledgers.ids.tolist():
                batch.put(ledger.to_bytes(8, "big"), _LEDGER_VALUE)
            ledgers.write(batch)
        for database in (locations, ledgers):
            database.flush()
            database.close()


def _location_keys(held_ledgers: HeldLedgers) -> Iterator[list[bytes]]:
    """Yield the keys of the database ``locations`` (ledger, entry) in batches of about `_BATCH_KEYS`."""
    entries = np.array(_entries_at_offset(held_ledgers.shape, held_ledgers.bookie_offset), ">i8")
    batch_ledgers = max(_BATCH_KEYS // max(len(entries), 1), 1)
    for first_ledger in range(0, len(held_ledgers.ids), batch_ledgers):
        ids = held_ledgers.ids[first_ledger : first_ledger + batch_ledgers].astype(">i8")
        ledger_entry_pairs = np.stack((np.repeat(ids, len(entries)), np.tile(entries, len(ids))), axis=1)
        key_bytes = ledger_entry_pairs.astype(">i8").tobytes()
        yield [key_bytes[offset : offset + 16] for offset in range(0, len(key_bytes), 16)]
