"""The simplest readers of a cluster's files, for the brute force alone.

They share no code with the product, and know only the formats in the corpora. On anything else they raise
whatever Python raises. They read one value and one entry at a time: the code is short, but not fast.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"BookieMetadataFormatVersion\t"
STATES = {1: "OPEN", 2: "IN_RECOVERY", 3: "CLOSED"}


@dataclass(frozen=True)
class PlainLedger:
    """A ledger's metadata that replication needs; ``last`` is None while the ledger is not closed."""

    state: str
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    last: int | None
    segments: tuple[tuple[int, tuple[str, ...]], ...]


def read_metadata(data: bytes) -> PlainLedger:
    if not data.startswith(MAGIC):
        raise ValueError("no ledger metadata")
    version, _, body = data[len(MAGIC) :].partition(b"\n")
    return {b"1": _read_v1, b"2": _read_v2, b"3": _read_v3}[version](body)


def _read_v1(body: bytes) -> PlainLedger:
    lines = body.decode().splitlines()
    write_quorum, ensemble_size = int(lines[0]), int(lines[1])
    state, last, segments = "OPEN", None, []
    for line in lines[3:]:
        first, *members = line.split("\t")
        if members == ["CLOSED"]:
            state, last = ("IN_RECOVERY", None) if first == "-102" else ("CLOSED", int(first))
        else:
            segments.append((int(first), tuple(members)))
    return PlainLedger(state, ensemble_size, write_quorum, write_quorum, last, tuple(segments))


def _read_v2(body: bytes) -> PlainLedger:
    scalars: dict[str, str] = {}
    segments: list[tuple[int, tuple[str, ...]]] = []
    members: list[str] = []
    first = 0
    block = ""
    for line in body.decode().splitlines():
        if opened := re.fullmatch(r"(\w+) \{", line):
            block, members = opened[1], []
        elif line == "}":
            if block == "segment":
                segments.append((first, tuple(members)))
            block = ""
        else:
            name, value = line.strip().split(": ", 1)
            if name == "ensembleMember":
                members.append(json.loads(value))
            elif name == "firstEntryId":
                first = int(value)
            elif not block:
                scalars[name] = value
    write_quorum = int(scalars["quorumSize"])
    ack_quorum = int(scalars.get("ackQuorumSize", write_quorum))
    last = int(scalars["lastEntryId"]) if scalars["state"] == "CLOSED" else None
    return PlainLedger(
        scalars["state"], int(scalars["ensembleSize"]), write_quorum, ack_quorum, last, tuple(segments)
    )


def _read_v3(body: bytes) -> PlainLedger:
    size, start = _varint(body, 0)
    fields = _fields(body[start : start + size])
    numbers = {number: value for number, value in fields if isinstance(value, int)}
    segments = []
    for number, value in fields:
        if number == 6:
            inner = _fields(value)
            first = next(v for n, v in inner if n == 2)
            segments.append((first, tuple(v.decode() for n, v in inner if n == 1)))
    state = STATES[numbers[5]]
    last = numbers[4] if state == "CLOSED" else None
    return PlainLedger(state, numbers[2], numbers[1], numbers.get(9, numbers[1]), last, tuple(segments))


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return (value - (1 << 64) if value >= 1 << 63 else value), offset


def _fields(data: bytes) -> list[tuple[int, Any]]:
    fields, offset = [], 0
    value: Any
    while offset < len(data):
        key, offset = _varint(data, offset)
        if key & 7 == 0:
            value, offset = _varint(data, offset)
        elif key & 7 == 2:
            size, offset = _varint(data, offset)
            if offset + size > len(data):
                raise ValueError("a field that runs past the end")
            value, offset = data[offset : offset + size], offset + size
        else:
            raise ValueError(f"wire type {key & 7}")
        fields.append((key >> 3, value))
    return fields


def read_availability(data: bytes) -> frozenset[int]:
    """Return the entries of a BP-34 value, as a server writes it or as the proposal folds it."""
    count = struct.unpack_from(">i", data, 4)[0]
    entries: set[int] = set()
    for offset in range(64, 64 + 24 * count, 24):
        entries |= groups_entries([struct.unpack_from(">qqii", data, offset)])
    return frozenset(entries)


def groups_entries(groups: list[tuple[int, int, int, int]]) -> set[int]:
    entries: set[int] = set()
    for first, last, size, period in groups:
        for start in range(first, last + 1, period or 1):
            entries.update(range(start, start + size))
    return entries


@dataclass(frozen=True)
class PlainIndex:
    """One ledger on one bookie. ``readable`` False: it holds ``entries``, and other entries are unknown.

    ``served`` False: the disk has entries of the ledger, but the bookie does not know the ledger.
    """

    entries: frozenset[int]
    readable: bool = True
    served: bool = True


def read_index(path: Path) -> PlainIndex:
    data = path.read_bytes()
    if len(data) < 1024 or data[:4] != b"BKLE":
        return PlainIndex(frozenset(), readable=False)
    version, key = struct.unpack_from(">ii", data, 4)
    if version not in (0, 1) or not 0 <= key <= 1000:
        return PlainIndex(frozenset(), readable=False)
    slots = data[1024:]
    slot_count = len(slots) // 8
    entries = frozenset(e for e, slot in enumerate(struct.unpack_from(f">{slot_count}q", slots)) if slot)
    # The smallest page of the corpora has 1024 bytes: whatever is not a multiple of it was cut.
    return PlainIndex(entries, readable=len(slots) % 1024 == 0)


def read_indexes(bookies: Path) -> dict[tuple[int, str], PlainIndex]:
    """Return every index below ``bookies``, by ledger and bookie: files, or RocksDB.

    A directory has its bookie's name, which identifies index files. RocksDB's use the cookie beside them.
    """
    indexes: dict[tuple[int, str], PlainIndex] = {}
    for path in sorted(bookies.glob("*/*/current/*/*/*.idx")):
        indexes[int(path.stem, 16), bookie_of(path.relative_to(bookies).parts[0])] = read_index(path)
    for path in sorted(bookies.glob("*/*/current/locations")):
        owner = re.search(r'bookieHost: "([^"]*)"', (path.parent / "VERSION").read_text())
        assert owner is not None
        locations, ledgers = read_rocksdb(path), read_rocksdb(path.parent / "ledgers")
        listed = {struct.unpack(">q", key)[0] for key in ledgers if len(key) == 8}
        entries_by_ledger: dict[int, set[int]] = {ledger: set() for ledger in listed if ledger >= 0}
        for ledger, entry in (struct.unpack(">qq", key) for key in locations):
            if ledger >= 0 and entry >= 0:  # the others are the bookie's own notes
                entries_by_ledger.setdefault(ledger, set()).add(entry)
        for ledger, entries in entries_by_ledger.items():
            served = ledger in listed
            served_entries = frozenset(entries if served else ())
            assert (ledger, owner[1]) not in indexes
            indexes[ledger, owner[1]] = PlainIndex(served_entries, readable=served, served=served)
    return indexes


def bookie_of(directory: str) -> str:
    """Return the bookie that a corpus directory is named after: "127.0.101.1_3181", "bk-a.rack1"."""
    return directory.replace("_", ":")


def read_rocksdb(path: Path) -> dict[bytes, Any]:
    """Return every key and value of a database, from a copy: RocksDB writes beside the files it reads."""
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(path, Path(scratch, "copy"))
        db = Rdict(str(copy), Options(raw_mode=True), access_type=AccessType.read_only())
        try:
            return {key: value for key, value in db.items() if isinstance(key, bytes)}
        finally:
            db.close()


def read_dump(path: Path) -> dict[str, dict[str, Any]]:
    """Return the znodes of a metadata.jsonl by path, with ``data`` decoded."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    znodes = {}
    for line in text.decode().splitlines():
        row = json.loads(line)
        if "path" not in row:
            continue  # the line that ends a dump
        znodes[row["path"]] = row | {"data": base64.b64decode(row["data"])}
    return znodes


LEDGER_PATH = re.compile(r"/ledgers/(L\d{10,}|\d\d/\d{4}/L\d{4}|\d{3}/\d{4}/\d{4}/\d{4}/L\d{4})")
ETCD_PATH = re.compile(r"/bk/cluster1/ledgers/0{8}-0{4}-0{4}-([0-9a-f]{4})-([0-9a-f]{12})")  # scope 0
MARK_PATH = re.compile(r"/ledgers/underreplication/ledgers/.*/urL(\d+)")
LOCK_PATH = re.compile(r"/ledgers/underreplication/locks/urL(\d+)")


def ledger_znodes(znodes: dict[str, dict[str, Any]]) -> dict[int, bytes]:
    ledgers = {
        int(re.sub(r"\D", "", match[1])): node["data"]
        for path, node in znodes.items()
        if (match := LEDGER_PATH.fullmatch(path))
    }
    on_etcd = {
        int(match[1] + match[2], 16): node["data"]
        for path, node in znodes.items()
        if (match := ETCD_PATH.fullmatch(path))
    }
    return ledgers | on_etcd


def marks(znodes: dict[str, dict[str, Any]]) -> dict[int, list[str]]:
    return {
        int(match[1]): re.findall(r'replica: "([^"]*)"', node["data"].decode())
        for path, node in znodes.items()
        if (match := MARK_PATH.fullmatch(path))
    }


def locks(znodes: dict[str, dict[str, Any]]) -> set[int]:
    return {int(match[1]) for path in znodes if (match := LOCK_PATH.fullmatch(path))}
