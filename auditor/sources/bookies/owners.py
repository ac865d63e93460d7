"""The attribution of directories to bookies, and how completely each bookie can be read.

A place holds the directories of one bookie, and is named after it (`auditor.sources.bookies.places`). If the
cluster knows the bookie id in a directory's VERSION cookie, the directory belongs to that bookie. Otherwise,
it belongs to the bookie after which its place is named. So if two disks were swapped, each disk still belongs
to the bookie that wrote it. To compare a place's name with the known ids, the program writes ':' in the ids
as '_'. It never converts the name back into an id.

A bookie counts as ``read`` only under two conditions. All index directories that its VERSION files name were
found, and each has a VERSION file that parses. A directory that was not found could contain entries that the
other directories lack. This module does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from auditor.model.cookie import Cookie
from auditor.model.states import BookieRead
from auditor.sources.bookies.journal.files import NO_JOURNALS, Journals, find_journals, oldest_index_write_ms
from auditor.sources.bookies.mark_times import find_mark_date, limit_by_index_write
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB, IndexDirectory
from auditor.sources.bookies.paths import (
    NOT_FOUND_REASON,
    BookiePaths,
    OwnedDirectory,
    count_shared_parts,
    path_parts,
    paths_of,
)
from auditor.sources.bookies.places import FoundPlace


@dataclass(frozen=True, slots=True)
class AttributedDirectory:
    """A row of the table ``directories``: a directory, its path, and the bookie that it belongs to.

    ``layout``, ``journal_dirs``, ``ledger_dirs`` and ``index_dirs`` are the values in its VERSION file.

    Attributes:
        place: The bookie id of the place that contains the directory. A place holds one bookie's
            directories. None if the place has no id.
        role: ``journal``, ``ledger``, ``index`` or ``unknown``.
        owner: The bookie that the directory belongs to. None if it belongs to no bookie.
        index_time: A time, in ms, up to which the index has all entries, according to the directory's
            greatest lastMark. None if no evidence dates the mark.
        damage: The reason why the directory's VERSION file could not be read. None if it was read.
        configured: The path by which the VERSION file names this directory. None if this is ambiguous.
    """

    place: str | None
    path: str
    role: str
    owner: str | None
    cookie_bookie_id: str | None
    instance_id: str | None
    index_time: int | None
    damage: str | None
    layout: int | None
    journal_dirs: str | None
    ledger_dirs: tuple[str, ...] | None
    index_dirs: tuple[str, ...] | None
    version_absent: bool
    empty: bool | None
    configured: str | None


@dataclass(frozen=True, slots=True)
class AttributedBookie:
    """The directories of one bookie, and how far its index can be trusted.

    Attributes:
        index_directories: The index directories that can be read, in configured order.
        read: ``read``, ``partial`` or ``unread``. With ``partial``, the entries in the index are present.
            It is unknown whether entries that are not in the index are present.
        reason: The reason why the bookie is ``partial`` or ``unread``. None if it is ``read``.
        index_time: A time, in ms, up to which the index has all entries. None if a ledger directory of the
            bookie has no lastMark, or if no evidence dates one of the marks.
        suspect: Whether a ledger or index directory is in the place of a different bookie, or has the id of
            a different bookie.
        foreign_instance: Whether all cookies of the bookie name a different cluster instance.
        has_directory: Whether one of the bookie's directories contains a ``current``.
        absent_directories: The configured index directories that were not found or are empty. An empty
            tuple if the VERSION files disagree, or if there is another reason why the bookie is not read
            completely.
    """

    bookie_id: str
    index_directories: tuple[IndexDirectory, ...]
    read: str
    reason: str | None
    index_time: int | None
    suspect: bool
    foreign_instance: bool
    has_directory: bool
    journals: Journals = NO_JOURNALS
    absent_directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attribution:
    """All directories, sorted by path, and the bookies that have a place or a directory, by bookie id.

    A place is one bookie's sub-directory or inventory entry. ``found_directories`` gives the state of all
    these directories on disk. It also includes directories that belong to no bookie.
    """

    directories: tuple[AttributedDirectory, ...]
    bookies: Mapping[str, AttributedBookie]
    found_directories: tuple[OwnedDirectory, ...] = ()

    def ledger_directories(self, bookie_id: str) -> list[str]:
        """Return a bookie's ledger directories in configured order.

        An empty string stands for a directory that was not found.
        """
        rows = [
            attributed
            for attributed in self.directories
            if attributed.owner == bookie_id and attributed.ledger_dirs
        ]
        if not rows:
            return []
        # The lists agree, or their union was used. The longest list then has the most paths.
        configured = max((row.ledger_dirs or () for row in rows), key=len)
        paths = {row.configured: row.path for row in rows if row.role == "ledger"}
        return [paths.get(path, "") for path in configured]


def attribute_directories(
    places: Sequence[FoundPlace],
    known_ids: Set[str],
    store_cookies: Mapping[str, Cookie],
    instance_id: str | None,
) -> Attribution:
    """Attribute each directory of ``places`` to a bookie.

    Args:
        places: The places that were found. Each place holds the directories of one bookie.
        known_ids: The bookie ids in the cluster's metadata: in cookies, registrations, ensembles and
            under-replication marks.
        store_cookies: The cookies of the metadata store, by bookie id. They are used only for bookies
            without a readable VERSION file.
        instance_id: The instance id of the cluster. None if it is unknown.

    Returns:
        The attribution. It does not include bookies of the cluster without a place or directory.
    """
    directories_by_owner: dict[str | None, dict[str, OwnedDirectory]] = {}
    gaps: dict[str, list[str]] = {}
    for place in places:
        cookies_of_directories = [
            (place_directory, *place_directory.cookie) for place_directory in place.directories
        ]
        place_id = _bookie_id_of_place(
            place, known_ids, [cookie for _, cookie, _ in cookies_of_directories if cookie is not None]
        )
        if place_id is not None:
            directories_by_owner.setdefault(place_id, {})
            gaps.setdefault(place_id, []).extend(f"{path}: {reason}" for path, reason in place.gaps)
        for found_directory, cookie, damage in cookies_of_directories:
            owner = _directory_owner(place_id, cookie, known_ids)
            directory = directories_by_owner.setdefault(owner, {}).setdefault(
                found_directory.path, OwnedDirectory(found_directory, cookie, damage, place_id)
            )
            if found_directory.declared_role is not None:
                directory.declared_roles.append(found_directory.declared_role)
    rows: list[AttributedDirectory] = []
    bookies: dict[str, AttributedBookie] = {}
    for owner, directories in directories_by_owner.items():
        paths = paths_of(owner, list(directories.values()), store_cookies.get(owner or ""))
        # An empty directory that no cookie names is not one of the bookie's.
        bookie_directories = [
            owned_directory
            for owned_directory in directories.values()
            if owned_directory.is_bookie_directory
            or owned_directory.found_directory.path in paths.role_by_path
        ]
        rows.extend(_directory_row(owner, owned_directory, paths) for owned_directory in bookie_directories)
        if owner is not None:
            bookies[owner] = _bookie_from_directories(
                owner, bookie_directories, paths, gaps.get(owner, []), instance_id
            )
    return Attribution(
        tuple(sorted(rows, key=lambda row: row.path)),
        dict(sorted(bookies.items())),
        tuple(
            owned_directory
            for directories in directories_by_owner.values()
            for owned_directory in directories.values()
        ),
    )


def _bookie_id_of_place(place: FoundPlace, known_ids: Set[str], cookies: Sequence[Cookie]) -> str | None:
    if place.names_bookie:
        return place.name
    candidate_ids = {
        known_id for known_id in known_ids if place.name in (known_id, known_id.replace(":", "_"))
    }
    cookie_counts = Counter(cookie.bookie_id for cookie in cookies)
    if not candidate_ids:
        # The cluster no longer knows the id, but a directory is named after it.
        candidate_ids = {name for name in cookie_counts if name.replace(":", "_") == place.name}
    if len(candidate_ids) <= 1:
        return next(iter(candidate_ids), None)
    # Two ids have the same written form: choose the one that most cookies here name.
    most_frequent_ids = Counter({name: cookie_counts[name] for name in candidate_ids}).most_common(2)
    return most_frequent_ids[0][0] if most_frequent_ids[0][1] > most_frequent_ids[1][1] else None


def _directory_owner(place_id: str | None, cookie: Cookie | None, known_ids: Set[str]) -> str | None:
    if cookie is not None and (cookie.bookie_id in known_ids or place_id is None):
        return cookie.bookie_id
    return place_id


def _directory_row(owner: str | None, directory: OwnedDirectory, paths: BookiePaths) -> AttributedDirectory:
    cookie = directory.cookie
    return AttributedDirectory(
        place=directory.place_bookie_id,
        path=directory.found_directory.path,
        role=paths.role_by_path.get(directory.found_directory.path, "unknown"),
        owner=owner,
        cookie_bookie_id=cookie.bookie_id if cookie else None,
        instance_id=cookie.instance_id if cookie else None,
        index_time=_mark_time(directory, paths),
        damage=directory.version_damage,
        layout=cookie.layout if cookie else None,
        journal_dirs=cookie.journal_dirs if cookie else None,
        ledger_dirs=cookie.ledger_dirs if cookie else None,
        index_dirs=cookie.index_dirs if cookie else None,
        version_absent=directory.found_directory.version_absent,
        empty=directory.found_directory.empty,
        configured=_configured_path(cookie, directory.found_directory.parts_in_place) if cookie else None,
    )


def _mark_time(directory: OwnedDirectory, paths: BookiePaths) -> int | None:
    """Return a time (ms) up to which the index has all entries, according to a directory's greatest lastMark.

    Returns None if the directory has no lastMark, or if no evidence dates it.
    """
    if not directory.found_directory.marks:
        return None
    journals = [
        paths.directory_by_path[path].found_directory
        for path in paths.journal_paths
        if path in paths.directory_by_path
    ]
    # With several journals it is not known into which one the greatest mark points.
    journal_times = journals[0].journal_times if len(paths.journal_paths) == 1 and journals else ()
    greatest_mark = max(mark for _, mark in directory.found_directory.marks)
    marked_ms = directory.found_directory.marked_ms
    index_date = limit_by_index_write(
        find_mark_date(greatest_mark, marked_ms, journal_times), oldest_index_write_ms(paths), marked_ms
    )
    return None if index_date is None else index_date.time_ms


def _configured_path(cookie: Cookie, parts_below_place: Sequence[str]) -> str | None:
    """Return the path in a directory's own cookie that shares the most parts with the directory's path.

    Parts are counted from the end. Return None if several paths share this number of parts, or if no path
    shares any part.
    """
    paths = dict.fromkeys((*cookie.journal_paths, *cookie.ledger_dirs, *(cookie.index_dirs or ())))
    shared_part_counts = {path: count_shared_parts(path_parts(path), parts_below_place) for path in paths}
    most_shared_parts = max(shared_part_counts.values(), default=0)
    best_matching_paths = [
        path
        for path, shared_part_count in shared_part_counts.items()
        if shared_part_count == most_shared_parts
    ]
    return best_matching_paths[0] if most_shared_parts and len(best_matching_paths) == 1 else None


def _bookie_from_directories(
    bookie_id: str,
    directories: Sequence[OwnedDirectory],
    paths: BookiePaths,
    gap_texts: list[str],
    instance_id: str | None,
) -> AttributedBookie:
    readable_directories, faults, absent_paths = _index_directories(paths)
    if not directories:
        faults.append("no directory with a subdirectory current/ was found at the path of this bookie")
    elif not paths.index_paths:
        faults.append("none of the bookie's directories has a readable VERSION file")
    journals = find_journals(bookie_id, paths, instance_id)
    return AttributedBookie(
        bookie_id=bookie_id,
        index_directories=tuple(readable_directories),
        read=BookieRead.READ
        if not faults
        else BookieRead.PARTIAL
        if readable_directories
        else BookieRead.UNREAD,
        reason="; ".join(faults + gap_texts) if faults else None,
        index_time=journals.index_time,
        suspect=any(_is_misplaced(bookie_id, directory, paths) for directory in directories),
        foreign_instance=_is_foreign(directories, instance_id),
        has_directory=any(directory.found_directory.has_current for directory in directories),
        journals=journals,
        absent_directories=()
        if gap_texts or paths.indexes_differ or len(absent_paths) < len(faults)
        else tuple(absent_paths),
    )


def _index_directories(paths: BookiePaths) -> tuple[list[IndexDirectory], list[str], list[str]]:
    """Return a bookie's readable index directories, faults, and absent paths.

    The faults describe the index directories that were not found or cannot be fully read. An absent path is
    the configured path of an index directory that was not found or is empty.
    """
    readable_directories: list[IndexDirectory] = []
    faults: list[str] = []
    absent_paths: list[str] = []
    has_rocksdb = any(
        paths.directory_by_path[path].found_directory.has_rocksdb
        for path in paths.index_paths
        if path in paths.directory_by_path
    )
    for position, path in enumerate(paths.index_paths):
        directory = paths.directory_by_path.get(path)
        fault = (
            paths.reason_by_path.get(path) if directory is None else _directory_fault(directory, has_rocksdb)
        )
        if fault is not None:
            faults.append(f"index directory {path}: {fault}")
            if fault == NOT_FOUND_REASON or (directory is not None and directory.found_directory.lacks_disk):
                absent_paths.append(path)
        if directory is not None and directory.found_directory.has_current:
            found_directory, storage = directory.found_directory, ROCKSDB if has_rocksdb else INDEX_FILES
            if found_directory.has_rocksdb or not has_rocksdb:
                readable_directories.append(
                    IndexDirectory.from_version(
                        found_directory.path,
                        found_directory.version,
                        storage,
                        position,
                        len(paths.index_paths),
                    )
                )
    return readable_directories, faults, absent_paths


def _is_foreign(directories: Sequence[OwnedDirectory], instance_id: str | None) -> bool:
    """Return whether all cookies of a bookie have the instance id of a different cluster."""
    instance_ids = {directory.cookie.instance_id for directory in directories if directory.cookie is not None}
    return instance_id is not None and bool(instance_ids) and not instance_ids & {None, instance_id}


def _directory_fault(directory: OwnedDirectory, has_rocksdb: bool) -> str | None:
    if has_rocksdb and not directory.found_directory.has_rocksdb:
        path = directory.found_directory.path
        return f"{path} has no DbLedgerStorage index, but other directories of this bookie have one"
    if directory.cookie is None:
        return f"{directory.found_directory.path} has no readable VERSION file: {directory.version_damage}"
    return None


def _is_misplaced(bookie_id: str, directory: OwnedDirectory, paths: BookiePaths) -> bool:
    # A journal has no index, so its place affects no verdict.
    if paths.role_by_path.get(directory.found_directory.path) == "journal":
        return False
    is_foreign_cookie = directory.cookie is not None and directory.cookie.bookie_id != bookie_id
    return is_foreign_cookie or directory.place_bookie_id not in (None, bookie_id)
