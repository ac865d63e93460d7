"""Metadata saved as JSON lines: one znode per line, parents first.

    {"path": "/ledgers/LAYOUT", "data": "<base64>", "czxid": 5, "mzxid": 5, "ctime": 1795237656507,
     "mtime": 1795237656507, "version": 0, "ephemeralOwner": 0}

Times are in ms; other keys (``pzxid``, ``cversion``) are ignored. A line that cannot be read becomes a gap:
at its path where that much can be read, else at the root, because it could stand for anything.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from auditor.errors import StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.store import (
    BATCH_ZNODES,
    ClusterNodes,
    MetadataStore,
    Part,
    Tree,
    Znode,
    ZnodeBatch,
    tree_of,
)
from auditor.sources.uri import MetadataUri

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes in one line. ZooKeeper takes 1 MB in a request; a server told otherwise may hold more."""

_NUMBERS = ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeralOwner")
_NUMBER_LIMIT = 2**63


@dataclass(frozen=True)
class DumpPart(Part):
    """The lines of one tree that begin at byte ``start`` or later, and before ``end``."""

    tree: Tree
    start: int
    end: int


class DamagedLineError(ValueError):
    """A line that is no znode; ``path`` where it says so much. Never leaves this module."""

    def __init__(self, path: str | None, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def parse_line(line: bytes) -> Znode:
    """Read one line of a dump.

    >>> parse_line(b'{"path": "/a", "data": "YQ==", "czxid": 1, "mzxid": 2, "ctime": 3, "mtime": 4,'
    ...            b' "version": 5, "ephemeralOwner": 0}').data
    b'a'
    """
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedLineError(None, f"no JSON: {error}") from error
    path = record.get("path") if isinstance(record, dict) else None
    if not isinstance(path, str) or not path.startswith("/"):
        raise DamagedLineError(None, "no JSON object with a path")
    if "modRevision" in record:
        raise UsageError("this dump has modRevision, so it is etcd's: etcd is not supported by this version")
    text = record.get("data")
    if not isinstance(text, str):
        raise DamagedLineError(path, "no data")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedLineError(path, f"data is no base64: {error}") from error
    numbers = [record.get(name) for name in _NUMBERS]
    for name, number in zip(_NUMBERS, numbers, strict=True):
        if type(number) is not int or not -_NUMBER_LIMIT <= number < _NUMBER_LIMIT:
            raise DamagedLineError(path, f"no {name}")
    return Znode(path, data, *numbers)


def open_dump(uri: str, parsed: MetadataUri) -> MetadataStore:
    """The store of a dump."""
    return DumpStore(uri, parsed)


class DumpStore:
    """Metadata in a file of JSON lines; see the module for the format."""

    live = False
    keeps_marks = True
    keeps_times = True

    def __init__(self, uri: str, parsed: MetadataUri) -> None:
        self.uri = uri
        self.root = parsed.root
        self._file = Path(parsed.path)
        self._lines = 0

    def cluster(self) -> ClusterNodes:
        """One pass over the whole file; see `MetadataStore.cluster`."""
        nodes: dict[str, Znode] = {}
        gaps: list[tuple[str, str]] = []
        seen, scan_time, position = False, 0, 0
        for item in self._scan(0, self._size()):
            if not isinstance(item, Znode):
                gaps.append(item)
                continue
            seen = True
            scan_time = max(scan_time, item.ctime, item.mtime)
            position = max(position, item.czxid, item.mzxid)
            below = item.path[len(self.root) + 1 :]
            if below and tree_of(below) is None:
                nodes[below] = item
        if not seen and not gaps:
            raise StoreError(f"{self._file} has no znode {self.root}; name the right root with ?root=/path")
        return ClusterNodes(
            nodes, scan_time, hex(position), tuple(gap for gap in gaps if self._concerns(gap, None))
        )

    def parts(self, tree: Tree, layout: LayoutKind, wanted: int) -> list[Part]:
        """Equal byte ranges; a line belongs to the range in which it begins."""
        size = self._size()
        step = max(1, -(-size // max(1, wanted)))
        return [DumpPart(tree, start, min(start + step, size)) for start in range(0, size, step)]

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """The znodes of one byte range; see `MetadataStore.read`."""
        assert isinstance(part, DumpPart)
        znodes: list[Znode] = []
        gaps: list[tuple[str, str]] = []
        for item in self._scan(part.start, part.end):
            if not isinstance(item, Znode):
                if self._concerns(item, part.tree):
                    gaps.append(item)
            elif len(item.path) > len(self.root) and tree_of(item.path[len(self.root) + 1 :]) is part.tree:
                znodes.append(item)
            if len(znodes) + len(gaps) >= BATCH_ZNODES:
                yield ZnodeBatch.of(znodes, gaps)
                znodes, gaps = [], []
        if znodes or gaps:
            yield ZnodeBatch.of(znodes, gaps)

    def operations(self) -> dict[str, int]:
        """Lines read."""
        return {"lines": self._lines}

    def close(self) -> None:
        """Nothing is held open."""

    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except OSError as error:
            raise StoreError(f"cannot read the dump {self._file}: {error.strerror}") from error

    def _concerns(self, gap: tuple[str, str], tree: Tree | None) -> bool:
        return gap[0] == self.root or tree_of(gap[0][len(self.root) + 1 :]) is tree

    def _scan(self, start: int, end: int) -> Iterator[Znode | tuple[str, str]]:
        """Every line that begins in the range: a znode at or below the root, or a gap."""
        prefix = self.root + "/"
        for offset, line in self._range(start, end):
            if line is None:
                yield self.root, f"line at byte {offset}: cut off, or longer than {LINE_LIMIT} bytes"
                continue
            try:
                znode = parse_line(line)
            except DamagedLineError as damage:
                path = self.root if damage.path is None else damage.path
                if path == self.root or path.startswith(prefix):
                    yield path, f"line at byte {offset}: {damage.reason}"
                continue
            if znode.path == self.root or znode.path.startswith(prefix):
                yield znode

    def _range(self, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
        """The lines that begin in the range, by offset; None for one that is too long or gone."""
        try:
            with self._file.open("rb") as file:
                # One byte early: a range that begins exactly at a line must not skip that line.
                offset = max(0, start - 1)
                file.seek(offset)
                if start:
                    offset += _line(file)[1]
                while offset < end:
                    line, length = _line(file)
                    if not length:
                        # Shorter than when it was measured: what is gone could have been anything.
                        yield offset, None
                        return
                    self._lines += 1
                    if line is None or line.strip():
                        yield offset, line
                    offset += length
        except OSError as error:
            raise StoreError(f"cannot read the dump {self._file}: {error.strerror}") from error


def _line(file: BinaryIO) -> tuple[bytes | None, int]:
    """The next line and its length; None instead of a line that passes the limit."""
    piece = file.readline(LINE_LIMIT)
    length = len(piece)
    if length < LINE_LIMIT or piece.endswith(b"\n"):
        return piece, length
    while len(piece) == LINE_LIMIT and not piece.endswith(b"\n"):
        piece = file.readline(LINE_LIMIT)
        length += len(piece)
    return None, length
