"""The index files (``.idx``) of a bookie and their ledgers (IndexPersistenceMgr).

A ledger's index may lie in any index directory. If several have it, the server opens the first in configured
order. ``<hex>.idx.rloc`` is a relocation that was not finished. If any index directory has the ``.idx``, the
``.rloc`` is garbage. Otherwise the ``.rloc`` is the index, and the server renames it when it starts. The
server's scan counts every ``.idx`` two directories down as a ledger. But the server opens a ledger's index by
its path. So it lists an ``.idx`` in the wrong directory, and cannot read it.

Ledger ids over 64 bits are in scopes other than 0 (BP-35). Their ``.idx`` is four directories down, where
the server's scan sees none. The names of these four directories are hexadecimal numbers. Without zero
padding, the first two may have the names of directories of scope 0 (64-bit ids).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from auditor.keys import index_path
from auditor.model.ledger_id import LedgerId
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.parts import IndexDirectory, IndexPart, list_current
from auditor.sources.regular_file import open_regular

RLOC = ".rloc"
BATCH_FILES = 1024
"""Number of files whose names are parsed together, at least."""

STRAY_REASON = "is not one of the bookie's files"
_UNOPENABLE_NOTE = ": the server lists it, but cannot open it"


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A path that is not read. Its row gets ``state`` and ``reason``.

    ``ledger_id`` is set only in the states ``unreadable`` and ``misplaced``. ``offset`` is the offset of
    the fault in the file, in bytes. It is None if it is unknown.
    """

    ledger_id: int | None
    path: str
    state: str
    reason: str
    offset: int | None = None
    scope_id: int = 0


class _PathRule(NamedTuple):
    """The rules for names and paths of index files whose ledger ids have the same upper 64 bits (scope)."""

    scope_id: int
    parse_name: Callable[[str], int | None]
    make_path: Callable[[int], str]
    find_paths: Callable[[int], Iterable[str]]
    """Returns every path at which the server looks for a ledger's index file. `to_path` returns one."""


_SCOPE_0_RULE = _PathRule(
    0, index_path.from_name, index_path.to_path, lambda ledger_id: (index_path.to_path(ledger_id),)
)


def list_part(
    part: IndexPart, can_skip: Callable[[bytes], bool] | None = None
) -> Iterator[IndexFiles | SkippedPath]:
    """List the index files of one part (one task's work), in the order of names. Opens only directories.

    ``can_skip`` returns whether a second-level directory need not be listed. If None, list all directories.
    """
    directories = [index_directory.path for index_directory in part.directories]
    names = list(part.names)
    if part.names_of_other_parts is not None:
        first_level_names: set[str] = set(names)
        for directory in directories:
            try:
                names_in_current, unknown_names = list_current(directory)
            except OSError as error:
                yield _gap_row(f"{directory}/current", error)
                continue
            first_level_names.update(names_in_current)
            yield from (
                SkippedPath(None, f"{directory}/current/{name}", IndexState.STRAY, STRAY_REASON)
                for name in unknown_names
            )
        names = sorted(first_level_names.difference(part.names_of_other_parts))
    buffer = _LeafBuffer(directories)
    for name in names:
        if index_path.is_scope_id_directory(name):
            yield from buffer.take_files()
            paths = [f"{directory}/current/{name}" for directory in directories]
            yield from _list_scoped(directories, paths, (int(name, 16),))
        else:
            yield from _list_first_level(directories, name, buffer, can_skip)
    yield from buffer.take_files()
    yield from _list_unpadded(directories, buffer.third_levels)


def check_versions(directories: Sequence[IndexDirectory]) -> Iterator[SkippedPath]:
    """Yield a row of state gap per directory whose VERSION (so maybe its disk) changed since planning."""
    for directory in directories:
        path = f"{directory.path}/current/VERSION"
        try:
            with open_regular(path) as file:
                version_digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError as error:
            if directory.version_sha256 is not None or not Path(directory.path, "current").is_dir():
                yield _gap_row(path, error)
        except OSError as error:
            yield _gap_row(path, error)
        else:
            if version_digest != directory.version_sha256:
                yield SkippedPath(None, path, IndexState.GAP, "VERSION changed since the audit was planned")


_PathNumbers = tuple[int, ...]

_LeafPaths = bytes | list[bytes]
"""The path of a second-level directory that exists in one index directory, or its paths in several."""


def _list_first_level(
    directories: Sequence[str], first_name: str, buffer: _LeafBuffer, can_skip: Callable[[bytes], bool] | None
) -> Iterator[IndexFiles | SkippedPath]:
    """List all files below ``first_name`` in all index directories together. ``buffer`` collects files."""
    paths_by_leaf: dict[bytes, _LeafPaths] = {}
    for directory in directories:
        path = f"{directory}/current/{first_name}"
        try:
            names = os.listdir(os.fsencode(path))  # noqa: PTH208 -- hot: no Path a name
        except FileNotFoundError:
            continue  # another index directory has this name
        except OSError as error:
            yield _gap_row(path, error)
            continue
        prefix = os.fsencode(path) + b"/"
        for leaf in names:
            other_paths = paths_by_leaf.get(leaf)
            file_path = prefix + leaf
            paths_by_leaf[leaf] = file_path if other_paths is None else [*_leaf_list(other_paths), file_path]
    high_byte = _BYTE_BY_NAME.get(os.fsencode(first_name), -1) << 8
    for leaf in sorted(paths_by_leaf):
        leaf_paths = paths_by_leaf[leaf]
        if can_skip is not None and isinstance(leaf_paths, bytes) and can_skip(leaf_paths):
            continue
        buffer.add(leaf_paths, high_byte | _BYTE_BY_NAME.get(leaf, -1))
        if len(buffer.paths) >= BATCH_FILES:
            yield from buffer.take_files()


class _LeafBuffer:
    """A buffer of second-level directories. Almost all of these contain only index files in the right place.

    The buffer parses the file names of many directories together. If a directory contains any other file,
    or cannot be listed, `_list_leaf` lists this directory again and reports the problem.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = directories
        self.third_levels: dict[_PathNumbers, list[str]] = {}
        """Third-level directories that may lead to ledgers of other scopes, by the numbers in their path."""
        self._clear()

    def _clear(self) -> None:
        self.paths: list[bytes] = []
        self._leaves: list[_LeafPaths] = []
        self._path_ends: list[int] = [0]
        self._low_bytes: list[int] = []

    def add(self, leaf: _LeafPaths, low_bytes: int) -> None:
        """Add a directory's files. Their ids should end in ``low_bytes`` (-1: misplaced directory)."""
        # Hot: called once per file at worst. Keep no containers, or Python's garbage collector gets slow.
        for path in (leaf,) if isinstance(leaf, bytes) else leaf:
            try:
                names = os.listdir(path)  # noqa: PTH208 -- names only
            except OSError:
                low_bytes = -1
                continue
            if len(names) == 1:
                self.paths.append(path + b"/" + names[0])
            else:
                prefix = path + b"/"
                self.paths += [prefix + name for name in sorted(names)]
        self._leaves.append(leaf)
        self._path_ends.append(len(self.paths))
        self._low_bytes.append(low_bytes)

    def take_files(self) -> Iterator[IndexFiles | SkippedPath]:
        """Yield all files in the buffer, and empty the buffer."""
        paths, file_ends, low_bytes = self.paths, np.array(self._path_ends), np.array(self._low_bytes)
        leaves = self._leaves
        self._clear()
        ledger_ids = index_path.ledger_ids(paths) if paths else np.zeros(0, np.int64)
        leaf_of_file = np.repeat(np.arange(len(leaves)), np.diff(file_ends))
        is_misplaced = low_bytes < 0
        is_misplaced[leaf_of_file[(ledger_ids < 0) | (ledger_ids & 0xFFFF != low_bytes[leaf_of_file])]] = True
        if not all(isinstance(leaf, bytes) for leaf in leaves):
            # If several index directories have a ledger, the server opens the first; the others are strays.
            _, id_ranks, id_counts = np.unique(ledger_ids, return_inverse=True, return_counts=True)
            is_misplaced[leaf_of_file[id_counts[id_ranks] > 1]] = True
        next_file = 0
        for row in np.flatnonzero(is_misplaced).tolist():
            if file_ends[row] > next_file:
                yield IndexFiles(ledger_ids[next_file : file_ends[row]], paths[next_file : file_ends[row]])
            leaf_paths = [os.fsdecode(path) for path in _leaf_list(leaves[row])]
            leaf_path = "/".join(leaf_paths[0].rsplit("/", 2)[1:])
            yield from _list_leaf(self._directories, leaf_paths, leaf_path, third_levels=self.third_levels)
            next_file = file_ends[row + 1]
        if len(paths) > next_file:
            yield IndexFiles(ledger_ids[next_file:], paths[next_file:])


def _leaf_list(leaf: _LeafPaths) -> list[bytes]:
    return [leaf] if isinstance(leaf, bytes) else leaf


_BYTE_BY_NAME = {b"%x" % byte_value: byte_value for byte_value in range(256)}


def _list_scoped(
    directories: Sequence[str], paths: Sequence[str], numbers: _PathNumbers, padded_paths: Sequence[str] = ()
) -> Iterator[IndexFiles | SkippedPath]:
    """List index files of ids over 64 bits. Files in ``padded_paths`` take precedence if names are equal."""
    # The first two numbers give the scope. Files above the third directory count as files of scope 0.
    rule = _rule_of_scope(index_path.ledger_of_directories(numbers).scope if len(numbers) > 2 else 0)
    paths_by_number: dict[int, list[str]] = {}
    for path in paths:
        try:
            names = os.listdir(path)  # noqa: PTH208 -- names only
        except NotADirectoryError:
            yield _misplaced_file(directories, path, path.rpartition("/")[2], rule)
            continue
        except OSError as error:
            if len(numbers) > 1 or not isinstance(error, FileNotFoundError):
                yield _gap_row(path, error)
            continue  # else another index directory has this name
        for name in sorted(names):
            number, file_path = index_path.number_of_directory(name), f"{path}/{name}"
            if number is not None:
                paths_by_number.setdefault(number, []).append(file_path)
            elif len(numbers) == 1:
                yield from _list_leaf(directories, [file_path], file_path.split("/current/")[-1])
            elif rule.parse_name(name.removesuffix(RLOC)) is not None or not _is_empty_directory(file_path):
                yield _misplaced_file(directories, file_path, name.removesuffix(RLOC), rule)
    for number in sorted(paths_by_number):
        child_numbers = (*numbers, number)
        if len(child_numbers) < index_path.SCOPED_DIRECTORY_COUNT:
            yield from _list_scoped(directories, paths_by_number[number], child_numbers, padded_paths)
        else:
            ledger = index_path.ledger_of_directories(child_numbers)
            leaf = index_path.scoped_ledger_to_path(ledger).rpartition("/")[0]
            padded_files = _find_padded_files(padded_paths, child_numbers)
            yield from _list_leaf(
                directories, paths_by_number[number], leaf, _rule_of_scope(ledger.scope), padded_files
            )


def _list_unpadded(
    directories: Sequence[str], third_levels: Mapping[_PathNumbers, Sequence[str]]
) -> Iterator[IndexFiles | SkippedPath]:
    """List index files of ids over 64 bits below directories without zero padding (``third_levels``).

    If the directory with zero padding has an index of the same ledger, the server opens that index instead.
    """
    for numbers in sorted(third_levels):
        name = f"{numbers[0]:08x}"
        paths = [path for directory in directories if Path(path := f"{directory}/current/{name}").is_dir()]
        yield from _list_scoped(directories, third_levels[numbers], numbers, paths)


def _find_padded_files(padded_paths: Sequence[str], numbers: _PathNumbers) -> dict[str, str]:
    """Return the index files below ``padded_paths``, by name. Lower directory names may lack zero padding."""
    padded_files: dict[str, str] = {}
    for first_level, lower_directories in product(padded_paths, index_path.directory_paths(numbers[1:])):
        directory = f"{first_level}/{lower_directories}"
        with suppress(OSError):  # most spellings do not exist; the part that lists them reports other errors
            for name in os.listdir(directory):  # noqa: PTH208 -- names only
                if index_path.scoped_ledger_from_name(name.removesuffix(RLOC)) is not None:
                    padded_files.setdefault(name.removesuffix(RLOC), f"{directory}/{name}")
    return padded_files


def _rule_of_scope(scope_id: int) -> _PathRule:
    if scope_id == 0:
        return _SCOPE_0_RULE
    return _PathRule(
        scope_id,
        index_path.scoped_ledger_from_name,
        lambda ledger_id: index_path.scoped_ledger_to_path(LedgerId(ledger_id, scope_id)),
        lambda ledger_id: index_path.scoped_ledger_paths(LedgerId(ledger_id, scope_id)),
    )


def _list_leaf(
    directories: Sequence[str],
    paths: Sequence[str],
    leaf: str,
    rule: _PathRule = _SCOPE_0_RULE,
    path_by_name: Mapping[str, str] | None = None,
    third_levels: dict[_PathNumbers, list[str]] | None = None,
) -> Iterator[IndexFiles | SkippedPath]:
    """List index files of a leaf directory. Files in ``path_by_name`` take precedence if names are equal."""
    scope_id, parse_name, make_path, _ = rule
    path_by_name = dict(path_by_name or {})
    ledger_files: list[tuple[int, str]] = []
    relocations: list[tuple[str, str]] = []
    for path in paths:
        try:
            names = os.listdir(path)  # noqa: PTH208 -- names only
        except NotADirectoryError:
            yield _misplaced_file(directories, path, path.rpartition("/")[2], rule)
            continue
        except OSError as error:
            yield _gap_row(path, error)
            continue
        for name in sorted(names) if len(names) > 1 else names:
            file_path = f"{path}/{name}"
            if name.endswith(RLOC) and parse_name(name.removesuffix(RLOC)) is not None:
                relocations.append((name.removesuffix(RLOC), file_path))
            elif (ledger_id := parse_name(name)) is None:
                if third_levels is not None and (numbers := index_path.path_numbers(leaf, name)) is not None:
                    third_levels.setdefault(numbers, []).append(file_path)
                elif not _is_empty_directory(file_path):
                    yield SkippedPath(None, file_path, IndexState.STRAY, STRAY_REASON)
            elif make_path(ledger_id) != f"{leaf}/{name}":
                yield _misplaced_file(directories, file_path, name, rule)
            elif name in path_by_name:
                yield SkippedPath(
                    None, file_path, IndexState.STRAY, f"the server opens {path_by_name[name]} instead"
                )
            else:
                path_by_name[name] = file_path
                ledger_files.append((ledger_id, file_path))
    for name, file_path in relocations:
        relocated_ledger = _relocated_ledger(directories, name, file_path, leaf, path_by_name, rule)
        if isinstance(relocated_ledger, SkippedPath):
            yield relocated_ledger
        else:
            ledger_files.append((relocated_ledger, file_path))
    if ledger_files:
        ledger_ids = np.array([ledger for ledger, _ in ledger_files], np.int64)
        yield IndexFiles(ledger_ids, [os.fsencode(file_path) for _, file_path in ledger_files], scope_id)


def _relocated_ledger(
    directories: Sequence[str], name: str, path: str, leaf: str, path_by_name: dict[str, str], rule: _PathRule
) -> int | SkippedPath:
    """Return a ``.rloc`` file's ledger id, or a row if its path is wrong or the ledger has another index."""
    ledger_id = rule.parse_name(name)
    if ledger_id is None or rule.make_path(ledger_id) != f"{leaf}/{name}":
        return _misplaced_file(directories, path, name, rule)
    if name in path_by_name:
        return SkippedPath(
            None,
            path,
            IndexState.STRAY,
            f"left behind by a relocation; the server opens {path_by_name[name]} instead",
        )
    path_by_name[name] = path
    return ledger_id


def _misplaced_file(directories: Sequence[str], path: str, name: str, rule: _PathRule) -> SkippedPath:
    """Return a row for a file at a wrong path: misplaced if it is a ledger's only index, else stray."""
    ledger = rule.parse_name(name)
    if ledger is None:
        return SkippedPath(None, path, IndexState.STRAY, STRAY_REASON)
    for index_directory, server_path in product(directories, rule.find_paths(ledger)):
        if Path(index_directory, "current", server_path).exists():
            return SkippedPath(
                None,
                path,
                IndexState.STRAY,
                f"the server opens {index_directory}/current/{server_path} instead",
            )
    reason = f"is not at its expected path {rule.make_path(ledger)}" + (
        "" if rule.scope_id else _UNOPENABLE_NOTE
    )
    return SkippedPath(ledger, path, IndexState.MISPLACED, reason, scope_id=rule.scope_id)


def _is_empty_directory(path: str) -> bool:
    try:
        return not any(Path(path).iterdir())
    except OSError:
        return False  # a file, or a directory that cannot be read: neither is an empty directory


def _gap_row(path: str, error: OSError) -> SkippedPath:
    return SkippedPath(None, path, IndexState.GAP, error.strerror or str(error))
