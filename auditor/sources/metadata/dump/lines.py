"""What the dumps of ZooKeeper and of etcd have in common: JSON lines, cut into byte ranges, damage as gaps.

A file that is packed (gzip, zstd) is unpacked as it is read; offsets are those of its lines. A line that
cannot be read becomes a gap: at its path where that much can be read, else at the root, because it could
stand for anything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.dump.records import (
    LINE_LIMIT,
    DamagedLineError,
    Frame,
    FrameLineError,
    next_line,
    no_dump,
    recognise,
    records_of,
)
from auditor.sources.metadata.other_roots import other_roots_sentence, roots_of
from auditor.sources.metadata.pulsar_layout import PULSAR_TREE
from auditor.sources.metadata.saved_files import SavedStore, held_bytes, open_packed, packing_of
from auditor.sources.metadata.store import Part, Tree, Znode, ZnodeBatch, tree_of, znode_batches
from auditor.sources.metadata.uri import MetadataUri

PACKED_PARTS = 4
"""Every part of a packed dump unpacks it anew, so there are few of them."""


@dataclass(frozen=True)
class DumpPart(Part):
    """The lines of one tree that begin at byte ``start`` or later, and before ``end``."""

    tree: Tree
    start: int
    end: int


class Whole(NamedTuple):
    """What one pass over a dump saw: the cluster's own, what of that may be missing, the newest of all.

    ``last`` is the path of the last line, if that is a record.
    """

    nodes: list[Znode]
    gaps: list[tuple[str, str]]
    newest: Znode | None
    frame: Frame
    last: str | None


class LineStore(SavedStore[Whole]):
    """The part of a `MetadataStore` that all dumps share."""

    keeps_marks = True
    parameter = "root"
    """The parameter of the URI that says below what the cluster is."""
    always_there: tuple[str, ...]
    """What every cluster has below its root: a dump without one of these may be cut before it.

    Only stores of Pulsar have no LAYOUT."""
    bookies_below: tuple[str, ...]
    """Where bookies are listed: a dump that ends there may lack more of them."""

    def __init__(self, uri: MetadataUri) -> None:
        super().__init__(uri)
        self._lines = 0
        self._siblings: dict[str, bytes | None] = {}  # by the name: its value; None: only what is below it
        self._unread_siblings: dict[str, str] = {}

    @abstractmethod
    def parse(self, line: bytes) -> Znode:
        """Read one line, or raise `DamagedLineError`."""

    def tree_of(self, path: str) -> Tree | None:
        """The tree that a path below the root belongs to; None for the cluster's own."""
        return tree_of(path[len(self.root) + 1 :])

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Equal byte ranges; a line belongs to the range in which it begins."""
        if tree is Tree.MARKS and not self.keeps_marks:
            return []
        size = self._size
        if self._packed():
            part_count = min(part_count, PACKED_PARTS)
        step = max(1, -(-size // max(1, part_count)))
        return [DumpPart(tree, start, min(start + step, size)) for start in range(0, size, step)]

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """The znodes of one byte range; see `MetadataStore.read`."""
        assert isinstance(part, DumpPart)
        records = self._scan(part.start, part.end)
        return znode_batches(record for record in records if self._concerns(record, part.tree))

    def has_beside(self, name: str) -> bool:
        """Whether a line that `cluster` read lies at it, or below it; see `NeighbourStore.has_beside`."""
        return name in self._siblings

    def value_beside(self, name: str) -> bytes | None:
        """Of a line that `cluster` read; see `NeighbourValueStore.value_beside`."""
        if name in self._unread_siblings:
            raise StoreError(f"{self._path}: {self._unread_siblings[name]}")
        return self._siblings.get(name)

    def operations(self) -> dict[str, int]:
        """Lines read."""
        return {"lines": self._lines}

    def _read_files(self) -> Whole:
        """One pass over the file."""
        nodes: list[Znode] = []
        gaps: list[tuple[str, str]] = []
        newest: Znode | None = None
        record: Znode | tuple[str, str] | None = None
        frame, size = Frame(), self._size
        for record in self._scan(0, size, frame):
            if not isinstance(record, Znode):
                gaps.append(record)
                continue
            if newest is None:
                newest = record
            newest = newest._replace(
                czxid=max(newest.czxid, record.czxid),
                mzxid=max(newest.mzxid, record.mzxid),
                ctime=max(newest.ctime, record.ctime),
                mtime=max(newest.mtime, record.mtime),
            )
            if len(record.path) > len(self.root) + 1 and self.tree_of(record.path) is None:
                nodes.append(record)
        frame.finish(size)
        gaps += [(self.root, f"line at byte {offset}: {reason}") for offset, reason in frame.faults]
        last = record.path if isinstance(record, Znode) else None
        return Whole(nodes, [gap for gap in gaps if self._concerns(gap, None)], newest, frame, last)

    def _cut(self, whole: Whole) -> str | None:
        """Why a dump may be cut that does not say how it ends."""
        if whole.frame.ended or whole.frame.begun:
            return None
        below = len(self.root) + 1
        tops = {znode.path[below:].partition("/")[0] for znode in whole.nodes}
        # A store of Pulsar has no LAYOUT: its absence shows no cut.
        expected = [
            name for name in self.always_there if name != "LAYOUT" or PULSAR_TREE not in self._siblings
        ]
        absent = [name for name in expected if name not in tops]
        if absent:
            return f"the dump has no {' and no '.join(absent)}, and may be cut before it"
        if (whole.last or "")[below:].partition("/")[0] in self.bookies_below:
            return f"the dump ends with {whole.last} and does not say that this is its end"
        return None

    @cached_property
    def _size(self) -> int:
        """How many bytes the lines have, and one more where the file is damaged before its end.

        To know it, a packed file is unpacked to its end: once, and not for each tree that is read.
        """
        with self._readable():
            return held_bytes(self._path)

    def _packed(self) -> bool:
        with self._readable():
            return packing_of(self._path) is not None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._path.is_dir():
                raise no_dump(self._path) from error
            raise StoreError(f"cannot read the dump {self._path}: {error.strerror or error}") from error

    def _modified(self) -> int:
        """When the file was written, in ms."""
        with self._readable():
            return self._path.stat().st_mtime_ns // 1_000_000

    def _concerns(self, record: Znode | tuple[str, str], tree: Tree | None) -> bool:
        """Whether a znode is of a tree, or a gap may be; None: of the cluster's own."""
        if record[0] == self.root:
            return not isinstance(record, Znode)
        return tree is Tree.WHOLE or self.tree_of(record[0]) is tree

    def _scan(self, start: int, end: int, frame: Frame | None = None) -> Iterator[Znode | tuple[str, str]]:
        """Every line that begins in the range: a znode at or below the root, or a gap; ``frame`` sees all."""
        prefix, parent = self.root + "/", self.root.rpartition("/")[0] + "/"
        frame = frame or Frame()
        for offset, line in self._range(start, end):
            if isinstance(line, str):
                frame.record(offset)
                yield self.root, f"line at byte {offset}: {line}"
                continue
            try:
                znode = self.parse(line)
            except FrameLineError as frame_error:
                frame.line(offset, frame_error.frame)
                continue
            except DamagedLineError as damage:
                frame.record(offset)
                path = self.root if damage.path is None else damage.path
                if path == self.root or path.startswith(prefix):
                    yield path, f"line at byte {offset}: {damage.reason}"
                elif path.startswith(parent):
                    self._unread_siblings[path[len(parent) :]] = f"line at byte {offset}: {damage.reason}"
                continue
            frame.record(offset)
            if znode.path == self.root or znode.path.startswith(prefix):
                yield znode
            elif znode.path.startswith(parent):
                name, below, _ = znode.path[len(parent) :].partition("/")
                self._siblings[name] = self._siblings.get(name) if below else znode.data

    def _range(self, start: int, end: int) -> Iterator[tuple[int, bytes | str]]:
        """The lines that begin in the range, by offset; a reason instead of one that is too long or gone."""
        # One byte early: a range that begins exactly at a line must not skip that line.
        offset = max(0, start - 1)
        with self._readable(), open_packed(self._path, offset) as (file, unpacked):
            if start:
                offset += next_line(file)[1]
            while offset < end:
                line, length = next_line(file)
                if not length:
                    # Shorter than when it was measured: what is gone could have been anything.
                    damage = unpacked.damage if unpacked else None
                    yield offset, damage or "cut off"
                    return
                self._lines += 1
                if line is None:
                    yield offset, f"longer than {LINE_LIMIT} bytes"
                elif line.strip():
                    yield offset, line
                offset += length

    def _nothing_read(self, problem: str, way_out: str, damage: Sequence[tuple[str, str]]) -> StoreError:
        """The error of a dump that shows nothing of the cluster; roots that it has are the way out."""
        recognise(self.uri)
        roots = roots_of(record["path"] for record in records_of(self._path))
        store = self.uri.text.partition("?")[0]
        way_out = other_roots_sentence(store, roots, self.parameter) or way_out
        damage_note = f" ({len(damage)} places could not be read, as {damage[0][1]})" if damage else ""
        return StoreError(f"{problem}; {way_out}{damage_note}")
