"""A cluster's bookies as their disks keep them: directories with cookies, and index files or databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rocksdict import Options, Rdict, WriteBatch

from auditor.keys import index_path
from benchmarks.cluster import ENTRIES, INDEX_MS, PLAIN, Cluster, Longs, Shape

INDEX_DIRECTORY = "ledgers0"
_HEADER = b"BKLE" + (1).to_bytes(4, "big") + bytes(1016)
_PAGE_SLOTS = 128  # one page of 1,024 bytes
_LOCATION = (1 << 32) | 1028
_BATCH = 50_000  # locations in one write
# A ledger of the index of ledgers: it exists, is not fenced, and has a master key.
_LEDGER_DATA = bytes.fromhex("080110001a14") + bytes(20)

_held_entries = cache(Shape.held)  # a loop over all entries


class Holding(NamedTuple):
    """Ledgers of which a bookie holds the same entries."""

    shape: Shape
    seat: int
    ids: Longs


def holdings(cluster: Cluster) -> list[list[Holding]]:
    """What each bookie holds, orphans and all."""
    holdings_by_bookie: list[list[Holding]] = [[] for _ in cluster.ids]
    for group in cluster.groups_of_ledgers():
        for seat, bookie in group.members.items():
            holdings_by_bookie[bookie].append(Holding(group.shape, seat, group.ids))
    for bookie, holding in enumerate(holdings_by_bookie):
        holding.append(Holding(PLAIN, 0, cluster.orphans(bookie)))
    return holdings_by_bookie


def write_bookies(cluster: Cluster, root: Path) -> list[Path]:
    """Write each bookie's journal and index directory, with VERSION and lastMark and nothing more."""
    directories = []
    for number, bookie in enumerate(cluster.ids):
        place = root / bookie.replace(":", "_")
        for name in ("journal", INDEX_DIRECTORY):
            current = place / name / "current"
            current.mkdir(parents=True)
            (current / "VERSION").write_bytes(cluster.cookie(number))
        mark = place / INDEX_DIRECTORY / "current" / "lastMark"
        mark.write_bytes(bytes(16))
        os.utime(mark, (INDEX_MS / 1000,) * 2)
        directories.append(place / INDEX_DIRECTORY)
    return directories


def write_index_files(cluster: Cluster, root: Path) -> None:
    """Write the bookies with one `.idx` file for each ledger that they hold."""
    add_index_files(cluster, write_bookies(cluster, root))


def add_index_files(cluster: Cluster, directories: list[Path]) -> None:
    """Write one `.idx` file for each ledger that the bookies hold into their index directories."""
    for directory, bookie_holdings in zip(directories, holdings(cluster), strict=True):
        parents: set[str] = set()
        for holding in bookie_holdings:
            slots = np.zeros(-(-ENTRIES // _PAGE_SLOTS) * _PAGE_SLOTS, ">i8")
            slots[_held_entries(holding.shape, holding.seat)] = _LOCATION
            content = _HEADER + slots.tobytes()
            for ledger in holding.ids.tolist():
                path = f"{directory}/current/{index_path.to_path(ledger)}"
                parent = path.rpartition("/")[0]
                if parent not in parents:
                    Path(parent).mkdir(parents=True, exist_ok=True)
                    parents.add(parent)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
                os.write(descriptor, content)
                os.close(descriptor)


def write_databases(cluster: Cluster, root: Path) -> None:
    """Write the bookies with DbLedgerStorage's two databases, one key for each entry that they hold."""
    for directory, bookie_holdings in zip(write_bookies(cluster, root), holdings(cluster), strict=True):
        current = directory / "current"
        locations = Rdict(str(current / "locations"), Options(raw_mode=True))
        ledgers = Rdict(str(current / "ledgers"), Options(raw_mode=True))
        for holding in bookie_holdings:
            for keys in _keys(holding):
                batch = WriteBatch(raw_mode=True)
                for key in keys:
                    batch.put(key, _LOCATION.to_bytes(8, "big"))
                locations.write(batch)
            batch = WriteBatch(raw_mode=True)
            for ledger in holding.ids.tolist():
                batch.put(ledger.to_bytes(8, "big"), _LEDGER_DATA)
            ledgers.write(batch)
        for database in (locations, ledgers):
            database.flush()
            database.close()


def _keys(holding: Holding) -> Iterator[list[bytes]]:
    """Keys of locations, ledger and entry, some thousands at once."""
    entries = np.array(_held_entries(holding.shape, holding.seat), ">i8")
    batch_ledgers = max(_BATCH // max(len(entries), 1), 1)
    for start in range(0, len(holding.ids), batch_ledgers):
        ids = holding.ids[start : start + batch_ledgers].astype(">i8")
        pairs = np.stack((np.repeat(ids, len(entries)), np.tile(entries, len(ids))), axis=1)
        octets = pairs.astype(">i8").tobytes()
        yield [octets[octet : octet + 16] for octet in range(0, len(octets), 16)]
