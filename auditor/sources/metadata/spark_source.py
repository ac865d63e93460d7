"""Spark data sources for the ledgers and the under-replication marks in a metadata store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from auditor.errors import UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.earlier_ledgers import ComparableStore, EarlierLedgers
from auditor.sources.metadata.ledger_rows import LEDGER_VALUES, LEDGERS, REREAD_LEDGERS, ledger_rows
from auditor.sources.metadata.mark_rows import MARKS, mark_rows
from auditor.sources.metadata.store import MetadataStore, Part, StoreOptions, Tree
from auditor.sources.metadata.stores import choose_layout, open_store
from auditor.spark.part_tables import spark_schema

_NUMBER_OPTIONS: dict[str, tuple[type[int] | type[float], float]] = {
    "rate_limit": (float, 0),
    "in_flight": (int, 1),
    "batch": (int, 1),
    "timeout_s": (float, 0.1),
    "parts": (int, 1),
    "at_once": (int, 1),
    "revision": (int, 1),
    "revision_time": (int, 0),
}
"""Type and smallest value of each numeric option."""

_READ_OPTION_NAMES = ("credentials", *_NUMBER_OPTIONS)


class ReadingOptions(NamedTuple):
    """Options for reading a store: its limits, the number of parts, and the number of concurrent tasks.

    ``max_tasks`` is None if the number of concurrent tasks is not limited. All parts may then be read at
    the same time.
    """

    store: StoreOptions
    parts: int
    max_tasks: int | None

    def limits_per_task(self, part_count: int) -> StoreOptions:
        """Return the limits for each of ``part_count`` tasks. Concurrent tasks share the rate limit."""
        task_count = part_count if self.max_tasks is None else min(self.max_tasks, part_count)
        return replace(self.store, rate_limit=self.store.rate_limit / max(1, task_count))


def reading_options(source: str, settings: Mapping[str, str], names: Sequence[str]) -> ReadingOptions:
    """Parse those options of a data source that control how it reads a store.

    Args:
        source: name of the data source, for messages.
        settings: all options of the data source.
        names: names of the other options that the data source accepts.

    Raises:
        UsageError: an option is unknown, or has an invalid value.
    """
    option_names = (*names, *_READ_OPTION_NAMES)
    for option in settings:
        if option not in option_names:
            raise UsageError(
                f"{source}: {option}: unknown option; valid options are {', '.join(option_names)}"
            )
    number_options = {
        option: _parse_number(source, option, settings[option])
        for option in _NUMBER_OPTIONS
        if option in settings
    }
    parts = int(number_options.pop("parts", 8))
    max_tasks = int(number_options.pop("at_once")) if "at_once" in number_options else None
    credentials = credentials_file(settings.get("credentials"))
    options = replace(StoreOptions(credentials=credentials), **number_options)  # type: ignore[arg-type]  # by _NUMBER_OPTIONS
    return ReadingOptions(options, parts, max_tasks)


class TableSource(DataSource):
    """Base class of the Spark data sources whose columns are those of one table."""

    columns: pa.Schema
    format_name: str

    @classmethod
    def name(cls) -> str:
        """Return the name of the data source, for Spark and for messages."""
        return cls.format_name

    def schema(self) -> StructType:
        """Return the columns. The comment of each column describes it."""
        return spark_schema(self.columns)


class StoreSource(TableSource):
    """Base class of the data sources that read a metadata store.

    Options:
        metadata: a metadata URI; required.
        layout: one of the values of `LayoutKind`, if the caller knows the layout. By default, the store's
            own LAYOUT decides.
        credentials: path of a credentials file that every worker can read.
        parts: approximate number of tasks that read the store; default 8.
        rate_limit: number of znodes per second that all tasks together may read.
        at_once: number of tasks that share the rate; default: the number of parts.
        in_flight, batch, timeout_s, revision, revision_time: see `StoreOptions`.
        earlier: the ledgers of an earlier run on a running etcd (`EarlierLedgers.to_json`). With this
            option, the source reads only the changes since that run.
    """

    tree: Tree

    def reader(self, schema: StructType) -> StoreReader:
        """Return a reader for the options.

        Raises:
            UsageError: the option ``metadata`` is missing, an option is unknown, or a value is invalid.
        """
        name, settings = self.name(), dict(self.options)
        store_reading_options = reading_options(name, settings, ("metadata", "layout", "earlier"))
        uri = settings.get("metadata")
        if not uri:
            raise UsageError(f"{name}: set the option metadata, for example to zk://host:2181/ledgers")
        layout = settings.get("layout")
        if layout is not None and layout not in list(LayoutKind):
            raise UsageError(f"{name}: layout: {layout!r} must be one of {', '.join(LayoutKind)}")
        chosen_layout = LayoutKind(layout) if layout is not None else None
        earlier_ledgers = EarlierLedgers.from_json(settings["earlier"]) if "earlier" in settings else None
        return StoreReader(
            uri, chosen_layout, self.tree, self.columns, store_reading_options, earlier_ledgers
        )


def _parse_number(source: str, option: str, number_text: str) -> int | float:
    parse_number, min_value = _NUMBER_OPTIONS[option]
    try:
        value = parse_number(number_text)
    except ValueError:
        number_type_text = "whole number" if parse_number is int else "number"
        raise UsageError(f"{source}: {option}: {number_text!r} is not a {number_type_text}") from None
    # Not `value < least`, so that NaN is refused too.
    if not value >= min_value:
        raise UsageError(f"{source}: {option}: {number_text} is below {min_value:g}")
    return value


class LedgerSource(StoreSource):
    """All ledgers in a store: their decoded metadata, and the entries that each bookie should hold.

    Use: ``spark.read.format("bookkeeper_ledgers").option("metadata", uri).load()``. `StoreSource` describes
    the options.
    """

    tree = Tree.LEDGERS
    columns = LEDGERS
    format_name = "bookkeeper_ledgers"


class LedgerRereadSource(StoreSource):
    """The ledgers at a second scan: which ledgers exist now, and their versions.

    Use: ``spark.read.format("bookkeeper_ledgers_again")``, with the options of `LedgerSource`. The rows are
    those of `LedgerSource`, but they have fewer columns. This is a separate data source, because Spark does
    not tell a data source which columns a query needs.
    """

    tree = Tree.LEDGERS
    columns = REREAD_LEDGERS
    format_name = "bookkeeper_ledgers_again"


class LedgerValueSource(StoreSource):
    """The ledgers of a store with their stored bytes, for a comparison of two stores.

    The source is not registered with Spark, because the bytes contain the passwords of ledgers. These
    passwords must not get into any table.
    """

    tree = Tree.LEDGERS
    columns = LEDGER_VALUES
    format_name = "bookkeeper_ledger_values"


class MarkSource(StoreSource):
    """All under-replication marks and locks in a store.

    Use: ``spark.read.format("bookkeeper_marks").option("metadata", uri).load()``. `StoreSource` describes
    the options.
    """

    tree = Tree.MARKS
    columns = MARKS
    format_name = "bookkeeper_marks"


@dataclass(frozen=True)
class StorePartition(InputPartition):
    """The work of one task: its part of the store, the store's layout, and its share of the limits."""

    part: Part
    layout: LayoutKind
    task_options: StoreOptions


@dataclass(frozen=True)
class StoreReader(DataSourceReader):
    """A Spark reader of one tree of a store, such as all ledgers or all under-replication marks.

    Spark pickles the reader, so it contains only plain values. Tasks open the connections.
    """

    uri: str
    layout: LayoutKind | None
    tree: Tree
    columns: pa.Schema
    reading_options: ReadingOptions
    earlier_ledgers: EarlierLedgers | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each part of the store."""
        with closing(open_store(self.uri, self.reading_options.store)) as store:
            return self.partitions_of(store)

    def partitions_of(self, store: MetadataStore) -> Sequence[InputPartition]:
        """Return the partitions of a store that the caller has already opened.

        If the store is a file, the open store has already passed over it. So this method avoids a second
        pass.
        """
        layout = self.layout or choose_layout(store, store.cluster())[0]
        if self.earlier_ledgers is None:
            parts = store.parts(self.tree, layout, self.reading_options.parts)
        else:
            assert isinstance(store, ComparableStore)
            parts = store.parts_since(self.earlier_ledgers, self.reading_options.parts)
        return self.partitions_of_parts(parts, layout)

    def partitions_of_parts(self, parts: Sequence[Part], layout: LayoutKind) -> Sequence[StorePartition]:
        """Return one partition for each part in ``parts``. All partitions share the limits."""
        task_options = self.reading_options.limits_per_task(len(parts))
        return [StorePartition(part, layout, task_options) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the decoded rows of one part, batch by batch."""
        if not isinstance(partition, StorePartition):
            return  # without parts Spark passes an empty partition of its own
        with closing(open_store(self.uri, partition.task_options)) as store:
            if self.earlier_ledgers is not None:
                assert isinstance(store, ComparableStore)
                yield from store.rows_since(partition.part, self.columns)
                return
            for batch in store.read(partition.part):
                if self.tree is Tree.LEDGERS:
                    yield ledger_rows(batch, store.root, partition.layout, self.columns)
                else:
                    yield mark_rows(batch, store.root)
