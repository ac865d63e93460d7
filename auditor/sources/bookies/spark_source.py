"""A Spark data source that reads the index of every bookie (``bookkeeper_indexes``).

An audit gets the bookies of a cluster from its metadata. It records separately how completely it read each
bookie. But a user of this data source sees only rows of ``availability``. Therefore, the data source adds
rows with state ``gap``. There is one for each bookie that was not read completely. There is also one for each
directory whose bookie is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.errors import UsageError
from auditor.model.cookie import Cookie
from auditor.model.states import BookieRead, IndexState
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.owners import Attribution, attribute_directories
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import IndexPart, plan_parts
from auditor.sources.bookies.places import FoundPlace, find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.spark_source import TableSource
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store

FORMAT = "bookkeeper_indexes"
OPTIONS = ("bookies", "metadata", "credentials", "tasks")
DEFAULT_TASKS = 8
"""Default number of tasks that read the files of all bookies."""


class UnreadPath(NamedTuple):
    """A path that could not be read completely. ``bookie_id`` is None if the path's bookie is unknown."""

    bookie_id: str | None
    path: str
    reason: str


class IndexSearchResult(NamedTuple):
    """The parts of the indexes to read, and the paths that cannot be read, for the given `OPTIONS`."""

    index_parts: list[IndexPart]
    unread_paths: list[UnreadPath]


def find_indexes(options: Mapping[str, str]) -> IndexSearchResult:
    """Find the bookies in the option ``bookies``, and divide their indexes into about ``tasks`` parts.

    ``bookies`` is a directory with one sub-directory per bookie, an inventory file, or a JSON list of such
    paths. The ids of the bookies come from their VERSION files, and from the option ``metadata`` if it is
    given.

    >>> find_indexes({"bookies": "/no/such/place"})
    Traceback (most recent call last):
    auditor.errors.UsageError: --bookies /no/such/place: no such directory or file

    Raises:
        UsageError: an option is unknown or invalid.
        StoreError: the metadata cannot be read.
    """
    for option in options:
        if option not in OPTIONS:
            raise UsageError(f"{FORMAT}: {option}: no such option. Valid options: {', '.join(OPTIONS)}")
    if not options.get("bookies"):
        raise UsageError(f"{FORMAT}: set the option bookies to a directory with one sub-directory per bookie")
    bookie_places = find_places(_parse_directories(options["bookies"]))
    # A cookie that cannot be read names no bookie; its directory's row has the reason.
    cookies = [
        directory.cookie[0] for bookie_place in bookie_places for directory in bookie_place.directories
    ]
    cookie_ids = {cookie.bookie_id for cookie in cookies if cookie is not None}
    store = _StoreIdentities()
    if uri := options.get("metadata"):
        store = _read_store_identities(
            uri, StoreOptions(credentials=credentials_file(options.get("credentials")))
        )
    attribution = attribute_directories(
        bookie_places, cookie_ids | store.ids, store.cookies, store.instance_id
    )
    bookie_directories = [(name, bookie.index_directories) for name, bookie in attribution.bookies.items()]
    return IndexSearchResult(
        plan_parts(bookie_directories, _parse_task_count(options)),
        _find_unread_paths(bookie_places, attribution),
    )


def make_unread_rows(unread_paths: Sequence[UnreadPath]) -> pa.RecordBatch:
    """Return one row of ``availability`` with state ``gap`` for each unread path."""
    rows = [{"state": IndexState.GAP, **unread_path._asdict()} for unread_path in unread_paths]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class _StoreIdentities(NamedTuple):
    """The bookie ids, the cookies and the instance id in a metadata store."""

    ids: frozenset[str] = frozenset()
    cookies: Mapping[str, Cookie] = {}
    instance_id: str | None = None


def _read_store_identities(uri: str, options: StoreOptions) -> _StoreIdentities:
    with closing(open_store(uri, options)) as store:
        cluster_nodes = store.cluster().nodes
    names_by_parent: dict[str, list[str]] = {}
    for path in cluster_nodes:
        parent, _, name = path.rpartition("/")
        names_by_parent.setdefault(parent, []).append(name)
    cookies = {
        name: cookie_codec.read(cluster_nodes[f"cookies/{name}"].data)[0]
        for name in names_by_parent.get("cookies", [])
    }
    registered_ids = {
        *names_by_parent.get("available", []),
        *names_by_parent.get("available/readonly", []),
    } - {"readonly"}
    instance_node = cluster_nodes.get("INSTANCEID")
    return _StoreIdentities(
        frozenset(registered_ids | set(cookies)),
        {name: cookie for name, cookie in cookies.items() if cookie is not None},
        instance_node.data.decode("utf-8", "replace") if instance_node else None,
    )


def _find_unread_paths(bookie_places: Sequence[FoundPlace], attribution: Attribution) -> list[UnreadPath]:
    paths_by_owner: dict[str | None, list[str]] = {}
    for directory in attribution.directories:
        paths_by_owner.setdefault(directory.owner, []).append(directory.path)
    unread_paths = [
        UnreadPath(name, min(paths_by_owner.get(name, [""])), bookie.reason or bookie.read)
        for name, bookie in attribution.bookies.items()
        if bookie.read != BookieRead.READ
    ]
    unread_paths += [
        UnreadPath(None, row.path, row.damage or "cannot determine which bookie this directory belongs to")
        for row in attribution.directories
        if row.owner is None
    ]
    attributed_paths = {path for paths in paths_by_owner.values() for path in paths}
    directory_names = {name.replace(":", "_") for name in attribution.bookies} | set(attribution.bookies)
    for bookie_place in bookie_places:
        if bookie_place.name not in directory_names and attributed_paths.isdisjoint(
            found_directory.path for found_directory in bookie_place.directories
        ):
            unread_paths += [UnreadPath(None, path, reason) for path, reason in bookie_place.gaps]
    return unread_paths


def _parse_directories(option_text: str) -> tuple[str, ...]:
    """Return the paths in the option ``bookies``.

    Several paths must be given as a JSON list, because a path may contain commas.
    """
    paths = [option_text]
    if option_text.startswith("["):
        try:
            paths = json.loads(option_text)
        except ValueError as error:
            raise UsageError(
                f"{FORMAT}: bookies: neither a path nor a JSON list of paths: {error}"
            ) from error
        if not paths or not all(isinstance(path, str) for path in paths):
            raise UsageError(f"{FORMAT}: bookies: not a JSON list of strings")
    sources = split_sources(paths)
    if sources.collections:
        raise UsageError(
            f"{FORMAT}: bookies: {sources.collections[0]} is a collection. Read its availability as Parquet"
        )
    if sources.rpc:
        raise UsageError(
            f"{FORMAT}: bookies: rpc: works only in an audit, which knows the ledgers from the metadata"
        )
    return sources.directories


def _parse_task_count(options: Mapping[str, str]) -> int:
    option_text = options.get("tasks", str(DEFAULT_TASKS))
    if not option_text.isdecimal() or int(option_text) < 1:
        raise UsageError(f"{FORMAT}: tasks: {option_text!r} is not a number of 1 or more")
    return int(option_text)


class IndexSource(TableSource):
    """The table ``availability``: the entries that each bookie holds of each ledger, read from its index.

    Options:
        bookies: A directory with one sub-directory per bookie, an inventory file, or a JSON list of such
            paths.
        metadata: A metadata URI. The metadata may contain ids of bookies that no VERSION file in the
            directories names.
        credentials: The same as for `auditor.sources.metadata.spark_source`.
        tasks: The approximate number of tasks that read the files (default 8).

    Use: ``spark.read.format("bookkeeper_indexes").option("bookies", "/mnt/bookies").load()``
    """

    columns = SCHEMA
    format_name = FORMAT

    def reader(self, schema: StructType) -> IndexSourceReader:
        """Return a reader of the indexes that the options specify."""
        return IndexSourceReader(*find_indexes(dict(self.options)))


@dataclass(frozen=True)
class IndexPartition(InputPartition):
    """The part of the index that one task reads."""

    index_part: IndexPart


@dataclass(frozen=True)
class UnreadPartition(InputPartition):
    """The unread paths. One task reports them as rows."""

    unread_paths: tuple[UnreadPath, ...]


class IndexSourceReader(DataSourceReader):
    """The reader that Spark sends to its workers. It contains only values, and no open files."""

    def __init__(self, index_parts: Sequence[IndexPart], unread_paths: Sequence[UnreadPath]) -> None:
        self._index_parts = index_parts
        self._unread_paths = tuple(unread_paths)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each part of the indexes, and one for unread paths if there are any."""
        unread_partitions = [UnreadPartition(self._unread_paths)] if self._unread_paths else []
        return [*(IndexPartition(index_part) for index_part in self._index_parts), *unread_partitions]

    @staticmethod
    def read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition.

        This method is static. Otherwise, each task would receive the reader with all its parts.
        """
        # Without parts, Spark passes an empty partition of its own.
        if isinstance(partition, IndexPartition):
            yield from read_part(partition.index_part)
        elif isinstance(partition, UnreadPartition):
            yield make_unread_rows(partition.unread_paths)
