"""Comparison of two metadata stores, which are given by their URIs.

Both stores are read once, the source first. If there are differences, each running store is read a second
time. A difference is undecided if a store's second read found another version of the record than its first
read. It is also undecided if the record was not found in an incompletely read store. All other differences
are certain.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.compare.id_generators import GeneratorDifference, compare_generators
from auditor.compare.store_side import (
    CHANGED_REASON,
    STORE_DIFFERENCES,
    StoreSide,
    TablePair,
    ledger_differences,
    mark_undecided_differences,
    open_side,
    owner_differences,
)
from auditor.errors import RunUsageError
from auditor.model.comparison import Comparison, CopyState, ItemTally, StoreDifference, StoreItem
from auditor.model.ledger_id import LayoutKind
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, SilentProgress
from auditor.runs.directory import RunDirectory
from auditor.sources.file_systems import absolute_path
from auditor.sources.metadata.credentials import credentials_file, read_credentials
from auditor.sources.metadata.stores import check_reachable, recognise
from auditor.sources.owners.applications import APPLICATIONS, OwnersUri, parse_owners_uri, sibling_tree_uri
from auditor.spark import functions as F
from auditor.spark.execution import Execution
from auditor.spark.query_plans import query_plans
from auditor.spark.session import build_session, scratch_directory
from auditor.spark.tasks import restore_task_errors, translate_run_errors
from auditor.spark.types import DataFrame, SparkSession

_MAX_GAPS_SHOWN = 20
_ORDER_COLUMNS = ("change", "item", "scope_id", "ledger_id", "path")
_ITEM_BY_NODE = {"LAYOUT": StoreItem.LAYOUT, "INSTANCEID": StoreItem.INSTANCE_ID}


@contextmanager
def compare_stores(
    source: str,
    copy: str,
    owners: tuple[str, str] | None = None,
    out: str | None = None,
    options: AuditOptions | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Comparison, DataFrame]]:
    """Compare two stores, and yield the result and the table `STORE_DIFFERENCES` to a ``with`` block.

    The table can be used only inside the block.

    Args:
        source: metadata URI of the original store.
        copy: metadata URI of its copy.
        owners: two values of ``--owners``, one for each store. None to compare the owners (such as
            topics) that are next to BookKeeper's roots.
        out: directory in which to keep the tables. It must not contain tables yet. None to use a scratch
            directory.
        options: limits and credentials.
        spark: session to use. None to build a new session.
        progress: receiver of progress reports.

    Raises:
        UsageError: a URI is invalid, or ``out`` already contains tables.
        StoreError: a store could not be read.
    """
    options = options or AuditOptions()
    read_credentials(credentials_file(options.credentials))
    for uri in (source, copy):
        recognise(uri)
        check_reachable(uri)
    owner_roots = (parse_owners_uri(owners[0]), parse_owners_uri(owners[1])) if owners else None
    with _open_directory(out) as run, translate_run_errors(run.path), ExitStack() as exit_stack:
        session = build_session(
            options.master,
            driver_memory=options.driver_memory,
            log_path=_log_path(run),
            keep_classes=True,
            user_session=spark,
        )
        exit_stack.enter_context(query_plans(session))
        cache = TableCache(Execution(session), RunStore(run), progress or SilentProgress())
        salt = secrets.randbits(62)
        source_side = exit_stack.enter_context(open_side("source", source, cache, options, salt))
        copy_side = exit_stack.enter_context(open_side("copy", copy, cache, options, salt))
        owner_pair, gap_texts = (owner_roots, ()) if owner_roots else _find_owners((source_side, copy_side))
        yield _OpenStorePair(cache, (source_side, copy_side), owner_pair, gap_texts).compare()


def _find_owners(
    sides: tuple[StoreSide, StoreSide],
) -> tuple[tuple[OwnersUri | None, OwnersUri | None] | None, tuple[str, ...]]:
    """Find the owners of ledgers (such as Pulsar topics) next to BookKeeper's roots in both stores.

    Returns:
        A pair, and a tuple of reasons. The pair has the owners' URI of the source and that of the copy. If
        only one store has owners, the URI of the other store is None. The pair itself is None if owners are
        not compared. The tuple has the reason if a store cannot show whether it has owners. Otherwise the
        tuple is empty.
    """
    for name in APPLICATIONS:
        has_owners = [side.has_owners(name) for side in sides]
        if True not in has_owners:
            continue
        if None in has_owners:
            unreadable_side = sides[has_owners.index(None)]
            return None, (
                f"owners were not compared: the {unreadable_side.name} does not show where {name} keeps "
                "owners; pass the owner stores of both sides with --owners",
            )
        source, copy = (
            sibling_tree_uri(name, side.uri) if has_owner else None
            for side, has_owner in zip(sides, has_owners, strict=True)
        )
        return (source, copy), ()
    return None, ()


@dataclass(frozen=True)
class _OpenStorePair:
    """Two open stores, and the URIs of the owners (such as topics) of their ledgers.

    ``owner_gap_texts`` has the reason why owners cannot be compared. It is empty if there is no such reason.
    """

    cache: TableCache
    sides: tuple[StoreSide, StoreSide]
    owner_uris: tuple[OwnersUri | None, OwnersUri | None] | None
    owner_gap_texts: tuple[str, ...] = ()

    @cached_property
    def _compare_generators(self) -> GeneratorDifference:
        return compare_generators(*self.sides)

    def compare(self) -> tuple[Comparison, DataFrame]:
        """Write the tables of differences. Return the counts as a `Comparison`, and the differences."""
        source, copy = self.sides
        gap_texts, notes = list(self.owner_gap_texts), []
        for side in self.sides:
            truncation_gaps = [(side.root, side.nodes.damage)] if side.nodes.damage else []
            gap_texts += [
                f"{side.name}: {path}: {reason}" for path, reason in (*truncation_gaps, *side.nodes.gaps)
            ]
            notes += [f"{side.name}: {note}" for note in side.nodes.notes]
        table_makers = [
            ("ledger_differences", self._compare_ledgers),
            ("node_differences", self._compare_nodes),
        ]
        table_makers += [("owner_differences", self._compare_owners)] if self.owner_uris else []
        result_tables = [self.cache.write_table(name, make_table) for name, make_table in table_makers]
        differences = result_tables[0]
        for rows in result_tables[1:]:
            differences = differences.unionByName(rows)
        with restore_task_errors():
            tallies = self._tally_differences(differences)
            gap_texts += self._unread_notes()
            notes += self._misplaced_notes()
            notes += [self._compare_generators.note] if self._compare_generators.note else []
        unique_gaps = tuple(dict.fromkeys(gap_texts))
        return Comparison(source.summary(), copy.summary(), tallies, unique_gaps, tuple(notes)), differences

    def _compare_ledgers(self) -> DataFrame:
        source, copy = self.sides
        table_pair = TablePair(source.read_ledgers(), copy.read_ledgers())
        cut_reasons = [side.nodes.gap_reason(side.root) for side in self.sides]
        make_table = partial(ledger_differences, table_pair, *cut_reasons)
        differences = self.cache.write_table("ledgers_unequal", make_table)
        if not self.cache.count("ledgers_unequal"):
            return differences
        return mark_undecided_differences(
            differences, StoreItem.LEDGER, source.reread_ledgers(), copy.reread_ledgers()
        )

    def _compare_owners(self) -> DataFrame:
        assert self.owner_uris is not None
        source, copy = self.sides
        table_pair = TablePair(source.read_owners(self.owner_uris[0]), copy.read_owners(self.owner_uris[1]))
        differences = self.cache.write_table("owners_unequal", lambda: owner_differences(table_pair))
        if not self.cache.count("owners_unequal"):
            return differences
        reread_owners = source.reread_owners(self.owner_uris[0]), copy.reread_owners(self.owner_uris[1])
        return mark_undecided_differences(differences, StoreItem.OWNER, *reread_owners)

    def _compare_nodes(self) -> DataFrame:
        """Return the differences in the layout, the instance id, the cookies and the id generator."""
        from pyspark.sql.pandas.types import from_arrow_schema

        source_values, copy_values = (side.read_node_values() for side in self.sides)
        rows: list[tuple[Any, ...]] = []
        for name in sorted(source_values.keys() | copy_values.keys()):
            if source_values.get(name) != copy_values.get(name) and self._is_comparable(name):
                change, reason = self._classify_difference(name, source_values, copy_values)
                rows.append(
                    (str(store_item_of(name)), str(change), None, None, name, None, reason, None, None)
                )
        if rows and any(side.live for side in self.sides):
            later_node_values = [
                side.read_node_values(is_reread=True) if side.live else side.read_node_values()
                for side in self.sides
            ]
            rows = [
                row
                if (source_values.get(row[4]), copy_values.get(row[4]))
                == (later_node_values[0].get(row[4]), later_node_values[1].get(row[4]))
                else (row[0], str(CopyState.UNDECIDED), *row[2:6], CHANGED_REASON, None, None)
                for row in rows
            ]
        if self._compare_generators.row is not None:
            rows.append(self._compare_generators.row)
        return self.cache.spark.createDataFrame(rows, from_arrow_schema(STORE_DIFFERENCES))

    def _classify_difference(
        self, name: str, source_values: Mapping[str, bytes], copy_values: Mapping[str, bytes]
    ) -> tuple[CopyState, str | None]:
        if name in source_values and name in copy_values:
            return CopyState.DIFFERENT, None
        change, lacking_side_index = (CopyState.EXTRA, 0) if name in copy_values else (CopyState.MISSING, 1)
        side = self.sides[lacking_side_index]
        path = f"{side.root}/{name}"
        for gap_path, reason in ((side.root, side.nodes.gap_reason(side.root)), *side.nodes.gaps):
            if reason is not None and (path == gap_path or path.startswith(f"{gap_path}/")):
                return CopyState.UNDECIDED, f"{gap_path}: {reason}"
        return change, None

    def _is_comparable(self, name: str) -> bool:
        """Return whether both stores should have the same bytes at the path ``name``.

        This is so for every path, except for LAYOUT if exactly one of the stores is etcd. BookKeeper's etcd
        driver and its ZooKeeper drivers write different bytes to LAYOUT.
        """
        are_etcd_layouts = [side.layout is LayoutKind.ETCD for side in self.sides]
        return name != "LAYOUT" or are_etcd_layouts[0] == are_etcd_layouts[1]

    def _tally_differences(self, differences: DataFrame) -> tuple[ItemTally, ...]:
        # A null version means that the row is absent. Cookies and single nodes have no versions: see
        # `_count_totals`.
        counts = {
            (row["item"], row["change"]): row
            for row in differences.groupBy("item", "change")
            .agg(F.count("*").alias("all"), F.count("source_version").alias("in_source"))
            .collect()
        }
        item_counts = self._count_items()
        return tuple(
            _make_tally(store_item, item_counts[store_item], counts)
            for store_item in StoreItem
            if store_item in item_counts
        )

    def _count_items(self) -> dict[StoreItem, tuple[int, int, int | None]]:
        """Return three numbers for each kind of item: in the source, in the copy, and equal in both.

        The number of equal items is None if the caller must derive it from the differences.
        """
        source, copy = self.sides
        ledgers = [side.read_ledgers() for side in self.sides]
        source_count, copy_count = (
            rows.where("status not in ('misplaced', 'gap')").count() for rows in ledgers
        )
        item_counts: dict[StoreItem, tuple[int, int, int | None]] = {
            StoreItem.LEDGER: (source_count, copy_count, None)
        }
        if self.owner_uris:
            owners = [side.read_owners(uri) for side, uri in zip(self.sides, self.owner_uris, strict=True)]
            source_count, copy_count = (rows.where("status = 'ok'").count() for rows in owners)
            item_counts[StoreItem.OWNER] = (source_count, copy_count, None)
        source_values, copy_values = source.read_node_values(), copy.read_node_values()
        for store_item in (StoreItem.COOKIE, StoreItem.LAYOUT, StoreItem.INSTANCE_ID):
            source_names, copy_names = (
                {name for name in side if store_item_of(name) is store_item}
                for side in (source_values, copy_values)
            )
            equal_count = sum(source_values[name] == copy_values[name] for name in source_names & copy_names)
            if source_names | copy_names and all(map(self._is_comparable, source_names | copy_names)):
                item_counts[store_item] = (len(source_names), len(copy_names), equal_count)
        if self._compare_generators.note is None:
            item_counts[StoreItem.ID_GENERATOR] = (1, 1, int(self._compare_generators.row is None))
        return item_counts

    def _unread_notes(self) -> Iterator[str]:
        """Yield texts about paths that could not be read: paths of ledgers, and of owners (such as topics).

        A text names the first such path of a store. It gives the number of paths if there are more.
        """
        for side in self.sides:
            yield from _unread_texts(side.name, side.read_ledgers(), "ledgers")
        if self.owner_uris:
            for side, uri in zip(self.sides, self.owner_uris, strict=True):
                yield from _unread_texts(side.name, side.read_owners(uri), "owners")

    def _misplaced_notes(self) -> Iterator[str]:
        """Yield a text for each store with misplaced paths (paths that belong to no ledger).

        The text gives the number of these paths. They are not compared.
        """
        for side in self.sides:
            if count := side.read_ledgers().where("status = 'misplaced'").count():
                yield f"{side.name}: {count:,} paths not compared, because they belong to no ledger"


def _unread_texts(name: str, rows: DataFrame, table_name: str) -> Iterator[str]:
    gap_rows = rows.where("status = 'gap'")
    for row in gap_rows.select("path", "damage").orderBy("path").limit(_MAX_GAPS_SHOWN).collect():
        yield f"{name}: {row['path']}: {row['damage']}"
    if (count := gap_rows.count()) > _MAX_GAPS_SHOWN:
        yield f"{name}: {count:,} paths of its {table_name} could not be read"


def store_item_of(name: str) -> StoreItem:
    """Return the kind of the item at a path below the root.

    >>> str(store_item_of("cookies/bk1:3181"))
    'cookie'
    """
    return _ITEM_BY_NODE.get(name, StoreItem.COOKIE)


def _make_tally(
    store_item: StoreItem, item_counts: tuple[int, int, int | None], counts: Mapping[tuple[str, str], Any]
) -> ItemTally:
    source_count, copy_count, equal_count = item_counts
    rows = {change: counts.get((store_item, change)) for change in CopyState}
    counts_by_change = {change: row["all"] if row else 0 for change, row in rows.items()}
    if equal_count is None:
        equal_count = source_count - sum(row["in_source"] for row in rows.values() if row)
    return ItemTally(store_item, source_count, copy_count, equal_count, counts_by_change)


@contextmanager
def _open_directory(out: str | None) -> Iterator[RunDirectory]:
    """Yield the directory for the tables: ``out``, or a scratch directory that is deleted afterwards."""
    if out is None:
        with scratch_directory("compare") as scratch_path:
            yield RunDirectory(scratch_path)
        return
    run = RunDirectory(absolute_path(out))
    if run.exists("tables"):
        raise RunUsageError(f"--out {out}: already has tables; choose another directory")
    yield run


def _log_path(run: RunDirectory) -> Path | None:
    return None if "://" in run.path else Path(run.path, "spark.log")


def first_differences(differences: DataFrame, max_differences: int) -> list[StoreDifference]:
    """Return the first ``max_differences`` differences of each kind of change."""
    listed_differences: list[StoreDifference] = []
    with restore_task_errors():
        for change in CopyState:
            rows = (
                differences.where(differences.change == str(change))
                .orderBy(*_ORDER_COLUMNS)
                .limit(max_differences)
            )
            listed_differences += map(_make_difference, rows.collect())
    return listed_differences


def all_differences(differences: DataFrame) -> Iterator[StoreDifference]:
    """Yield every difference in a fixed order. The driver holds one partition of the table at a time."""
    with restore_task_errors():
        yield from map(_make_difference, differences.orderBy(*_ORDER_COLUMNS).toLocalIterator())


def _make_difference(row: Any) -> StoreDifference:
    item_and_change = StoreItem(row["item"]), CopyState(row["change"])
    row_location = row["path"], row["scope_id"], row["ledger_id"]
    return StoreDifference(*item_and_change, *row_location, tuple(row["fields"] or ()), row["why"])
