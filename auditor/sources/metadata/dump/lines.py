"""Base class of the stores that read dumps: JSON lines, cut into byte ranges for tasks.

A packed file (gzip or zstd) is unpacked while it is read. Offsets count unpacked bytes. A line that cannot be
read becomes a gap, which is a pair of the line's path and a reason. If even the path cannot be read, the gap
is at the root. The line could belong to any znode.
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
    BeginEndChecker,
    BeginEndLineError,
    DamagedLineError,
    not_a_dump_error,
    read_dump_records,
    read_next_line,
    recognise,
)
from auditor.sources.metadata.other_roots import other_roots_sentence, roots_of
from auditor.sources.metadata.pulsar_layout import PULSAR_TREE
from auditor.sources.metadata.saved_files import SavedStore, file_packing, open_packed, unpacked_size
from auditor.sources.metadata.store import Part, Tree, Znode, ZnodeBatch, tree_of, znode_batches
from auditor.sources.metadata.uri import MetadataUri

MAX_PACKED_PARTS = 4
"""Largest number of parts of a packed dump. Reading one part unpacks the whole file."""


@dataclass(frozen=True)
class DumpPart(Part):
    """The lines of a dump that one task reads: those of ``tree`` that begin in a range of bytes.

    ``tree`` is a kind of znodes, such as ledgers. The range begins at byte ``start`` and ends before ``end``.
    """

    tree: Tree
    start: int
    end: int


class WholeDump(NamedTuple):
    """The result of one pass over a dump.

    Attributes:
        nodes: the cluster's own znodes, without ledgers, under-replication marks and locks.
        gaps: (absolute path, reason) of places where some of the cluster's own znodes may be missing.
        newest_record: an artificial record with the largest zxids and the largest times of all records.
            None if there is no record.
        begin_end_check: the check of the dump's first and last line.
        last_path: path of the last record at or below the root. None if that record could not be read.
    """

    nodes: list[Znode]
    gaps: list[tuple[str, str]]
    newest_record: Znode | None
    begin_end_check: BeginEndChecker
    last_path: str | None


class LineStore(SavedStore[WholeDump]):
    """Base class of the stores that read dumps."""

    keeps_marks = True
    root_parameter = "root"
    """Query parameter that names the root of the cluster, in the URI of a dump."""
    required_top_names: tuple[str, ...]
    """Names that every cluster has below its root. A dump that lacks one of them may be cut off.

    Exception: LAYOUT can be absent in a store of Pulsar.
    """
    bookie_parent_names: tuple[str, ...]
    """Names below which bookies are listed. If a dump ends below one of them, it may lack bookies."""

    def __init__(self, uri: MetadataUri) -> None:
        super().__init__(uri)
        self._read_line_count = 0
        self._siblings: dict[str, bytes | None] = {}  # value by name; None if only its children were seen
        self._unread_siblings: dict[str, str] = {}

    @abstractmethod
    def decode_line(self, line: bytes) -> Znode:
        """Decode one line of the dump into a znode.

        Raises:
            DamagedLineError: the line is not a record.
        """

    def tree_of(self, path: str) -> Tree | None:
        """Return the tree (such as ledgers) of an absolute path. None: one of the cluster's own nodes."""
        return tree_of(path[len(self.root) + 1 :])

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut the file into byte ranges of equal size, at most ``part_count`` of them.

        A line belongs to the range in which it begins. A packed file is cut into at most `MAX_PACKED_PARTS`
        ranges.
        """
        if tree is Tree.MARKS and not self.keeps_marks:
            return []
        dump_bytes = self._unpacked_size
        if self._is_packed():
            part_count = min(part_count, MAX_PACKED_PARTS)
        part_bytes = max(1, -(-dump_bytes // max(1, part_count)))
        return [
            DumpPart(tree, start, min(start + part_bytes, dump_bytes))
            for start in range(0, dump_bytes, part_bytes)
        ]

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read the znodes of one byte range; see `MetadataStore.read`."""
        assert isinstance(part, DumpPart)
        records = self._read_records(part.start, part.end)
        return znode_batches(record for record in records if self._may_be_in_tree(record, part.tree))

    def has_sibling(self, name: str) -> bool:
        """Return whether the dump has a node ``name`` beside the root, or any path below that node.

        See `SiblingStore.has_sibling`.
        """
        return name in self._siblings

    def sibling_value(self, name: str) -> bytes | None:
        """Return the value of the node ``name`` beside the root, or None if it does not exist.

        See `SiblingValueStore.sibling_value`.
        """
        if name in self._unread_siblings:
            raise StoreError(f"{self._path}: {self._unread_siblings[name]}")
        return self._siblings.get(name)

    def operations(self) -> dict[str, int]:
        """Return the number of lines that this object has read."""
        return {"lines": self._read_line_count}

    def _read_files(self) -> WholeDump:
        """Read the whole file once, and return what the driver needs from it."""
        nodes: list[Znode] = []
        unread_places: list[tuple[str, str]] = []
        newest_record: Znode | None = None
        record: Znode | tuple[str, str] | None = None
        begin_end_check, dump_bytes = BeginEndChecker(), self._unpacked_size
        for record in self._read_records(0, dump_bytes, begin_end_check):
            if not isinstance(record, Znode):
                unread_places.append(record)
                continue
            if newest_record is None:
                newest_record = record
            newest_record = newest_record._replace(
                czxid=max(newest_record.czxid, record.czxid),
                mzxid=max(newest_record.mzxid, record.mzxid),
                ctime=max(newest_record.ctime, record.ctime),
                mtime=max(newest_record.mtime, record.mtime),
            )
            if len(record.path) > len(self.root) + 1 and self.tree_of(record.path) is None:
                nodes.append(record)
        begin_end_check.check_end(dump_bytes)
        unread_places += [
            (self.root, f"line at byte {offset}: {reason}") for offset, reason in begin_end_check.faults
        ]
        last_path = record.path if isinstance(record, Znode) else None
        return WholeDump(
            nodes,
            [reported_gap for reported_gap in unread_places if self._may_be_in_tree(reported_gap, None)],
            newest_record,
            begin_end_check,
            last_path,
        )

    def _find_cut_reason(self, whole_dump: WholeDump) -> str | None:
        """Return the reason why a dump without first and last lines may be cut off.

        Return None if nothing indicates that the dump is cut off.
        """
        if whole_dump.begin_end_check.has_last_line or whole_dump.begin_end_check.has_first_line:
            return None
        name_offset = len(self.root) + 1
        top_names = {znode.path[name_offset:].partition("/")[0] for znode in whole_dump.nodes}
        # A store of Pulsar has no LAYOUT, so its absence indicates nothing.
        expected_names = [
            name for name in self.required_top_names if name != "LAYOUT" or PULSAR_TREE not in self._siblings
        ]
        missing_names = [name for name in expected_names if name not in top_names]
        if missing_names:
            return f"the dump has no {' and no '.join(missing_names)}; it may be cut off"
        if (whole_dump.last_path or "")[name_offset:].partition("/")[0] in self.bookie_parent_names:
            return f'the dump ends with {whole_dump.last_path}, and has no "end" line that confirms its end'
        return None

    @cached_property
    def _unpacked_size(self) -> int:
        """Return the size of the unpacked lines, in bytes.

        For a damaged file, return one byte more. A reader that reads this many bytes then reaches the
        damage.

        A packed file is unpacked as a whole to find its size. The result is kept, so this happens only
        once.
        """
        with self._with_store_errors():
            return unpacked_size(self._path)

    def _is_packed(self) -> bool:
        with self._with_store_errors():
            return file_packing(self._path) is not None

    @contextmanager
    def _with_store_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._path.is_dir():
                raise not_a_dump_error(self._path) from error
            raise StoreError(f"cannot read the dump {self._path}: {error.strerror or error}") from error

    def _modification_time(self) -> int:
        """Return the modification time of the file, in ms."""
        with self._with_store_errors():
            return self._path.stat().st_mtime_ns // 1_000_000

    def _may_be_in_tree(self, record: Znode | tuple[str, str], tree: Tree | None) -> bool:
        """Return whether a znode belongs to a tree, or whether an unreadable place may hide such znodes.

        ``record`` is the znode, or the (path, reason) of the unreadable place. ``tree`` is None for the
        cluster's own nodes.
        """
        if record[0] == self.root:
            return not isinstance(record, Znode)
        return tree is Tree.WHOLE or self.tree_of(record[0]) is tree

    def _read_records(
        self, start: int, end: int, begin_end_check: BeginEndChecker | None = None
    ) -> Iterator[Znode | tuple[str, str]]:
        """Yield a znode or a gap (path, reason) for each line of the byte range at or below the root.

        The byte range has the lines that begin in it. ``begin_end_check`` checks the first and last line of
        the dump, and counts all records. Lines with a path beside the root are not yielded. Instead, this
        object records their names and values for `has_sibling` and `sibling_value`.
        """
        root_prefix, parent_prefix = self.root + "/", self.root.rpartition("/")[0] + "/"
        begin_end_check = begin_end_check or BeginEndChecker()
        for offset, line in self._read_lines(start, end):
            if isinstance(line, str):
                begin_end_check.count_record(offset)
                yield self.root, f"line at byte {offset}: {line}"
                continue
            try:
                znode = self.decode_line(line)
            except BeginEndLineError as frame_error:
                begin_end_check.check_line(offset, frame_error.line_record)
                continue
            except DamagedLineError as damage:
                begin_end_check.count_record(offset)
                path = self.root if damage.path is None else damage.path
                if path == self.root or path.startswith(root_prefix):
                    yield path, f"line at byte {offset}: {damage.reason}"
                elif path.startswith(parent_prefix):
                    self._unread_siblings[path[len(parent_prefix) :]] = (
                        f"line at byte {offset}: {damage.reason}"
                    )
                continue
            begin_end_check.count_record(offset)
            if znode.path == self.root or znode.path.startswith(root_prefix):
                yield znode
            elif znode.path.startswith(parent_prefix):
                name, child_path, _ = znode.path[len(parent_prefix) :].partition("/")
                self._siblings[name] = self._siblings.get(name) if child_path else znode.data

    def _read_lines(self, start: int, end: int) -> Iterator[tuple[int, bytes | str]]:
        """Yield (offset, line) for each line that begins in the byte range.

        For a line that is too long or cut off, yield (offset, reason). The reason is text, not bytes.
        """
        # Start one byte early: a range that begins exactly at a line must not skip it.
        offset = max(0, start - 1)
        with self._with_store_errors(), open_packed(self._path, offset) as (file, unpacked_file):
            if start:
                offset += read_next_line(file)[1]
            while offset < end:
                line, line_length = read_next_line(file)
                if not line_length:
                    # The file became shorter. The lost lines could have been anything.
                    damage = unpacked_file.damage if unpacked_file else None
                    yield offset, damage or "cut off"
                    return
                self._read_line_count += 1
                if line is None:
                    yield offset, f"longer than {LINE_LIMIT} bytes"
                elif line.strip():
                    yield offset, line
                offset += line_length

    def _empty_dump_error(
        self, problem: str, advice: str, unread_places: Sequence[tuple[str, str]]
    ) -> StoreError:
        """Return the error for a dump without any node of the requested cluster.

        The message names the roots of the clusters that the dump does contain.

        Args:
            problem: the beginning of the message.
            advice: the advice in the message if the dump contains no cluster at all.
            unread_places: (path, reason) of the places that could not be read.
        """
        recognise(self.uri)
        cluster_roots = roots_of(record["path"] for record in read_dump_records(self._path))
        store = self.uri.text.partition("?")[0]
        advice = other_roots_sentence(store, cluster_roots, self.root_parameter) or advice
        damage_note = (
            f" ({len(unread_places)} places could not be read, first: {unread_places[0][1]})"
            if unread_places
            else ""
        )
        return StoreError(f"{problem}; {advice}{damage_note}")
