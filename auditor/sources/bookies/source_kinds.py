"""The kinds of ``--bookies`` sources: bookies' directories, collections, and running bookies.

/mnt/bookies            a directory with one sub-directory per bookie
bookies.toml            an inventory: the paths of each bookie's directories
/collected/bk-a         a collection, which `bkaudit collect` wrote
/collected              a directory that contains collections
'/collected/*/monday'   a glob pattern that matches collections
s3://bucket/collected   one of the previous three on a different file system
rpc:                    the registered bookies, which the program asks over the network
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from auditor.errors import UsageError, path_error
from auditor.sources.bookies.collections.collection import MANIFEST
from auditor.sources.file_systems import run_files
from auditor.sources.regular_file import is_directory, visible_path

RPC_PREFIX = "rpc:"
_GLOB_CHARACTERS = frozenset("*?[")
_FIRST_COLLECTION_FILE = "places/part-00000.parquet"
"""The first file that `bkaudit collect` writes.

A directory with this file and no manifest is an unfinished collection.
"""


@dataclass(frozen=True, slots=True)
class BookieSources:
    """The ``--bookies`` sources, divided by kind. Each kind keeps the given order.

    Attributes:
        directories: Directories of bookies, and inventory files.
            `auditor.sources.bookies.places.find_places` reads both.
        collections: The path or URI of each collection.
        rpc: Whether to ask running bookies.
    """

    directories: tuple[str, ...]
    collections: tuple[str, ...]
    rpc: bool


def split_sources(sources: Sequence[str]) -> BookieSources:
    """Divide the sources by kind. An unfinished collection also counts as a collection.

    Raises:
        UsageError: a source does not exist or is invalid.

    >>> split_sources(["rpc:"])
    BookieSources(directories=(), collections=(), rpc=True)
    >>> split_sources(["/no/such/place"])
    Traceback (most recent call last):
    ...
    auditor.errors.UsageError: --bookies /no/such/place: no such directory or file
    """
    directories: list[str] = []
    collections: list[str] = []
    for source in sources:
        if source.startswith(RPC_PREFIX):
            if source != RPC_PREFIX:
                raise UsageError(
                    f"--bookies {source}: nothing may follow rpc:, which asks all registered bookies"
                )
            continue
        try:
            source_collections = _find_collections(source)
        except OSError as error:
            # str(error) of pyarrow would name a file inside the source.
            error_text = os.strerror(error.errno) if error.errno else str(error)
            raise path_error(error, f"--bookies {source}: {error_text}") from error
        except pa.ArrowException as error:
            raise UsageError(f"--bookies {source}: {error}") from error
        if source_collections is None:
            directories.append(source)
        else:
            collections += source_collections
    return BookieSources(tuple(directories), tuple(dict.fromkeys(collections)), RPC_PREFIX in sources)


def _find_collections(source: str) -> list[str] | None:
    """Return the collections in a source. None if the source is a local path without collections."""
    is_local = "://" not in source
    location = str(Path(source).absolute()) if is_local else source.rstrip("/")
    files, base_path, source_type = _classify_location(location)
    if source_type == fs.FileType.NotFound and _GLOB_CHARACTERS & set(location):
        collection_paths = [path for path in _expand_glob(location) if _select_collections([path])]
        if not collection_paths:
            raise UsageError(f"--bookies {source}: no collection matches this pattern")
        return collection_paths
    if source_type == fs.FileType.NotFound:
        raise UsageError(f"--bookies {source}: no such directory or file")
    if source_type == fs.FileType.Directory:
        if _select_collections([location]):
            return [location]
        subdirectory_names = _list_directory_names(files, base_path)
        if collection_paths := _select_collections_if_readable(
            [f"{location}/{name}" for name in subdirectory_names]
        ):
            return collection_paths
    if not is_local:
        raise UsageError(
            f"--bookies {source}: neither a collection nor a directory of collections. "
            "Pass bookies' own directories as a local path"
        )
    return None


def _classify_location(location: str) -> tuple[Any, str, fs.FileType]:
    if _GLOB_CHARACTERS & set(location) and "://" in location:
        # `_expand_glob` resolves a glob level by level. Parsed as a URI it could fail.
        return None, "", fs.FileType.NotFound
    files, base_path = run_files(location)
    return files, base_path, files.get_file_info(base_path).type


def _select_collections(paths: list[str]) -> list[str]:
    """Return the paths that are collections, finished or not. All paths must be on the same file system."""
    if not paths:
        return []
    files, _ = run_files(paths[0])
    marker_paths = [
        f"{run_files(path)[1]}/{name}" for path in paths for name in (MANIFEST, _FIRST_COLLECTION_FILE)
    ]
    is_file = [file_info.type == fs.FileType.File for file_info in files.get_file_info(marker_paths)]
    return [
        path
        for path, *has_markers in zip(paths, is_file[::2], is_file[1::2], strict=True)
        if any(has_markers)
    ]


def _select_collections_if_readable(paths: list[str]) -> list[str]:
    """Return the paths that are collections.

    If a directory cannot be listed, and no other directory is a collection, return an empty list. The
    unreadable directory may belong to a bookie. In that case, the audit later reports that it could not be
    read.

    Raises:
        OSError: a directory cannot be listed, and another directory is a collection.
    """
    try:
        return _select_collections(paths)
    except OSError:
        if any(map(_is_collection, paths)):
            raise
        return []


def _is_collection(path: str) -> bool:
    try:
        return bool(_select_collections([path]))
    except OSError:
        return False


def _list_directory_names(files: Any, base_path: str) -> list[str]:
    if files.type_name == "local":  # pyarrow fails for a directory with a name that is not UTF-8
        with os.scandir(base_path) as directory_entries:
            names = [
                directory_entry.name for directory_entry in directory_entries if is_directory(directory_entry)
            ]
        return sorted(name for name in names if visible_path(name) == name)
    file_infos = files.get_file_info(fs.FileSelector(base_path))
    return sorted(file_info.base_name for file_info in file_infos if file_info.type == fs.FileType.Directory)


def _expand_glob(pattern: str) -> list[str]:
    """Return the directories that match a glob pattern, sorted. Each part of the path follows shell rules."""
    parts = pattern.split("/")
    first_glob_part = next(
        path_part_number for path_part_number, part in enumerate(parts) if _GLOB_CHARACTERS & set(part)
    )
    matched_prefixes = ["/".join(parts[:first_glob_part])]
    for part in parts[first_glob_part:]:
        if not _GLOB_CHARACTERS & set(part):
            matched_prefixes = [f"{parent}/{part}" for parent in matched_prefixes]
            continue
        matching_paths = []
        for prefix in matched_prefixes:
            files, base_path = run_files(prefix or "/")
            if files.get_file_info(base_path).type == fs.FileType.Directory:
                names = fnmatch.filter(_list_directory_names(files, base_path), part)
                matching_paths += [f"{prefix}/{name}" for name in names if not name.startswith(".")]
        matched_prefixes = matching_paths
    return matched_prefixes
