"""The places where bookies' directories lie on this machine's disks, and what stands in them.

A place is where one bookie's directories are kept: a sub-directory of a directory of bookies, named after the
bookie's id with ':' written '_'; or a bookie's entry in an inventory file. Nothing here says whose data a
directory holds: its VERSION decides that (`auditor.sources.bookies.owners`).

    bookies/                     the source
        bk-a_3181/               a place
            journal/current/     a directory of the bookie, found by its ``current``
            ledgers0/current/
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.codecs.bookie.last_mark import LastMark
from auditor.errors import UsageError
from auditor.sources.bookies.inventory import DeclaredRole, read_inventory
from auditor.sources.bookies.last_marks import read_marks
from auditor.sources.regular_file import is_directory, open_regular, visible_path

MAX_DEPTH = 6
"""How far below a place a directory is looked for: a copy of a whole file tree has four levels or so."""

MAX_DIRECTORIES = 10_000
"""Directories looked into below one place; a bookie has a few dozen, more is not a bookie's place."""

_NOT_UTF8 = "its name is not UTF-8"

MAX_VERSION_BYTES = 1 << 20
"""A VERSION file larger than this is not a cookie."""


@dataclass(frozen=True, slots=True)
class DirectoryFound:
    """A directory of a place: with ``current`` a bookie's, without it any other.

    ``version`` are the bytes of ``current/VERSION``; where they could not be read, ``version_error`` says
    why. ``marks`` are its lastMark files by name, and ``marked_ms`` is when the newest of them was written,
    in ms. ``unclean`` is whether DIRTY lies in it, which a bookie from 4.15 on puts there when it starts and
    takes away once all it has is flushed; None where that is not known. ``inside`` are the parts of its path
    from the place on, the place's name first. ``declared`` is what an inventory says it is. One without
    ``current`` is worth knowing only where a cookie names it: a wiped disk looks like that.

    ``version_absent``: it surely has no VERSION; false where it could not be looked for. ``empty`` is then
    whether nothing lies in its ``current``, None where nobody knows; ``old_data`` whether it has no
    ``current`` and keeps files of before layout 3 itself.
    """

    path: str
    inside: tuple[str, ...]
    has_current: bool
    version: bytes | None
    version_error: str | None
    marked_ms: int | None
    has_rocksdb: bool
    declared: DeclaredRole | None = None
    version_absent: bool = False
    empty: bool | None = None
    old_data: bool = False
    marks: tuple[tuple[str, LastMark], ...] = ()
    unclean: bool | None = None

    @property
    def lacks_disk(self) -> bool:
        """Whether nothing is in it, or it is not there though an inventory names it."""
        not_found = self.version_error == os.strerror(errno.ENOENT)
        gone = not_found and not (self.has_current or self.version_absent)
        return gone or (bool(self.empty) and not self.old_data)


@dataclass(frozen=True, slots=True)
class PlaceFound:
    """A place and its directories. ``gaps`` are (path, reason) of what could not be listed or was left out.

    ``names_bookie`` is set where ``name`` is a bookie's id as it is written (an inventory), not a file name.
    """

    name: str
    path: str
    names_bookie: bool
    directories: tuple[DirectoryFound, ...]
    gaps: tuple[tuple[str, str], ...]


def find_places(sources: Sequence[str]) -> list[PlaceFound]:
    """List the places of ``sources``, in the order given, each source's by name.

    A source is a directory with one sub-directory per bookie, or an inventory file (TOML): one of the
    ``directories`` of `auditor.sources.bookies.source_kinds.split_sources`. Raises `UsageError` for one that
    does not exist.

    >>> find_places(["/no/such/place"])
    Traceback (most recent call last):
    ...
    auditor.errors.UsageError: --bookies /no/such/place: no such directory or file
    """
    return [place for source in sources for place in _places(source)]


def _places(source: str) -> Iterator[PlaceFound]:
    path = Path(source).absolute()  # tasks may run in another working directory
    if path.is_dir():
        yield from _directory_of_bookies(path)
    elif path.is_file():
        yield from _inventory(path)
    else:
        raise UsageError(f"--bookies {source}: no such directory or file")


def _directory_of_bookies(source: Path) -> Iterator[PlaceFound]:
    try:
        with os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries if is_directory(entry))
    except OSError as error:
        raise UsageError(f"--bookies {source}: {error.strerror}") from error
    if not names:
        raise UsageError(
            f"--bookies {source}: no bookie's directory is in it; is a disk not mounted? A directory of "
            "bookies has one sub-directory per bookie; without --bookies only the metadata is looked at"
        )
    for name in names:
        if (shown := visible_path(name)) != name:
            yield PlaceFound(shown, f"{source}/{shown}", False, (), ((f"{source}/{shown}", _NOT_UTF8),))
            continue
        directories, gaps = _walk(source / name)
        yield PlaceFound(name, str(source / name), False, tuple(directories), tuple(gaps))


def _inventory(source: Path) -> Iterator[PlaceFound]:
    for bookie_id, declared in read_inventory(source).items():
        found = tuple(_look(each.path, Path(each.path).parts[1:], each) for each in declared)
        yield PlaceFound(bookie_id, str(source), True, found, ())


def _walk(place: Path) -> tuple[list[DirectoryFound], list[tuple[str, str]]]:
    """Find the directories below a place, those with ``current`` and others; nothing below a ``current``."""
    found: list[DirectoryFound] = []
    gaps: list[tuple[str, str]] = []
    seen: set[tuple[int, int]] = set()
    queue: deque[tuple[Path, tuple[str, ...]]] = deque([(place, (place.name,))])
    while queue:
        path, inside = queue.popleft()
        if len(seen) >= MAX_DIRECTORIES:
            gaps.append((str(path), f"more than {MAX_DIRECTORIES} directories below {place}"))
            break
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue  # a symlink to where we have been
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                # Links last: a directory is known by its own name before it is known by a link's.
                below = sorted((entry.is_symlink(), entry.name) for entry in entries if is_directory(entry))
        except OSError as error:
            gaps.append((str(path), error.strerror or str(error)))
            continue
        names = [name for _, name in below]
        found.append(_look(str(path), inside, None))
        strange = [name for name in names if visible_path(name) != name]
        gaps += [(visible_path(f"{path}/{name}"), _NOT_UTF8) for name in strange]
        names = [name for name in names if name != "current" and name not in strange]
        if names and len(inside) > MAX_DEPTH:
            gaps.append((str(path), f"deeper than {MAX_DEPTH} levels below {place}"))
            continue
        queue.extend((path / name, (*inside, name)) for name in names)
    return sorted(found, key=lambda directory: directory.path), gaps


def _look(path: str, inside: tuple[str, ...], declared: DeclaredRole | None) -> DirectoryFound:
    current = Path(path, "current")
    version, error, absent = _version(current / "VERSION")
    has_current = current.is_dir()
    return DirectoryFound(
        path=path,
        inside=inside,
        has_current=has_current,
        version=version,
        version_error=error,
        marked_ms=_marked_ms(current),
        has_rocksdb=(current / "locations").is_dir() or (current / "ledgers").is_dir(),
        declared=declared,
        version_absent=absent,
        empty=_empty(current) if absent and has_current else absent or None,
        old_data=absent and not has_current and _old_data(path),
        marks=tuple(read_marks(path).items()) if has_current else (),
        unclean=(current / "DIRTY").exists() if has_current else None,
    )


def _empty(current: Path) -> bool | None:
    try:
        with os.scandir(current) as entries:
            return next(entries, None) is None
    except OSError:
        return None  # which never refuses a start


def _old_data(path: str) -> bool:
    """Whether files of before layout 3 lie where ``current`` should be (Java: checkDirectoryStructure)."""
    try:
        with os.scandir(path) as entries:
            return any(
                entry.name == "VERSION" or entry.name.endswith((".txn", ".idx", ".log")) for entry in entries
            )
    except OSError:
        return False  # what cannot be listed is told as a gap


def _version(file: Path) -> tuple[bytes | None, str | None, bool]:
    """The bytes of a VERSION, why they could not be read, and whether it is not there at all."""
    try:
        with open_regular(file) as stream:
            data = stream.read(MAX_VERSION_BYTES + 1)
    except OSError as error:
        # A directory that is not there itself was not found, which is another matter.
        absent = isinstance(error, FileNotFoundError) and file.parent.parent.is_dir()
        return None, error.strerror or str(error), absent
    if len(data) > MAX_VERSION_BYTES:
        return None, f"larger than {MAX_VERSION_BYTES} bytes", False
    return data, None, False


def _marked_ms(current: Path) -> int | None:
    """When lastMark was last written, of any journal."""
    try:
        return max((file.stat().st_mtime_ns // 1_000_000 for file in current.glob("lastMark*")), default=None)
    except OSError:
        # Unknown is the careful answer: nothing missing on this bookie is then more than suspect.
        return None
