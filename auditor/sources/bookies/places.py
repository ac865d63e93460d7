"""The places on this machine's disks that hold bookies' directories, and the state of each directory.

A place holds the directories of one bookie. It is a sub-directory of a directory of bookies, or a bookie's
entry in an inventory file. A sub-directory is named after the bookie's id with ':' written '_'. This module
does not decide which bookie a directory belongs to: `auditor.sources.bookies.owners` does, by its VERSION.

    bookies/                     the source
        bk-a_3181/               a place
            journal/current/     a directory of the bookie, found by its ``current``
            ledgers0/current/

    [bookies."bk-a:3181"]                                # in an inventory file
    journal = ["/mnt/a/journal"]
    ledgers = ["/mnt/a/ledgers0", "/mnt/a/ledgers1"]     # in configured order
    index = ["/mnt/a/index0", "/mnt/a/index1"]           # only where indexDirectories is configured

    current/lastMark      the mark of the only journal directory
    current/lastMark.0    the mark of the first of n journals; ledger L uses journal number L modulo n

A bookie replays each journal from the journal's greatest mark in any ledger directory. Without a mark, it
replays the journal from the beginning. `auditor.sources.bookies.mark_times` dates an index by its marks.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.codecs.bookie import last_mark
from auditor.codecs.bookie.last_mark import START, LastMark
from auditor.errors import DecodeError, UsageError, path_error
from auditor.model.bookie_id import is_accepted
from auditor.model.cookie import Cookie
from auditor.sources.bookies.mark_times import JournalTime
from auditor.sources.regular_file import is_directory, open_regular, read_toml, visible_path

INVENTORY_ROLES = {"journal": "journal", "ledgers": "ledger", "index": "index"}
"""The keys of an inventory entry, and the role of the directories in each list."""


@dataclass(frozen=True, slots=True)
class DeclaredRole:
    """A directory's role in an inventory. It is number ``position`` of ``of`` directories with this role."""

    path: str
    role: str
    position: int
    of: int


def read_inventory(file: Path) -> dict[str, list[DeclaredRole]]:
    """Return the directories of each bookie in an inventory. Relative paths start at the file's directory.

    Raises:
        UsageError: the file is not an inventory; the message names the faulty entry.
    """
    try:
        inventory = read_toml(file)
    except UsageError as error:
        reason = str(error).removeprefix(f"{file}: ")
        raise UsageError(f"--bookies {file}: not a readable inventory: {reason}") from error
    bookies = inventory.get("bookies")
    if not isinstance(bookies, dict) or not bookies:
        raise UsageError(f'--bookies {file}: no [bookies."ID"] table in this inventory')
    return {bookie_id: _read_roles(file, bookie_id, toml_table) for bookie_id, toml_table in bookies.items()}


def _read_roles(file: Path, bookie_id: str, values_by_key: Any) -> list[DeclaredRole]:
    option = f'--bookies {file}: [bookies."{bookie_id}"]'
    if not is_accepted(bookie_id):
        raise UsageError(
            f"{option}: not a valid bookie id. An id has only letters, digits and : - . "
            "and is not the word readonly"
        )
    if not isinstance(values_by_key, dict):
        raise UsageError(f"{option}: not a table")
    unknown_keys = sorted(set(values_by_key) - set(INVENTORY_ROLES))
    if unknown_keys:
        raise UsageError(
            f"{option}: unknown key {', '.join(unknown_keys)}. Valid keys: {', '.join(INVENTORY_ROLES)}"
        )
    roles = []
    for inventory_key, role in INVENTORY_ROLES.items():
        paths = values_by_key.get(inventory_key, [])
        if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
            raise UsageError(f"{option}: {inventory_key} must be a list of paths")
        full_paths = [str(file.parent.absolute() / path) for path in paths]
        roles += [DeclaredRole(path, role, position, len(paths)) for position, path in enumerate(full_paths)]
    return roles


MarkByName = Mapping[str, LastMark]
"""The marks of one directory, by file name."""

LAST_MARK = "lastMark"
_MARK_BYTES = 16


def read_marks(directory: str) -> dict[str, LastMark]:
    """Return the positions in a directory's lastMark files, by file name. Like the server, skip bad files.

    >>> read_marks("/no/such/directory")
    {}
    """
    marks = {}
    for file in sorted(Path(directory, "current").glob(f"{LAST_MARK}*")):
        try:
            with open_regular(file) as opened_file:
                marks[file.name] = last_mark.decode(opened_file.read(_MARK_BYTES + 1))
        except (OSError, DecodeError):
            continue
    return marks


def mark_name(journal_number: int, journal_count: int) -> str:
    """Return the name of the lastMark file of journal ``journal_number``, counted from 0.

    >>> mark_name(0, 1), mark_name(0, 2)
    ('lastMark', 'lastMark.0')
    """
    return LAST_MARK if journal_count == 1 else f"{LAST_MARK}.{journal_number}"


def replay_marks(directories: Iterable[MarkByName], journal_count: int) -> tuple[LastMark, ...]:
    """Return the positions from which a bookie would replay its ``journal_count`` journals, one per journal.

    >>> replay_marks([{"lastMark": LastMark(5, 9)}, {"lastMark": LastMark(5, 12)}, {}], 1)
    (LastMark(file_id=5, offset=12),)
    """
    directory_marks = list(directories)
    return tuple(
        max((marks[name] for marks in directory_marks if name in marks), default=START)
        for name in (mark_name(journal_number, journal_count) for journal_number in range(journal_count))
    )


MAX_DEPTH = 6
"""Greatest number of levels below a place that are searched. A copy of a whole file tree has about four."""

MAX_DIRECTORIES = 10_000
"""Largest number of directories that are searched below one place. A bookie has a few dozen."""

_HEX_DIGITS = frozenset("0123456789abcdef")
_NOT_UTF8 = "its name is not UTF-8"

MAX_VERSION_BYTES = 1 << 20
"""Largest size of a VERSION file, in bytes. A larger file is not a cookie."""


@dataclass(frozen=True, slots=True)
class FoundDirectory:
    """A directory below a place (with one bookie's directories). If it has a ``current``, a bookie uses it.

    A directory without ``current`` may be a wiped disk. It matters only if a cookie names it.

    Attributes:
        parts_in_place: The parts of its path, beginning with the name of the place.
        version: The bytes of ``current/VERSION``. None if they could not be read.
        version_error: Why VERSION could not be read. None if it was read.
        marked_ms: When the newest lastMark file was written, in ms. None if there is none.
        declared_role: Its role in an inventory. None without an inventory.
        version_absent: Whether it certainly has no VERSION. False if that could not be checked.
        empty: Whether it has no VERSION, and ``current`` is empty or absent. None if this is not known.
        old_data: Whether it has no ``current`` and itself contains files of a layout before 3.
        marks: The positions in its lastMark files, by file name.
        unclean: Whether it has a file DIRTY. A bookie from 4.15 on creates DIRTY when it starts and removes
            the file once all data is flushed. None if it is not known.
        index_alone: Whether it has a VERSION, but no lastMark, journal, entry log or database.
        journal_times: Its journal files, and the last write to each.
        index_written_ms: When RocksDB last wrote to a log of ``locations``, in ms. None if there is no log.
    """

    path: str
    parts_in_place: tuple[str, ...]
    has_current: bool
    version: bytes | None
    version_error: str | None
    marked_ms: int | None
    has_rocksdb: bool
    declared_role: DeclaredRole | None = None
    version_absent: bool = False
    empty: bool | None = None
    old_data: bool = False
    marks: tuple[tuple[str, LastMark], ...] = ()
    unclean: bool | None = None
    index_alone: bool = False
    journal_times: tuple[JournalTime, ...] = ()
    index_written_ms: int | None = None

    @property
    def cookie(self) -> tuple[Cookie | None, str | None]:
        """The decoded VERSION file and None, or None and the reason why the file cannot be read."""
        return (None, self.version_error) if self.version is None else cookie_codec.read(self.version)

    @property
    def lacks_disk(self) -> bool:
        """Whether the directory is empty, or an inventory names it and it does not exist."""
        has_no_version = self.version_error == os.strerror(errno.ENOENT)
        is_absent = has_no_version and not (self.has_current or self.version_absent)
        return is_absent or (bool(self.empty) and not self.old_data)


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place and the directories in it. A place is a bookie's sub-directory or inventory entry.

    Attributes:
        name: The name of the place's directory, or the bookie id in an inventory.
        names_bookie: Whether ``name`` is a bookie id from an inventory.
        gaps: The (path, reason) of each path that could not be listed or was left out.
    """

    name: str
    path: str
    names_bookie: bool
    directories: tuple[FoundDirectory, ...]
    gaps: tuple[tuple[str, str], ...]


def find_places(sources: Sequence[str]) -> list[FoundPlace]:
    """List the places of ``sources`` in the given order. Sort the places of each source by name.

    A source is a directory with one sub-directory per bookie, or an inventory file (TOML). The function
    `auditor.sources.bookies.source_kinds.split_sources` returns both as ``directories``.

    Raises:
        UsageError: a source does not exist.

    >>> find_places(["/no/such/place"])
    Traceback (most recent call last):
    ...
    auditor.errors.UsageError: --bookies /no/such/place: no such directory or file
    """
    return [place for source in sources for place in _list_source_places(source)]


def _list_source_places(source: str) -> Iterator[FoundPlace]:
    path = Path(source).absolute()  # tasks may run in another working directory
    if path.is_dir():
        yield from _list_bookies_directory(path)
    elif path.is_file():
        yield from _list_inventory_places(path)
    else:
        raise UsageError(f"--bookies {source}: no such directory or file")


def _list_bookies_directory(source: Path) -> Iterator[FoundPlace]:
    try:
        with os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries if is_directory(entry))
    except OSError as error:
        raise path_error(error, f"--bookies {source}: {error.strerror}") from error
    if not names:
        raise UsageError(
            f"--bookies {source}: contains no directory of a bookie. It must have one sub-directory per "
            "bookie; check whether a disk is not mounted. To audit only the metadata, omit --bookies"
        )
    for name in names:
        if (printable_name := visible_path(name)) != name:
            path = f"{source}/{printable_name}"
            yield FoundPlace(printable_name, path, False, (), ((path, _NOT_UTF8),))
            continue
        directories, gaps = _walk_place(source / name)
        yield FoundPlace(name, str(source / name), False, tuple(directories), tuple(gaps))


def _list_inventory_places(source: Path) -> Iterator[FoundPlace]:
    for bookie_id, declared_roles in read_inventory(source).items():
        directories = tuple(_inspect(role.path, Path(role.path).parts[1:], role) for role in declared_roles)
        yield FoundPlace(bookie_id, str(source), True, directories, ())


def _walk_place(place: Path) -> tuple[list[FoundDirectory], list[tuple[str, str]]]:
    """Return a place's directories (none inside of ``current``), and (path, reason) of unlisted paths."""
    directories: list[FoundDirectory] = []
    gaps: list[tuple[str, str]] = []
    searched_inodes: set[tuple[int, int]] = set()
    directory_queue: deque[tuple[Path, tuple[str, ...]]] = deque([(place, (place.name,))])
    while directory_queue:
        path, path_parts = directory_queue.popleft()
        if len(searched_inodes) >= MAX_DIRECTORIES:
            gaps.append((str(path), f"not searched: more than {MAX_DIRECTORIES} directories below {place}"))
            break
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in searched_inodes:
                continue  # a symlink to a directory that was searched already
            searched_inodes.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                # Symlinks last, so that a directory is found by its own name first.
                folders = sorted((entry.is_symlink(), entry.name) for entry in entries if is_directory(entry))
        except OSError as error:
            gaps.append((str(path), error.strerror or str(error)))
            continue
        names = [name for _, name in folders]
        directories.append(_inspect(str(path), path_parts, None))
        undecodable_names = [name for name in names if visible_path(name) != name]
        gaps += [(visible_path(f"{path}/{name}"), _NOT_UTF8) for name in undecodable_names]
        names = [name for name in names if name != "current" and name not in undecodable_names]
        if names and len(path_parts) > MAX_DEPTH:
            gaps.append((str(path), f"not searched: more than {MAX_DEPTH} levels below {place}"))
            continue
        directory_queue.extend((path / name, (*path_parts, name)) for name in names)
    return sorted(directories, key=lambda directory: directory.path), gaps


def _inspect(path: str, path_parts: tuple[str, ...], declared_role: DeclaredRole | None) -> FoundDirectory:
    current_path = Path(path, "current")
    version, version_error, is_absent_version = _read_version(current_path / "VERSION")
    has_current = current_path.is_dir()
    marked_ms = _read_mark_ms(current_path)
    has_rocksdb = (current_path / "locations").is_dir() or (current_path / "ledgers").is_dir()
    journal_times, has_log = _list_logs(current_path)
    return FoundDirectory(
        path=path,
        parts_in_place=path_parts,
        has_current=has_current,
        version=version,
        version_error=version_error,
        marked_ms=marked_ms,
        has_rocksdb=has_rocksdb,
        declared_role=declared_role,
        version_absent=is_absent_version,
        empty=_is_empty(current_path) if is_absent_version and has_current else is_absent_version or None,
        old_data=is_absent_version and not has_current and _has_old_data(path),
        marks=tuple(read_marks(path).items()) if has_current else (),
        unclean=(current_path / "DIRTY").exists() if has_current else None,
        index_alone=version is not None and marked_ms is None and not (has_rocksdb or has_log),
        journal_times=journal_times,
        index_written_ms=_last_write_ms(current_path / "locations", "LOG", "*.log"),
    )


def _list_logs(current_path: Path) -> tuple[tuple[JournalTime, ...], bool]:
    """Return a directory's journal files, and whether the directory may contain a journal or an entry log."""
    file_times, has_log = [], False
    try:
        with os.scandir(current_path) as entries:
            for entry in entries:
                file_stem, _, file_suffix = entry.name.partition(".")
                has_log |= file_suffix in ("txn", "log", "log.compacted", "compacting")
                if file_suffix == "txn" and file_stem and set(file_stem) <= _HEX_DIGITS:
                    file_times.append(JournalTime(int(file_stem, 16), entry.stat().st_mtime_ns // 1_000_000))
    except OSError:
        return (), True  # a file vanished meanwhile: do not date a mark by the other files
    return tuple(sorted(file_times)), has_log


def _is_empty(current_path: Path) -> bool | None:
    try:
        with os.scandir(current_path) as entries:
            return next(entries, None) is None
    except OSError:
        return None  # not known; an error here would not keep the bookie from starting


def _has_old_data(path: str) -> bool:
    """Return whether a directory contains files of a layout before 3 (checkDirectoryStructure in Java)."""
    try:
        with os.scandir(path) as entries:
            return any(
                entry.name == "VERSION" or entry.name.endswith((".txn", ".idx", ".log")) for entry in entries
            )
    except OSError:
        return False  # a directory that cannot be listed is reported as a gap


def _read_version(file: Path) -> tuple[bytes | None, str | None, bool]:
    """Return the bytes of a VERSION file, the reason why it cannot be read, and whether it is absent."""
    try:
        with open_regular(file) as opened_file:
            version_bytes = opened_file.read(MAX_VERSION_BYTES + 1)
    except OSError as error:
        # VERSION is absent only if its directory exists; otherwise the directory was not found.
        is_absent_version = isinstance(error, FileNotFoundError) and file.parent.parent.is_dir()
        return None, error.strerror or str(error), is_absent_version
    if len(version_bytes) > MAX_VERSION_BYTES:
        return None, f"larger than {MAX_VERSION_BYTES} bytes", False
    return version_bytes, None, False


def _read_mark_ms(current_path: Path) -> int | None:
    """Return when the newest lastMark file of any journal was written, in ms. None if it is not known."""
    # If the time is unknown, missing entries of this bookie are at most suspect.
    return _last_write_ms(current_path, "lastMark*")


def _last_write_ms(directory: Path, *patterns: str) -> int | None:
    """Return the last write to files that match ``patterns``, in ms. None: no file, or a file vanished."""
    try:
        files = (file for pattern in patterns for file in directory.glob(pattern))
        return max((file.stat().st_mtime_ns // 1_000_000 for file in files), default=None)
    except OSError:
        return None
