"""One comparison, from two URIs to the differences.

Both stores are read once, the source first. Where one of them runs and something differs, both are looked at
again: what is at the same version then, on both sides, differed at one moment; all else is undecided.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.audit.landing import Landing, RunDirectory
from auditor.compare.store_side import StoreSide, open_side
from auditor.errors import RunUsageError
from auditor.model.comparison import Comparison, CopyState, ItemTally, StoreItem
from auditor.model.layout import LayoutKind
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, Silent
from auditor.sources.metadata.credentials import credentials_file, read_credentials
from auditor.sources.metadata.stores import recognise
from auditor.sources.owners.applications import APPLICATIONS
from auditor.sources.owners.uri import OwnersUri, beside, parse_owners_uri
from auditor.spark.query_plans import settings_kept
from auditor.spark.session import build_session
from auditor.spark.task_errors import own_errors, run_errors
from auditor.tables.store_differences import (
    MOVED,
    STORE_DIFFERENCES,
    Sides,
    ledger_differences,
    owner_differences,
    settle_differences,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GAPS_SHOWN = 20
_ITEMS = {"LAYOUT": StoreItem.LAYOUT, "INSTANCEID": StoreItem.INSTANCE_ID}


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
    """Two stores compared, and the table `STORE_DIFFERENCES`, which is there within the block.

    ``owners`` are two values of ``--owners``, one for each store; without them owners beside BookKeeper's
    roots are compared. ``out`` is a directory to make, which keeps the tables; else a scratch directory does.

    Raises:
        UsageError: a URI that cannot be meant, or ``out`` is there already.
        StoreError: a store could not be read.
    """
    options = options or AuditOptions()
    read_credentials(credentials_file(options.credentials))
    for uri in (source, copy):
        recognise(uri)
    pair = (parse_owners_uri(owners[0]), parse_owners_uri(owners[1])) if owners else None
    with _directory(out) as run, run_errors(run.path), ExitStack() as stack:
        session = spark or build_session(
            options.master, driver_memory=options.driver_memory, log=_log(run), keep_classes=True
        )
        stack.enter_context(settings_kept(session))
        landing = Landing(session, run, progress or Silent())
        salt = secrets.randbits(62)
        first = stack.enter_context(open_side("source", source, landing, options, salt))
        second = stack.enter_context(open_side("copy", copy, landing, options, salt))
        yield _Comparing(landing, first, second, pair).done()


class _Comparing:
    """The work on two open stores."""

    def __init__(
        self, landing: Landing, source: StoreSide, copy: StoreSide, owners: tuple[OwnersUri, OwnersUri] | None
    ) -> None:
        self._landing = landing
        self._sides = (source, copy)
        self._notes: list[str] = []
        self._gaps: list[str] = []
        self._owners: tuple[OwnersUri | None, OwnersUri | None] | None = owners or self._beside()

    def done(self) -> tuple[Comparison, DataFrame]:
        source, copy = self._sides
        for side in self._sides:
            cut = [(side.root, side.nodes.cut)] if side.nodes.cut else []
            self._gaps += [f"{side.name}: {path}: {reason}" for path, reason in (*cut, *side.nodes.gaps)]
            self._notes += [f"{side.name}: {note}" for note in side.nodes.notes]
        tables = [("ledger_differences", self._ledgers), ("node_differences", self._nodes)]
        tables += [("owner_differences", self._owner_rows)] if self._owners else []
        landed = [self._landing.land(name, make) for name, make in tables]
        differences = landed[0]
        for each in landed[1:]:
            differences = differences.unionByName(each)
        with own_errors():
            tallies = self._tallies(differences)
        gaps = tuple(dict.fromkeys(self._gaps))
        found = Comparison(source.summary(), copy.summary(), tallies, gaps, tuple(self._notes))
        return found, differences

    def _ledgers(self) -> DataFrame:
        source, copy = self._sides
        sides = Sides(source.ledgers(), copy.ledgers())
        cuts = [side.nodes.cut_below(side.root) for side in self._sides]
        make = partial(ledger_differences, sides, *cuts)
        found = self._landing.land("ledgers_unequal", make)
        if "ledgers_unequal" in self._landing.empty:
            return found
        return settle_differences(found, StoreItem.LEDGER, source.ledgers_again(), copy.ledgers_again())

    def _owner_rows(self) -> DataFrame:
        assert self._owners is not None
        source, copy = self._sides
        sides = Sides(source.owners(self._owners[0]), copy.owners(self._owners[1]))
        found = self._landing.land("owners_unequal", lambda: owner_differences(sides))
        if "owners_unequal" in self._landing.empty:
            return found
        again = source.owners_again(self._owners[0]), copy.owners_again(self._owners[1])
        return settle_differences(found, StoreItem.OWNER, *again)

    def _nodes(self) -> DataFrame:
        """Layout, instance id and cookies: few, and all of them on the driver."""
        from pyspark.sql.pandas.types import from_arrow_schema

        one, two = (side.values() for side in self._sides)
        rows = []
        for name in sorted(one.keys() | two.keys()):
            if one.get(name) != two.get(name) and self._comparable(name):
                change, why = self._change(name, one, two)
                rows.append((str(item_of(name)), str(change), None, None, name, None, why, None, None))
        if rows and any(side.live for side in self._sides):
            later = [side.values(again=True) if side.live else side.values() for side in self._sides]
            rows = [
                row
                if (one.get(row[4]), two.get(row[4])) == (later[0].get(row[4]), later[1].get(row[4]))
                else (row[0], str(CopyState.UNDECIDED), *row[2:6], MOVED, None, None)
                for row in rows
            ]
        return self._landing.spark.createDataFrame(rows, from_arrow_schema(STORE_DIFFERENCES))

    def _change(
        self, name: str, one: Mapping[str, bytes], two: Mapping[str, bytes]
    ) -> tuple[CopyState, str | None]:
        if name in one and name in two:
            return CopyState.DIFFERENT, None
        change, lacking = (CopyState.EXTRA, 0) if name in two else (CopyState.MISSING, 1)
        side = self._sides[lacking]
        path = f"{side.root}/{name}"
        for gap, reason in ((side.root, side.nodes.cut_below(side.root)), *side.nodes.gaps):
            if reason is not None and (path == gap or path.startswith(f"{gap}/")):
                return CopyState.UNDECIDED, f"{gap}: {reason}"
        return change, None

    def _comparable(self, name: str) -> bool:
        """Whether both stores would keep the same bytes of a name: etcd's own LAYOUT is another."""
        kinds = [side.layout is LayoutKind.ETCD for side in self._sides]
        return name != "LAYOUT" or kinds[0] == kinds[1]

    def _beside(self) -> tuple[OwnersUri | None, OwnersUri | None] | None:
        """Where the owners of both stores are; None where there is nothing to compare."""
        for name in APPLICATIONS:
            there = [side.has_owners(name) for side in self._sides]
            if True not in there:
                continue
            if None in there:
                blind = self._sides[there.index(None)]
                self._gaps.append(
                    f"owners were not compared: the {blind.name} does not tell where {name} keeps its own; "
                    "name both with --owners"
                )
                return None
            source, copy = (
                beside(name, side.uri) if has else None for side, has in zip(self._sides, there, strict=True)
            )
            return source, copy
        return None

    def _tallies(self, differences: DataFrame) -> tuple[ItemTally, ...]:
        from pyspark.sql import functions as F

        # No version: it is not there. Cookies and what is one each have none, and are counted here.
        counts = {
            (row["item"], row["change"]): row
            for row in differences.groupBy("item", "change")
            .agg(F.count("*").alias("all"), F.count("source_version").alias("in_source"))
            .collect()
        }
        totals = self._totals()
        return tuple(_tally(item, totals[item], counts) for item in StoreItem if item in totals)

    def _totals(self) -> dict[StoreItem, tuple[int, int, int | None]]:
        """Of each kind how many either store has, and how many of them are the same where that is known."""
        source, copy = self._sides
        ledgers = [side.ledgers() for side in self._sides]
        first, second = (rows.where("status not in ('misplaced', 'gap')").count() for rows in ledgers)
        for side, rows in zip(self._sides, ledgers, strict=True):
            self._note_unread(side, rows, "ledgers")
            strays = rows.where("status = 'misplaced'").count()
            if strays:
                self._notes.append(
                    f"{side.name}: {strays:,} paths among its ledgers stand for no ledger: not compared"
                )
        totals: dict[StoreItem, tuple[int, int, int | None]] = {StoreItem.LEDGER: (first, second, None)}
        if self._owners:
            owners = [side.owners(uri) for side, uri in zip(self._sides, self._owners, strict=True)]
            for side, rows in zip(self._sides, owners, strict=True):
                self._note_unread(side, rows, "owners")
            first, second = (rows.where("status = 'ok'").count() for rows in owners)
            totals[StoreItem.OWNER] = (first, second, None)
        one, two = source.values(), copy.values()
        for item in (StoreItem.COOKIE, StoreItem.LAYOUT, StoreItem.INSTANCE_ID):
            mine, other = ({name for name in side if item_of(name) is item} for side in (one, two))
            same = sum(one[name] == two[name] for name in mine & other)
            if mine | other and all(map(self._comparable, mine | other)):
                totals[item] = (len(mine), len(other), same)
        return totals

    def _note_unread(self, side: StoreSide, rows: DataFrame, what: str) -> None:
        unread = rows.where("status = 'gap'")
        for row in unread.select("path", "damage").orderBy("path").limit(_GAPS_SHOWN).collect():
            self._gaps.append(f"{side.name}: {row['path']}: {row['damage']}")
        if (count := unread.count()) > _GAPS_SHOWN:
            self._gaps.append(f"{side.name}: {count:,} places of its {what} could not be read")


def item_of(name: str) -> StoreItem:
    """What a name below the root stands for.

    >>> str(item_of("cookies/bk1:3181"))
    'cookie'
    """
    return _ITEMS.get(name, StoreItem.COOKIE)


def _tally(
    item: StoreItem, totals: tuple[int, int, int | None], counts: Mapping[tuple[str, str], Any]
) -> ItemTally:
    source, copy, same = totals
    rows = {change: counts.get((item, change)) for change in CopyState}
    changes = {change: row["all"] if row else 0 for change, row in rows.items()}
    if same is None:
        same = source - sum(row["in_source"] for row in rows.values() if row)
    return ItemTally(item, source, copy, same, changes)


@contextmanager
def _directory(out: str | None) -> Iterator[RunDirectory]:
    """Where the tables are: ``out``, which stays, or a scratch directory, which does not."""
    if out is None:
        scratch = tempfile.mkdtemp(prefix="bkaudit-compare-")
        try:
            yield RunDirectory(scratch)
        finally:
            shutil.rmtree(scratch)
        return
    run = RunDirectory(out)
    if run.exists("tables"):
        raise RunUsageError(f"--out {out}: has tables already; name another directory")
    yield run


def _log(run: RunDirectory) -> Path | None:
    return None if "://" in run.path else Path(run.path, "spark.log")
