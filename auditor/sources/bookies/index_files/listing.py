"""The index files (``.idx``) of a bookie and their ledgers (IndexPersistenceMgr).

A ledger's index may lie in any index directory. The server opens the first, in configured order, that has it.
``<hex>.idx.rloc`` is a relocation that was not finished. If any index directory has the ``.idx``, the
``.rloc`` is garbage. Otherwise it is the index, and the server renames it when it starts. The server's scan
counts every ``.idx`` two directories down as a ledger. But the server opens a ledger's index by its path. So
it lists an ``.idx`` in the wrong directory and cannot read it.

Ledgers of scopes other than 0 (BP-35) have their ``.idx`` four directories down, where the server's scan sees
none. Without zero padding, the first two of these four may have names of directories of scope 0.
A step is the number in the name of one of these four directories.
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
PIECE_FILES = 1024
"""Least number of files in one piece of a listing. The names in a piece are parsed together."""

NOT_OURS = "is not one of the bookie's files"
_UNOPENABLE_NOTE = ": the server lists it, and cannot open it"


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A path that is not read, with its ``state`` and ``reason``.

    ``ledger_id`` is None except in the states ``unreadable`` and ``misplaced``. ``offset`` is the offset of
    the fault in the file, in bytes; None if it is not known.
    """

    ledger_id: int | None
    path: str
    state: str
    reason: str
    offset: int | None = None
    scope_id: int = 0


class _Keys(NamedTuple):
    """The names and paths of the index files of one scope."""

    scope_id: int
    from_name: Callable[[str], int | None]
    to_path: Callable[[int], str]
    places: Callable[[int], Iterable[str]]
    """Returns every path that the index file of a ledger may have. One of them is the path of `to_path`."""


_SCOPE_0_KEYS = _Keys(
    0, index_path.from_name, index_path.to_path, lambda ledger_id: (index_path.to_path(ledger_id),)
)


def list_part(
    part: IndexPart, skips: Callable[[bytes], bool] | None = None
) -> Iterator[IndexFiles | SkippedPath]:
    """List the index files of one part, in the order of names. Opens only directories.

    ``skips`` returns whether the files of a second-level directory need no listing; None to list all.
    """
    directories = [index_directory.path for index_directory in part.directories]
    names = list(part.names)
    if part.elsewhere is not None:
        first_names: set[str] = set(names)
        for directory in directories:
            try:
                inner, strays = list_current(directory)
            except OSError as error:
                yield _gap_row(f"{directory}/current", error)
                continue
            first_names.update(inner)
            yield from (
                SkippedPath(None, f"{directory}/current/{name}", IndexState.STRAY, NOT_OURS)
                for name in strays
            )
        names = sorted(first_names.difference(part.elsewhere))
    leaves = _Leaves(directories)
    for name in names:
        if index_path.is_scope_id_directory(name):
            yield from leaves.take()
            paths = [f"{directory}/current/{name}" for directory in directories]
            yield from _list_scoped(directories, paths, (int(name, 16),))
        else:
            yield from _first_level(directories, name, leaves, skips)
    yield from leaves.take()
    yield from _list_unpadded(directories, leaves.inner)


def check_versions(directories: Sequence[IndexDirectory]) -> Iterator[SkippedPath]:
    """Yield a gap for each directory whose VERSION changed since planning, as after a change of its disk."""
    for directory in directories:
        path = f"{directory.path}/current/VERSION"
        try:
            with open_regular(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError as error:
            if directory.version_sha256 is not None or not Path(directory.path, "current").is_dir():
                yield _gap_row(path, error)
        except OSError as error:
            yield _gap_row(path, error)
        else:
            if digest != directory.version_sha256:
                yield SkippedPath(
                    None,
                    path,
                    IndexState.GAP,
                    "VERSION changed since the audit was planned",
                )


_Steps = tuple[int, ...]

_Leaf = bytes | list[bytes]
"""The path of a second-level directory that exists in one index directory, or its paths in several."""


def _first_level(
    directories: Sequence[str], first: str, leaves: _Leaves, skips: Callable[[bytes], bool] | None
) -> Iterator[IndexFiles | SkippedPath]:
    """List everything below one first-level name, in all index directories together."""
    holders: dict[bytes, _Leaf] = {}
    for directory in directories:
        path = f"{directory}/current/{first}"
        try:
            names = os.listdir(os.fsencode(path))  # noqa: PTH208 -- hot: no Path a name
        except FileNotFoundError:
            continue  # another index directory has this name
        except OSError as error:
            yield _gap_row(path, error)
            continue
        prefix = os.fsencode(path) + b"/"
        for leaf in names:
            previous = holders.get(leaf)
            file_path = prefix + leaf
            holders[leaf] = file_path if previous is None else [*_paths(previous), file_path]
    high_byte = _BYTES.get(os.fsencode(first), -1) << 8
    for leaf in sorted(holders):
        holder = holders[leaf]
        if skips is not None and isinstance(holder, bytes) and skips(holder):
            continue
        leaves.add(holder, high_byte | _BYTES.get(leaf, -1))
        if len(leaves.paths) >= PIECE_FILES:
            yield from leaves.take()


class _Leaves:
    """A buffer of second-level directories. Almost all of them hold only index files in the right place.

    It parses the names of these files together. If a directory has any other file, or cannot be listed,
    `_leaf` lists the directory again and reports what it finds.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = directories
        self.inner: dict[_Steps, list[str]] = {}
        """Third-level directories that may lead to ledgers of other scopes, by the numbers in the path."""
        self._clear()

    def _clear(self) -> None:
        self.paths: list[bytes] = []
        self._leaves: list[_Leaf] = []
        self._ends: list[int] = [0]
        self._low_bytes: list[int] = []

    def add(self, leaf: _Leaf, low_bytes: int) -> None:
        """List a directory whose ledger ids end in the bytes ``low_bytes``; below 0 if none belongs there."""
        # Hot: called once per file at worst. Keep no containers, or Python's garbage collector gets slow.
        for path in (leaf,) if isinstance(leaf, bytes) else leaf:
            try:
                names = os.listdir(path)  # noqa: PTH208
            except OSError:
                low_bytes = -1
                continue
            if len(names) == 1:
                self.paths.append(path + b"/" + names[0])
            else:
                prefix = path + b"/"
                self.paths += [prefix + name for name in sorted(names)]
        self._leaves.append(leaf)
        self._ends.append(len(self.paths))
        self._low_bytes.append(low_bytes)

    def take(self) -> Iterator[IndexFiles | SkippedPath]:
        """Yield all files in the buffer, and empty it."""
        paths, ends, low_bytes = self.paths, np.array(self._ends), np.array(self._low_bytes)
        leaves = self._leaves
        self._clear()
        ids = index_path.ledger_ids(paths) if paths else np.zeros(0, np.int64)
        leaf_of = np.repeat(np.arange(len(leaves)), np.diff(ends))
        is_misplaced = low_bytes < 0
        is_misplaced[leaf_of[(ids < 0) | (ids & 0xFFFF != low_bytes[leaf_of])]] = True
        if not all(isinstance(leaf, bytes) for leaf in leaves):
            # If several index directories have a ledger, the server opens the first; the others are strays.
            _, number, count = np.unique(ids, return_inverse=True, return_counts=True)
            is_misplaced[leaf_of[count[number] > 1]] = True
        start = 0
        for row in np.flatnonzero(is_misplaced).tolist():
            if ends[row] > start:
                yield IndexFiles(ids[start : ends[row]], paths[start : ends[row]])
            leaf_paths = [os.fsdecode(path) for path in _paths(leaves[row])]
            place = "/".join(leaf_paths[0].rsplit("/", 2)[1:])
            yield from _leaf(self._directories, leaf_paths, place, inner=self.inner)
            start = ends[row + 1]
        if len(paths) > start:
            yield IndexFiles(ids[start:], paths[start:])


def _paths(leaf: _Leaf) -> list[bytes]:
    return [leaf] if isinstance(leaf, bytes) else leaf


_BYTES = {b"%x" % value: value for value in range(256)}


def _list_scoped(
    directories: Sequence[str], paths: Sequence[str], steps: _Steps, tops: Sequence[str] = ()
) -> Iterator[IndexFiles | SkippedPath]:
    """List all index files of scopes other than 0 below some path steps, in all index directories together.

    ``tops`` are first-level directories of other parts. The server prefers files below them to files here.
    """
    # The first two steps give the scope. Files above that are treated as files of scope 0.
    keys = _keys(index_path.ledger_of_directories(steps).scope if len(steps) > 2 else 0)
    paths_by_step: dict[int, list[str]] = {}
    for path in paths:
        try:
            names = os.listdir(path)  # noqa: PTH208
        except NotADirectoryError:
            yield _misplaced_file(directories, path, path.rpartition("/")[2], keys)
            continue
        except OSError as error:
            if len(steps) > 1 or not isinstance(error, FileNotFoundError):
                yield _gap_row(path, error)
            continue  # else another index directory has this name
        for name in sorted(names):
            step, file_path = index_path.number_of_directory(name), f"{path}/{name}"
            if step is not None:
                paths_by_step.setdefault(step, []).append(file_path)
            elif len(steps) == 1:
                yield from _leaf(directories, [file_path], file_path.split("/current/")[-1])
            elif keys.from_name(name.removesuffix(RLOC)) is not None or not _empty_directory(file_path):
                yield _misplaced_file(directories, file_path, name.removesuffix(RLOC), keys)
    for step in sorted(paths_by_step):
        next_steps = (*steps, step)
        if len(next_steps) < index_path.SCOPED_DIRECTORY_COUNT:
            yield from _list_scoped(directories, paths_by_step[step], next_steps, tops)
        else:
            ledger = index_path.ledger_of_directories(next_steps)
            home = index_path.scoped_ledger_to_path(ledger).rpartition("/")[0]
            padded_files = _files_below(tops, next_steps)
            yield from _leaf(directories, paths_by_step[step], home, _keys(ledger.scope), padded_files)


def _list_unpadded(
    directories: Sequence[str], inner: Mapping[_Steps, Sequence[str]]
) -> Iterator[IndexFiles | SkippedPath]:
    """List ledgers of other scopes below first steps without zero padding; ``inner`` are their third steps.

    Another part may list the padded first step. The server opens the index of a ledger there if it has one.
    """
    for steps in sorted(inner):
        name = f"{steps[0]:08x}"
        tops = [path for directory in directories if Path(path := f"{directory}/current/{name}").is_dir()]
        yield from _list_scoped(directories, inner[steps], steps, tops)


def _files_below(tops: Sequence[str], steps: _Steps) -> dict[str, str]:
    """Return the index files, by name, below padded first steps. The later steps may lack padding."""
    padded_files: dict[str, str] = {}
    for first_level, spelling in product(tops, index_path.directory_paths(steps[1:])):
        folder = f"{first_level}/{spelling}"
        with suppress(OSError):  # most spellings do not exist; listing their own part reports a gap
            for name in os.listdir(folder):  # noqa: PTH208
                if index_path.scoped_ledger_from_name(name.removesuffix(RLOC)) is not None:
                    padded_files.setdefault(name.removesuffix(RLOC), f"{folder}/{name}")
    return padded_files


def _keys(scope_id: int) -> _Keys:
    if scope_id == 0:
        return _SCOPE_0_KEYS
    return _Keys(
        scope_id,
        index_path.scoped_ledger_from_name,
        lambda ledger_id: index_path.scoped_ledger_to_path(LedgerId(ledger_id, scope_id)),
        lambda ledger_id: index_path.scoped_ledger_paths(LedgerId(ledger_id, scope_id)),
    )


def _leaf(
    directories: Sequence[str],
    paths: Sequence[str],
    place: str,
    keys: _Keys = _SCOPE_0_KEYS,
    path_by_name: Mapping[str, str] | None = None,
    inner: dict[_Steps, list[str]] | None = None,
) -> Iterator[IndexFiles | SkippedPath]:
    """List the files of one directory of indexes, which has one path in each of several index directories.

    ``path_by_name`` are files in other directories that the server opens before files of the same name here.
    ``inner`` receives third-level directories that may lead to ledgers of other scopes.
    """
    scope_id, from_name, to_path, _ = keys
    path_by_name = dict(path_by_name or {})
    ledger_files: list[tuple[int, str]] = []
    relocations: list[tuple[str, str]] = []
    for path in paths:
        try:
            names = os.listdir(path)  # noqa: PTH208
        except NotADirectoryError:
            yield _misplaced_file(directories, path, path.rpartition("/")[2], keys)
            continue
        except OSError as error:
            yield _gap_row(path, error)
            continue
        for name in sorted(names) if len(names) > 1 else names:
            file_path = f"{path}/{name}"
            if name.endswith(RLOC) and from_name(name.removesuffix(RLOC)) is not None:
                relocations.append((name.removesuffix(RLOC), file_path))
            elif (ledger := from_name(name)) is None:
                if inner is not None and (steps := index_path.path_numbers(place, name)) is not None:
                    inner.setdefault(steps, []).append(file_path)
                elif not _empty_directory(file_path):
                    yield SkippedPath(None, file_path, IndexState.STRAY, NOT_OURS)
            elif to_path(ledger) != f"{place}/{name}":
                yield _misplaced_file(directories, file_path, name, keys)
            elif name in path_by_name:
                yield SkippedPath(None, file_path, IndexState.STRAY, f"the server opens {path_by_name[name]}")
            else:
                path_by_name[name] = file_path
                ledger_files.append((ledger, file_path))
    for name, file_path in relocations:
        relocated_ledger = _relocation(directories, name, file_path, place, path_by_name, keys)
        if isinstance(relocated_ledger, SkippedPath):
            yield relocated_ledger
        else:
            ledger_files.append((relocated_ledger, file_path))
    if ledger_files:
        ids = np.array([ledger for ledger, _ in ledger_files], np.int64)
        yield IndexFiles(ids, [os.fsencode(file_path) for _, file_path in ledger_files], scope_id)


def _relocation(
    directories: Sequence[str], name: str, path: str, place: str, path_by_name: dict[str, str], keys: _Keys
) -> int | SkippedPath:
    """Return the ledger of a relocation file. If a directory has the ``.idx``, return the file as a stray."""
    ledger = keys.from_name(name)
    if ledger is None or keys.to_path(ledger) != f"{place}/{name}":
        return _misplaced_file(directories, path, name, keys)
    if name in path_by_name:
        return SkippedPath(
            None,
            path,
            IndexState.STRAY,
            f"left behind by a relocation; the server opens {path_by_name[name]}",
        )
    path_by_name[name] = path
    return ledger


def _misplaced_file(directories: Sequence[str], path: str, name: str, keys: _Keys) -> SkippedPath:
    """Return a file at the wrong path for its name: an index that the server cannot open, or a stray."""
    ledger = keys.from_name(name)
    if ledger is None:
        return SkippedPath(None, path, IndexState.STRAY, NOT_OURS)
    for directory, home in product(directories, keys.places(ledger)):
        if Path(directory, "current", home).exists():
            return SkippedPath(None, path, IndexState.STRAY, f"the server opens {directory}/current/{home}")
    reason = f"is not at its path {keys.to_path(ledger)}" + ("" if keys.scope_id else _UNOPENABLE_NOTE)
    return SkippedPath(ledger, path, IndexState.MISPLACED, reason, scope_id=keys.scope_id)


def _empty_directory(path: str) -> bool:
    try:
        return not any(Path(path).iterdir())
    except OSError:
        return False  # a file, or a directory that cannot be read: neither is an empty directory


def _gap_row(path: str, error: OSError) -> SkippedPath:
    return SkippedPath(None, path, IndexState.GAP, error.strerror or str(error))
