"""What the dumps of ZooKeeper and of etcd have in common: JSON lines, cut into byte ranges, damage as gaps.

Every line is an object with ``path`` (absolute) and ``data`` (base64); what else it has depends on the store.
A line that cannot be read becomes a gap: at its path where that much can be read, else at the root, because
it could stand for anything.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import BATCH_ZNODES, Part, Tree, Znode, ZnodeBatch
from auditor.sources.metadata.uri import MetadataUri

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes in one line. Servers take 1 to 1.5 MB in a request; one told otherwise may hold more."""

_NUMBER_LIMIT = 2**63


@dataclass(frozen=True)
class DumpPart(Part):
    """The lines of one tree that begin at byte ``start`` or later, and before ``end``."""

    tree: Tree
    start: int
    end: int


class DamagedLineError(ValueError):
    """A line that is no record; ``path`` where it says so much. Never leaves the dumps' modules."""

    def __init__(self, path: str | None, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def json_record(line: bytes) -> dict[str, Any]:
    """A line as a JSON object with a path.

    >>> json_record(b'{"path": "/a", "x": 1}')["x"]
    1
    """
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedLineError(None, f"no JSON: {error}") from error
    path = record.get("path") if isinstance(record, dict) else None
    if not isinstance(path, str) or not path.startswith("/"):
        raise DamagedLineError(None, "no JSON object with a path")
    return dict(record)


def base64_of(record: dict[str, Any], name: str) -> bytes:
    """The bytes of a field in base64."""
    text = record.get(name)
    if not isinstance(text, str):
        raise DamagedLineError(record["path"], f"no {name}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedLineError(record["path"], f"{name} is no base64: {error}") from error


def int64s_of(record: dict[str, Any], names: tuple[str, ...]) -> list[int]:
    """The values of fields that are 64-bit numbers."""
    numbers = [record.get(name) for name in names]
    for name, number in zip(names, numbers, strict=True):
        if type(number) is not int or not -_NUMBER_LIMIT <= number < _NUMBER_LIMIT:
            raise DamagedLineError(record["path"], f"no {name}")
    return [int(number) for number in numbers if number is not None]


class LineStore(ABC):
    """The part of a `MetadataStore` that all dumps share."""

    live = False

    def __init__(self, uri: str, parsed: MetadataUri) -> None:
        self.uri = uri
        self.root = parsed.root
        self._file = Path(parsed.path)
        self._lines = 0

    @abstractmethod
    def parse(self, line: bytes) -> Znode:
        """Read one line, or raise `DamagedLineError`."""

    @abstractmethod
    def tree_of(self, path: str) -> Tree | None:
        """The tree that a path below the root belongs to; None for the cluster's own."""

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
            elif len(item.path) > len(self.root) and self.tree_of(item.path) is part.tree:
                znodes.append(item)
            if len(znodes) + len(gaps) >= BATCH_ZNODES:
                yield ZnodeBatch.of(znodes, gaps)
                znodes, gaps = [], []
        if znodes or gaps:
            yield ZnodeBatch.of(znodes, gaps)

    def moment_lost(self) -> bool:
        """Never: what is saved stays."""
        return False

    def operations(self) -> dict[str, int]:
        """Lines read."""
        return {"lines": self._lines}

    def close(self) -> None:  # noqa: B027  # whole as it is, for every dump
        """Nothing is held open."""

    def _whole(self) -> tuple[list[Znode], list[tuple[str, str]], Znode | None]:
        """One pass over the file: the cluster's own, what of that may be missing, and the newest of all."""
        nodes: list[Znode] = []
        gaps: list[tuple[str, str]] = []
        newest: Znode | None = None
        for item in self._scan(0, self._size()):
            if not isinstance(item, Znode):
                gaps.append(item)
                continue
            if newest is None:
                newest = item
            newest = newest._replace(
                czxid=max(newest.czxid, item.czxid),
                mzxid=max(newest.mzxid, item.mzxid),
                ctime=max(newest.ctime, item.ctime),
                mtime=max(newest.mtime, item.mtime),
            )
            if len(item.path) > len(self.root) + 1 and self.tree_of(item.path) is None:
                nodes.append(item)
        return nodes, [gap for gap in gaps if self._concerns(gap, None)], newest

    def _size(self) -> int:
        return self._stat().st_size

    def _stat(self) -> os.stat_result:
        try:
            return self._file.stat()
        except OSError as error:
            raise StoreError(f"cannot read the dump {self._file}: {error.strerror}") from error

    def _concerns(self, gap: tuple[str, str], tree: Tree | None) -> bool:
        return gap[0] == self.root or self.tree_of(gap[0]) is tree

    def _scan(self, start: int, end: int) -> Iterator[Znode | tuple[str, str]]:
        """Every line that begins in the range: a znode at or below the root, or a gap."""
        prefix = self.root + "/"
        for offset, line in self._range(start, end):
            if line is None:
                yield self.root, f"line at byte {offset}: cut off, or longer than {LINE_LIMIT} bytes"
                continue
            try:
                znode = self.parse(line)
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
                    offset += next_line(file)[1]
                while offset < end:
                    line, length = next_line(file)
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


def next_line(file: BinaryIO) -> tuple[bytes | None, int]:
    """The next line and its length; None instead of a line that passes the limit."""
    piece = file.readline(LINE_LIMIT)
    length = len(piece)
    if length < LINE_LIMIT or piece.endswith(b"\n"):
        return piece, length
    while len(piece) == LINE_LIMIT and not piece.endswith(b"\n"):
        piece = file.readline(LINE_LIMIT)
        length += len(piece)
    return None, length
