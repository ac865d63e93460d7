"""Small clusters for the audits' tests: described in Python, written as a dump and bookie directories.

`tests.corpora.generator` writes the same cluster to every store and every storage. Every run writes the
same bytes and times. NOW is the newest time of a znode, so ages count from it. Bookies were flushed an hour
later, and index files are a day old. Tests of clocks change these times.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditor.model.ledger_id import LedgerId
from tests.corpora.brute_force import segment_ranges, write_set
from tests.corpora.plain_readers import MAGIC, PlainLedger

NOW_MS = 1_800_000_000_000  # ms
HOUR = 3_600_000
DAY = 24 * HOUR
INSTANCE = "11111111-2222-3333-4444-555555555555"
STATES = {"OPEN": 1, "IN_RECOVERY": 2, "CLOSED": 3}
FACTORIES = {
    "flat": "org.apache.bookkeeper.meta.FlatLedgerManagerFactory",
    "hierarchical": "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory",
    "longhierarchical": "org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory",
}


Ledger = int | LedgerId
"""A number is a ledger of scope 0."""


def ledger_path(layout: str, ledger: Ledger) -> str:
    """Return a ledger's path in a layout, below its root; other scopes have a tree beside it."""
    if isinstance(ledger, LedgerId):
        name = ledger.qualified_name
        return "/".join(
            ["scopes", *(name[offset : offset + 4] for offset in range(0, 28, 4)), f"L{name[28:]}"]
        )
    if layout == "flat":
        return f"L{ledger:010d}"
    if layout == "hierarchical" and ledger < 2**31 - 1:
        digits, widths = f"{ledger:010d}", [2, 4]
    else:
        digits, widths = f"{ledger:019d}", [3, 4, 4, 4]
    parts, offset = [], 0
    for width in widths:
        parts.append(digits[offset : offset + width])
        offset += width
    return "/".join([*parts, "L" + digits[offset:]])


def index_path(ledger: Ledger) -> str:
    if isinstance(ledger, LedgerId):
        name = ledger.qualified_name
        return f"{name[:8]}/{name[8:16]}/{name[16:24]}/{name[24:]}/{int(name[16:], 16):x}.idx"
    return f"{ledger >> 8 & 255:x}/{ledger & 255:x}/{ledger:x}.idx"


def index_bytes(entries: Iterable[int], page: int = 1024) -> bytes:
    """Return an index file of version 1 that holds ``entries``, in whole pages."""
    sorted_entries = sorted(entries)
    header = (b"BKLE" + struct.pack(">ii", 1, 4) + b"key!" + struct.pack(">ii", 0, 0)).ljust(1024, b"\0")
    if not sorted_entries:
        return header
    slots = bytearray(-(-8 * (sorted_entries[-1] + 1) // page) * page)
    for entry in sorted_entries:
        struct.pack_into(">q", slots, 8 * entry, 1028 + 40 * entry)
    return header + bytes(slots)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _sized(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def metadata_bytes(ledger: PlainLedger, digest: int = 3, password: bytes = b"secret!") -> bytes:
    """Return a ledger's metadata in format 3."""
    last = -1 if ledger.last is None else ledger.last
    body = b"".join(
        _varint(number << 3) + _varint(value)
        for number, value in (
            (1, ledger.write_quorum),
            (2, ledger.ensemble_size),
            (3, 0 if ledger.last is None else 10 * (last + 1)),
            (4, last),
            (5, STATES[ledger.state]),
        )
    )
    for first, ensemble in ledger.segments:
        body += _sized(
            6, b"".join(_sized(1, bookie.encode()) for bookie in ensemble) + b"\x10" + _varint(first)
        )
    body += b"\x38" + _varint(digest) + _sized(8, password) + b"\x48" + _varint(ledger.ack_quorum) + b"\x60\0"
    return MAGIC + b"3\n" + _varint(len(body)) + body


def cookie_bytes(host: str, name: str, ledgers: Sequence[str], instance: str | None) -> bytes:
    paths = "\\t".join(f"/data/{name}/{directory}" for directory in ledgers)
    text = f'5\nbookieHost: "{host}"\njournalDir: "/data/{name}/journal"\n'
    text += f'ledgerDirs: "{len(ledgers)}\\t{paths}"\n'
    return (text + (f'instanceId: "{instance}"\n' if instance else "")).encode()


def striped(ledger: PlainLedger, written: int | None = None) -> dict[str, set[int]]:
    """Return the entries of each bookie when nothing is wrong; ``written``: entries of an open ledger."""
    entries_by_bookie: dict[str, set[int]] = {b: set() for _, ensemble in ledger.segments for b in ensemble}
    for entries, ensemble, _ in segment_ranges(ledger):
        for entry in range(ledger.segments[-1][0], written or 0) if entries is None else entries:
            for bookie in write_set(ledger, ensemble, entry):
                entries_by_bookie[bookie].add(entry)
    return entries_by_bookie


@dataclass
class Cluster:
    """A cluster under construction: methods add to it, and :meth:`write` writes it to disk."""

    layout: str = "hierarchical"
    instance: str | None = INSTANCE
    ledger_dirs: tuple[str, ...] = ("ledgers0",)
    ledgers: dict[str, Ledger] = field(default_factory=dict)  # those at their places, by path
    znodes: dict[str, dict[str, object]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    copies: dict[tuple[Ledger, str], set[int]] = field(default_factory=dict)
    misled: set[tuple[Ledger, str]] = field(default_factory=set)  # held in another directory than the id says

    def __post_init__(self) -> None:
        self.node("/ledgers")
        self.node("/ledgers/LAYOUT", f"2\n{FACTORIES[self.layout]}:1".encode())
        if self.instance:
            self.node("/ledgers/INSTANCEID", self.instance.encode())
        for container in ("available", "available/readonly", "cookies"):
            self.node(f"/ledgers/{container}", time=NOW_MS)

    def node(self, path: str, data: bytes = b"", *, time: int = NOW_MS - 7 * DAY, owner: int = 0) -> None:
        for parent in list(Path(path).parents)[-2::-1]:
            if str(parent) not in self.znodes:
                self.node(str(parent))
        self.znodes[path] = {
            "path": path,
            "data": base64.b64encode(data).decode(),
            "czxid": len(self.znodes) + 2,
            "mzxid": len(self.znodes) + 2,
            "pzxid": len(self.znodes) + 2,
            "ctime": time,
            "mtime": time,
            "version": 0,
            "cversion": 0,
            "ephemeralOwner": owner,
        }

    def record(self, ledger: Ledger, data: bytes, *, time: int = NOW_MS - 7 * DAY) -> None:
        """Add a ledger's metadata at its path, byte for byte."""
        path = f"/ledgers/{ledger_path(self.layout, ledger)}"
        self.ledgers[path] = ledger
        self.node(path, data, time=time)

    def bookie(
        self,
        bookie: str,
        *,
        registered: str | None = "writable",
        cookie: bytes | None = b"",
        on_disk: Mapping[str, bytes] | None = None,
        disk: bool = True,
    ) -> str:
        """Add a bookie with its directories.

        ``cookie``: b"" is the correct one, None is none. ``on_disk``: other VERSION files, by directory.
        """
        name = bookie.replace(":", "_")
        right = cookie_bytes(bookie, name, self.ledger_dirs, self.instance)
        if cookie is not None:
            self.node(f"/ledgers/cookies/{bookie}", cookie or right)
        if registered:
            below = "available/readonly" if registered == "readonly" else "available"
            self.node(f"/ledgers/{below}/{bookie}", owner=1)
        if disk:
            for directory in ("journal", *self.ledger_dirs):
                self.files[f"{name}/{directory}/current/VERSION"] = (on_disk or {}).get(directory, right)
            for directory in self.ledger_dirs:
                self.files[f"{name}/{directory}/current/lastMark"] = struct.pack(">qq", 1, 2)
        return bookie

    def ledger(
        self,
        ledger: Ledger,
        segments: Mapping[int, Sequence[str]],
        quorums: tuple[int, int],
        last: int | None,
        *,
        state: str = "CLOSED",
        ensemble_size: int | None = None,
        written: int | None = None,
        without: Mapping[str, Iterable[int]] | None = None,
        extra: Mapping[str, Iterable[int]] | None = None,
        time: int = NOW_MS - 7 * DAY,
        path: str | None = None,
    ) -> PlainLedger:
        """Add a ledger and its copies: all striped entries except ``without``, and ``extra`` in addition."""
        size = len(next(iter(segments.values()))) if ensemble_size is None else ensemble_size
        pairs = tuple((first, tuple(ensemble)) for first, ensemble in segments.items())
        plain = PlainLedger(state, size, *quorums, last, pairs)
        if path is None:
            self.record(ledger, metadata_bytes(plain), time=time)
        else:
            self.node(f"/ledgers/{path}", metadata_bytes(plain), time=time)
        if all(len(ensemble) == size for ensemble in segments.values()):
            for bookie, entries in striped(plain, written).items():
                self.hold(ledger, bookie, entries - set((without or {}).get(bookie, ())))
        for bookie, extra_entries in (extra or {}).items():
            self.hold(ledger, bookie, extra_entries)
        return plain

    def hold(self, ledger: Ledger, bookie: str, entries: Iterable[int]) -> None:
        """Add entries to a bookie's disk; a bookie without a disk holds nothing."""
        disk = f"{bookie.replace(':', '_')}/{self.ledger_dirs[0]}/current/VERSION"
        if disk in self.files and (entry_set := set(entries)):
            self.copies.setdefault((ledger, bookie), set()).update(entry_set)

    def index(self, ledger: Ledger, bookie: str, data: bytes) -> None:
        """Add an index file, byte for byte."""
        self.copies.pop((ledger, bookie), None)
        self.files[self._index_file(ledger, bookie)] = data

    def _index_file(self, ledger: Ledger, bookie: str) -> str:
        return f"{bookie.replace(':', '_')}/{self.directory(ledger, bookie)}/current/{index_path(ledger)}"

    def directory(self, ledger: Ledger, bookie: str) -> str:
        """Return the bookie's ledger directory that the ledger id selects, or the next one if misled."""
        id = ledger.id if isinstance(ledger, LedgerId) else ledger
        return self.ledger_dirs[(id + ((ledger, bookie) in self.misled)) % len(self.ledger_dirs)]

    def mark(self, ledger: int, *replicas: str, age: int = HOUR) -> None:
        groups = "/".join(f"{ledger:016x}"[start : start + 4] for start in range(0, 16, 4))
        text = "".join(f'replica: "{replica}"\n' for replica in replicas) + f"ctime: {NOW_MS - age}\n"
        self.node(f"/ledgers/underreplication/ledgers/{groups}/urL{ledger:010d}", text.encode())

    def lock(self, ledger: int, *, age: int = 0) -> None:
        path = f"/ledgers/underreplication/locks/urL{ledger:010d}"
        self.node(path, b'bookieId: "worker.example"\n', time=NOW_MS - age, owner=2)

    def empty_directories(self, count: int) -> None:
        """Add empty directories to the replication queue, as workers that stop during cleanup leave them."""
        for number in range(count):
            self.node(f"/ledgers/underreplication/ledgers/0000/0000/000f/{number:04x}")

    def write(self, root: Path) -> Path:
        """Write ``root/metadata.jsonl`` and ``root/bookies``, and return ``root``."""
        root.mkdir(parents=True, exist_ok=True)
        self.write_dump(root / "metadata.jsonl")
        self.write_indexes(root / "bookies")
        return root

    def write_dump(self, file: Path) -> None:
        """Write a dump sorted by path. Without its end line, a dump that ends in cookies may be cut."""
        rows = sorted(self.znodes.values(), key=lambda row: str(row["path"]))
        end = {"end": {"nodes": len(rows)}}
        file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, end]))

    def write_indexes(self, root: Path) -> None:
        """Write the bookies' directories, with index files."""
        indexes = {self._index_file(*copy): index_bytes(entries) for copy, entries in self.copies.items()}
        write_files(root, self.files | indexes)
        set_clocks(root, NOW_MS)


def write_files(root: Path, files: Mapping[str, bytes]) -> None:
    root.mkdir(exist_ok=True)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def set_clocks(bookies: Path, now_ms: int) -> None:
    """Set flush times to an hour after ``now_ms`` (ms), and times of index files to a day before it.

    RocksDB writes to its logs at a flush, too.
    """
    for path in bookies.rglob("*"):
        if path.is_file():
            is_log = path.parent.name == "locations" and (path.name == "LOG" or path.suffix == ".log")
            is_flushed = path.name.startswith("lastMark") or is_log
            time_s = (now_ms + HOUR if is_flushed else now_ms - DAY) / 1000
            os.utime(path, (time_s, time_s))
