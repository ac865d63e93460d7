"""A cluster of any size on disk, with planted losses: metadata.jsonl and bookies with .idx files."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auditor.keys import index_path, long_hierarchical

INSTANCE_ID = "11111111-2222-4333-8444-555555555555"
ENSEMBLE, QUORUM, ENTRIES = 3, 2, 50
NOW_MS = 1_700_000_000_000
_HEADER = b"BKLE" + (1).to_bytes(4, "big") + bytes(1016)
_SLOTS = 128  # one page of 1,024 bytes
_LOST_ENTRY = 7  # on indexes 1 and 2: (7 + w) % 3


@dataclass(frozen=True)
class Planted:
    """The answers that an audit must give."""

    one_copy_missing: frozenset[int]
    entry_lost: frozenset[int]
    orphans: frozenset[tuple[str, int]]


def write_cluster(directory: Path, ledgers: int, bookies: int = 5) -> Planted:
    """Write the cluster: every 1,000th ledger lacks a copy of an entry, every 10,000th all of them.

    A bookie keeps one orphan for every 1,000 ledgers.
    """
    ids = [f"10.0.0.{number}:3181" for number in range(1, bookies + 1)]
    for bookie in ids:
        _bookie(directory / "bookies" / bookie.replace(":", "_"), bookie)
    whole = [_page(index) for index in range(ENSEMBLE)]
    holed = [_without(page, _LOST_ENTRY) for page in whole]
    one: set[int] = set()
    lost: set[int] = set()
    orphans: set[tuple[str, int]] = set()
    made: set[str] = set()
    with (directory / "metadata.jsonl").open("w") as store:
        for record in _cluster_records(ids):
            store.write(json.dumps(record) + "\n")
        for ledger in range(ledgers):
            ensemble = [ids[(ledger + step) % bookies] for step in range(ENSEMBLE)]
            store.write(json.dumps(_record(long_hierarchical.to_path(ledger), _metadata(ensemble))) + "\n")
            missing = [False] * ENSEMBLE
            if ledger % 10_000 == 9_999:
                lost.add(ledger)
                missing = [True] * ENSEMBLE
            elif ledger % 1_000 == 999:
                one.add(ledger)
                missing[1] = True
            for index, bookie in enumerate(ensemble):
                _index(directory, bookie, ledger, (holed if missing[index] else whole)[index], made)
        for number in range(ledgers // 1_000):
            orphans.add((ids[0], ledgers + 10_000 * number))
            _index(directory, ids[0], ledgers + 10_000 * number, whole[0], made)
    return Planted(frozenset(one), frozenset(lost), frozenset(orphans))


def _page(index: int) -> bytes:
    slots = np.zeros(_SLOTS, ">i8")
    for entry in range(ENTRIES):
        if (index - entry) % ENSEMBLE < QUORUM:
            slots[entry] = (1 << 32) | (1028 + 32 * entry)
    return slots.tobytes()


def _without(page: bytes, entry: int) -> bytes:
    return page[: 8 * entry] + bytes(8) + page[8 * (entry + 1) :]


def _index(directory: Path, bookie: str, ledger: int, page: bytes, made: set[str]) -> None:
    path = f"{directory}/bookies/{bookie.replace(':', '_')}/ledgers0/current/{index_path.to_path(ledger)}"
    parent = path.rpartition("/")[0]
    if parent not in made:
        Path(parent).mkdir(parents=True, exist_ok=True)
        made.add(parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(handle, _HEADER + page)
    os.close(handle)


def _bookie(place: Path, bookie_id: str) -> None:
    for name in ("journal", "ledgers0"):
        current = place / name / "current"
        current.mkdir(parents=True)
        (current / "VERSION").write_bytes(_cookie(bookie_id))
    mark = place / "ledgers0/current/lastMark"
    mark.write_bytes(bytes(16))
    os.utime(mark, ((NOW_MS + 3_600_000) / 1000,) * 2)


def _cookie(bookie_id: str) -> bytes:
    return (
        f'5\nbookieHost: "{bookie_id}"\njournalDir: "/data/journal"\nledgerDirs: "1\\t/data/ledgers0"\n'
        f'instanceId: "{INSTANCE_ID}"\n'
    ).encode()


def _metadata(ensemble: list[str]) -> bytes:
    members = b"".join(b"\x0a" + bytes([len(member)]) + member.encode() for member in ensemble)
    segment = members + b"\x10\x00"
    body = (
        bytes([0x08, QUORUM, 0x10, ENSEMBLE, 0x18, 100, 0x20, ENTRIES - 1, 0x28, 3, 0x32, len(segment)])
        + segment
        + b"\x48\x02\x60\x00"
    )
    return b"BookieMetadataFormatVersion\t3\n" + bytes([len(body)]) + body


def _cluster_records(ids: list[str]) -> Iterator[dict[str, object]]:
    factory = b"org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory"
    yield _record("", b"")
    yield _record("LAYOUT", b"2\n" + factory + b":1")
    yield _record("INSTANCEID", INSTANCE_ID.encode())
    for parent in ("cookies", "available", "available/readonly"):
        yield _record(parent, b"")
    for bookie in ids:
        yield _record(f"cookies/{bookie}", _cookie(bookie))
        yield _record(f"available/{bookie}", b"", owner=1)


def _record(below: str, data: bytes, owner: int = 0) -> dict[str, object]:
    return {
        "path": f"/ledgers/{below}".rstrip("/"),
        "data": base64.b64encode(data).decode(),
        "czxid": 1,
        "mzxid": 1,
        "pzxid": 1,
        "ctime": NOW_MS,
        "mtime": NOW_MS,
        "version": 1,
        "cversion": 0,
        "ephemeralOwner": owner,
    }
