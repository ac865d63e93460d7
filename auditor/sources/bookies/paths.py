"""The roles of a bookie's directories (journal, ledger or index), and their configured order.

The VERSION files of a bookie contain the paths of its directories on the bookie's own machine, for example
``/data/bk3/ledgers0``. On this machine, the directories are below the bookie's place. A place is a
directory or an inventory entry (`auditor.sources.bookies.places`).

The program matches each configured path with the directory that shares the most path parts with it. It counts
the parts from the end. If two directories share the same number of parts, the path stays unmatched and gets a
reason. The same applies if no directory shares any part. The program does not guess. With a wrong guess, it
could report entries of a different directory as lost.

If the VERSION files of a bookie disagree, the program expects every directory that any of them names. It
does no harm to expect a disk that does not exist. But if the program did not expect an existing disk, it
would report the entries on that disk as lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from auditor.model.cookie import Cookie
from auditor.sources.bookies.places import DeclaredRole, FoundDirectory

DirectoryKey = TypeVar("DirectoryKey")

NOT_FOUND_REASON = "no such directory was found"
"""The reason for a path that no directory resembles."""


@dataclass(frozen=True, slots=True)
class PathMatches(Generic[DirectoryKey]):
    """The directory of each matched path. ``reason_by_path`` says why the other paths match no directory."""

    directory_by_path: dict[str, DirectoryKey]
    reason_by_path: dict[str, str]


def path_parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path.

    >>> path_parts("/data/bk3/ledgers0/")
    ('data', 'bk3', 'ledgers0')
    """
    return tuple(part for part in path.split("/") if part not in ("", "."))


def count_shared_parts(path: Sequence[str], directory_parts: Sequence[str]) -> int:
    """Return the number of parts that two paths share, counted from the end.

    >>> count_shared_parts(("data", "disk1", "ledgers"), ("bk1", "disk1", "ledgers"))
    2
    """
    shared_part_count = 0
    for part, directory_part in zip(reversed(path), reversed(directory_parts), strict=False):
        if part != directory_part:
            break
        shared_part_count += 1
    return shared_part_count


def match_paths(
    paths: Sequence[str], parts_by_directory: Mapping[DirectoryKey, Sequence[str]]
) -> PathMatches[DirectoryKey]:
    """Match the paths in a cookie with directories.

    Args:
        paths: The paths in a cookie.
        parts_by_directory: The path parts of each directory. They begin with the name of its place.

    Returns:
        The matches. A directory matches at most one path: the one that shares the most parts with it,
        counted from the end.

    >>> found = {1: ("bk1", "disk1", "ledgers"), 2: ("bk1", "disk2", "ledgers")}
    >>> match_paths(["/mnt/disk1/ledgers", "/mnt/disk2/ledgers"], found).directory_by_path
    {'/mnt/disk1/ledgers': 1, '/mnt/disk2/ledgers': 2}
    >>> match_paths(["/mnt/ledgers"], found).reason_by_path
    {'/mnt/ledgers': 'bk1/disk1/ledgers and bk1/disk2/ledgers could both be this directory'}
    """
    best_match_by_path: dict[str, tuple[int, DirectoryKey]] = {}
    reason_by_path: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        shared_part_counts = {
            directory_key: count_shared_parts(path_parts(path), directory_parts)
            for directory_key, directory_parts in parts_by_directory.items()
        }
        most_shared_parts = max(shared_part_counts.values(), default=0)
        best_matching_keys = [
            key for key, part_count in shared_part_counts.items() if part_count == most_shared_parts
        ]
        if most_shared_parts == 0:
            reason_by_path[path] = NOT_FOUND_REASON
        elif len(best_matching_keys) > 1:
            rival_directories = sorted("/".join(parts_by_directory[key]) for key in best_matching_keys)
            reason_by_path[path] = (
                f"{rival_directories[0]} and {rival_directories[1]} could both be this directory"
            )
        else:
            best_match_by_path[path] = (most_shared_parts, best_matching_keys[0])
    key_by_path: dict[str, DirectoryKey] = {}
    for path, (shared_part_count, key) in best_match_by_path.items():
        rival_paths = [
            rival_path
            for rival_path, (_, rival_key) in best_match_by_path.items()
            if rival_key == key and rival_path != path
        ]
        if all(best_match_by_path[rival_path][0] < shared_part_count for rival_path in rival_paths):
            key_by_path[path] = key
        else:
            reason_by_path[path] = f"{'/'.join(parts_by_directory[key])} could also be {rival_paths[0]}"
    return PathMatches(key_by_path, reason_by_path)


PathTuple = tuple[str, ...]


@dataclass(slots=True)
class OwnedDirectory:
    """A directory and its attribution to a bookie.

    Attributes:
        found_directory: The directory as it was found.
        cookie: The decoded VERSION file. None if it cannot be read.
        version_damage: The reason why the VERSION file cannot be read. None if it can be read.
        place_bookie_id: The bookie id of the place that contains the directory. None if the place has no id.
        declared_roles: The roles of the directory according to inventories.
    """

    found_directory: FoundDirectory
    cookie: Cookie | None
    version_damage: str | None
    place_bookie_id: str | None
    declared_roles: list[DeclaredRole] = field(default_factory=list)

    @property
    def is_bookie_directory(self) -> bool:
        """Whether the directory counts as a bookie's directory even if no cookie names it."""
        return self.found_directory.has_current or bool(self.declared_roles)


def match_directories(
    paths: Sequence[str], owned_directories: Iterable[OwnedDirectory]
) -> PathMatches[OwnedDirectory]:
    """Match paths with directories that contain a ``current``, then unmatched paths with other directories.

    The empty mount point of a disk has no ``current``, but may have the same name as a real directory.
    """
    directory_by_path = {directory.found_directory.path: directory for directory in owned_directories}
    matches: dict[str, OwnedDirectory] = {}
    reason_by_path = dict.fromkeys(paths, "")
    for has_current in (True, False):
        candidate_parts = {
            path: directory.found_directory.parts_in_place
            for path, directory in directory_by_path.items()
            if directory.found_directory.has_current is has_current
        }
        matched_paths = match_paths(tuple(reason_by_path), candidate_parts)
        matches.update(
            (path, directory_by_path[directory_key])
            for path, directory_key in matched_paths.directory_by_path.items()
        )
        reason_by_path = (
            matched_paths.reason_by_path
            if has_current
            else {path: reason_by_path[path] for path in matched_paths.reason_by_path}
        )
    return PathMatches(matches, reason_by_path)


@dataclass(frozen=True, slots=True)
class BookiePaths:
    """A bookie's configured paths by role, in configured order, and the directories that match them.

    Attributes:
        directory_by_path: The directory of each matched path.
        reason_by_path: The reason why each unmatched path has no directory.
        role_by_path: The role of each directory, by the directory's path. For a directory with several roles,
            ledger takes precedence over index, and index over journal.
        journals_differ: Whether the VERSION files contain different lists of journal directories.
        indexes_differ: Whether the VERSION files contain different lists of index directories.
    """

    journal_paths: PathTuple
    ledger_paths: PathTuple
    index_paths: PathTuple
    directory_by_path: dict[str, OwnedDirectory]
    reason_by_path: dict[str, str]
    role_by_path: dict[str, str]
    journals_differ: bool = False
    indexes_differ: bool = False


def paths_of(
    bookie_id: str | None, owned_directories: Sequence[OwnedDirectory], store_cookie: Cookie | None
) -> BookiePaths:
    """Match the paths in a bookie's cookies with the directories that are attributed to the bookie.

    Args:
        bookie_id: The id of the bookie. None for directories that belong to no bookie.
        owned_directories: The directories that are attributed to the bookie.
        store_cookie: The bookie's cookie in the metadata store, or None if the store has none. It is used
            only if none of the bookie's VERSION files parses.
    """
    cookies = _select_role_cookies(bookie_id, owned_directories, store_cookie)
    path_lists = {
        "journal": _distinct_paths(cookie.journal_paths for cookie in cookies),
        "ledger": _distinct_paths(cookie.ledger_dirs for cookie in cookies),
        "index": _distinct_paths(cookie.index_dirs or cookie.ledger_dirs for cookie in cookies),
    }
    directory_by_path, reason_by_path = _match_all_paths(path_lists, owned_directories)
    role_by_path = {
        directory.found_directory.path: declared_role.role
        for directory in owned_directories
        for declared_role in directory.declared_roles[:1]
    }
    for role in ("journal", "index", "ledger"):
        role_by_path.update(
            (directory_by_path[path].found_directory.path, role)
            for path in path_lists[role]
            if path in directory_by_path
        )
    journal_path_lists = {cookie.journal_paths for cookie in cookies}
    index_path_lists = {cookie.index_dirs or cookie.ledger_dirs for cookie in cookies}
    return BookiePaths(
        path_lists["journal"], path_lists["ledger"], path_lists["index"], directory_by_path, reason_by_path,
        role_by_path, len(journal_path_lists) > 1, len(index_path_lists) > 1,
    )  # fmt: skip


def _select_role_cookies(
    bookie_id: str | None, owned_directories: Sequence[OwnedDirectory], store_cookie: Cookie | None
) -> list[Cookie]:
    """Return the cookies whose paths the program uses.

    These are the cookies of the first group in this list that has any cookie:

    1. the bookie's own cookies on ledger and index disks
    2. all cookies on ledger and index disks
    3. all cookies on any disk
    4. the cookie in the metadata store
    """
    directory_cookies = [
        (directory, directory.cookie) for directory in owned_directories if directory.cookie is not None
    ]
    index_disk_cookies = [
        (directory, cookie) for directory, cookie in directory_cookies if not _is_journal(directory, cookie)
    ]
    role_cookies = [cookie for _, cookie in index_disk_cookies if cookie.bookie_id == bookie_id]
    role_cookies = (
        role_cookies
        or [cookie for _, cookie in index_disk_cookies]
        or [cookie for _, cookie in directory_cookies]
    )
    return role_cookies or ([store_cookie] if store_cookie is not None else [])


def _is_journal(directory: OwnedDirectory, cookie: Cookie) -> bool:
    """Return whether a directory is only a journal.

    Its roles in an inventory decide. Without such roles, the paths in its cookie decide.
    """
    if directory.declared_roles:
        return all(declared_role.role == "journal" for declared_role in directory.declared_roles)

    def count_max_shared_parts(paths: Iterable[str]) -> int:
        return max(
            (
                count_shared_parts(path_parts(path), directory.found_directory.parts_in_place)
                for path in paths
            ),
            default=0,
        )

    return count_max_shared_parts(cookie.journal_paths) > count_max_shared_parts(
        (*cookie.ledger_dirs, *(cookie.index_dirs or ()))
    )


def _distinct_paths(path_lists: Iterable[PathTuple]) -> PathTuple:
    """Return every path of the lists once. The paths of the most frequent list come first."""
    path_lists_by_frequency = [paths for paths, _ in Counter(path_lists).most_common()]
    return tuple(dict.fromkeys(path for paths in path_lists_by_frequency for path in paths if path))


def _match_all_paths(
    path_lists: dict[str, PathTuple], owned_directories: Sequence[OwnedDirectory]
) -> tuple[dict[str, OwnedDirectory], dict[str, str]]:
    """Match paths with directories by the last parts of the paths.

    Match each remaining path with the directory that has the same role and position in an inventory. Return
    the directory of each matched path, and the reason for each unmatched path.
    """
    matched_paths = match_directories(_distinct_paths(path_lists.values()), owned_directories)
    matches, reason_by_path = matched_paths.directory_by_path, matched_paths.reason_by_path
    matched_ids = {id(directory) for directory in matches.values()}
    for path in tuple(reason_by_path):
        candidate_directories = [
            directory
            for directory in owned_directories
            if id(directory) not in matched_ids
            and any(
                len(paths := path_lists[declared_role.role]) == declared_role.of
                and paths[declared_role.position] == path
                for declared_role in directory.declared_roles
            )
        ]
        if len(candidate_directories) == 1:
            matches[path] = candidate_directories[0]
            del reason_by_path[path]
    return matches, reason_by_path
