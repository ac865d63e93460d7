"""Who refers to the ledgers: read between the two scans of the metadata, landed, and joined with both.

Where ``--owners`` names no store, the metadata's own is asked whether an application lies beside BookKeeper's
root. Without one nothing is read, nothing lands, and no check is asked.

While a topic is loaded, its compaction cursor keeps positions, and the id of the compacted ledger, in entries
of a ledger of its own; the znode is older. Of saved metadata, whose bookies do not move, that entry is read:
where every member of its ensemble was read completely, with its journal, and no journal has a later entry of
it. Everything else stays unknown. Of the entry nothing is kept but the id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from auditor.audit.bookies import ClusterBookies
from auditor.audit.changes import RunsBefore
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata, ScanDifference
from auditor.audit.metadata_scan import FirstScan, MetadataSource
from auditor.codecs.pulsar.managed_cursor import decode_position
from auditor.errors import DecodeError, StoreError, UnreadError
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.run_facts import WHOLE, Remark, RemarkKind, remark, remark_with_reason
from auditor.model.states import IndexState, TailRead
from auditor.sources.bookies.entry_logs.locations import find_location, read_body
from auditor.sources.metadata.store import NeighbourStore
from auditor.sources.metadata.stores import is_live, source_options
from auditor.sources.owners.applications import APPLICATIONS, OwnersUri, beside, parse_owners_uri
from auditor.sources.owners.spark_source import OwnerSource
from auditor.spark import functions as F
from auditor.spark.batches import read_source
from auditor.spark.part_tables import PartTable
from auditor.spark.types import DataFrame
from auditor.tables.judge_replicas import groups_of
from auditor.tables.ownership import Moments, ownership

CURSORS_LIMIT = 1000
"""So many cursors' ledgers are looked at in one audit; with more of them the rest stays unknown."""

COMPACTIONS = "path string, found boolean, compacted bigint"


class Compaction(NamedTuple):
    """The compacted ledger that a cursor's newest entry names, by the cursor's path; None: it names none."""

    path: str
    compacted: int | None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A cursor's ledger on one bookie: its last entry there, and the index that has it."""

    bookie_id: str
    last: int
    index: str
    storage: str


def newest_compactions(owners: DataFrame, first: FirstScan, indexes: Indexes) -> list[Compaction]:
    """What the newest entries of compaction cursors' ledgers name, as far as that is sure."""
    if first.source.live:
        return []  # the cursor may have moved on while it was read
    own = owners.where("kind = 'cursor' and ledger_id is not null").select("path", "ledger_id")
    rows = (
        own.join(owners.where("stale").select("path"), "path").orderBy("path").limit(CURSORS_LIMIT).collect()
    )
    cursors: dict[int, str] = {row["ledger_id"]: row["path"] for row in rows}
    if not cursors:
        return []
    ids = sorted(cursors)
    held = _holders(indexes, ids)
    beside = _tails(indexes, ids)
    whole = {name for name in indexes.bookies.members if _read_whole(indexes, name)}
    directories = _ledger_directories(indexes.bookies)
    found = []
    for id, members, digest_type in _ledgers(first.ledgers, ids):
        if not set(members) <= whole or digest_type is None:
            continue
        here = [each for each in held.get(id, ()) if each.bookie_id in members]
        last = max((each.last for each in here), default=-1)
        if last < 0 or beside.get(id, -1) > last:
            continue
        newest = (each for each in here if each.last == last)
        body = _first_body(newest, id, digest_type, directories)
        if body is not None:
            found += _compaction(cursors[id], body)
    return found


def resolve_references(owners: DataFrame, compactions: Sequence[Compaction]) -> DataFrame:
    """Rows of owners in which these references stand as the entries have them, and are not stale."""
    if not compactions:
        return owners
    rows = [(each.path, True, each.compacted) for each in compactions]
    known = owners.sparkSession.createDataFrame(rows, COMPACTIONS)
    found = F.col("stale") & F.coalesce("found", F.lit(False))
    both = owners.join(F.broadcast(known), "path", "left")
    both = both.withColumn("ledger_id", F.when(found, F.col("compacted")).otherwise(F.col("ledger_id")))
    return both.withColumn("stale", F.col("stale") & ~found).select(*owners.columns)


def _compaction(path: str, body: bytes) -> list[Compaction]:
    try:
        return [Compaction(path, decode_position(body).compacted_ledger)]
    except DecodeError:
        return []  # whichever ledger it names stays unknown, and is said to be


def _holders(indexes: Indexes, ids: list[int]) -> dict[int, list[_Copy]]:
    wanted = indexes.rows.where((F.col("scope_id") == 0) & F.col("ledger_id").isin(ids))
    held: dict[int, list[_Copy]] = {}
    for row in wanted.select("bookie_id", "ledger_id", "groups", "state", "path", "storage").collect():
        if row["state"] == IndexState.OK and row["path"] is not None:
            found = _Copy(row["bookie_id"], _last(row["groups"]), row["path"], row["storage"])
            held.setdefault(row["ledger_id"], []).append(found)
    return held


def _tails(indexes: Indexes, ids: list[int]) -> dict[int, int]:
    """The last entry of each ledger that a journal has beside an index."""
    if indexes.tails.beside is None:
        return {}
    wanted = indexes.tails.beside.where((F.col("scope_id") == 0) & F.col("ledger_id").isin(ids))
    last: dict[int, int] = {}
    for row in wanted.select("ledger_id", "groups").collect():
        last[row["ledger_id"]] = max(_last(row["groups"]), last.get(row["ledger_id"], -1))
    return last


def _last(groups: bytes | None) -> int:
    """The last entry of a set; -1 of the empty one."""
    found = groups_of(groups)
    return int((found["last_start"] + found["size"] - 1).max()) if len(found) else -1


def _ledgers(ledgers: DataFrame, ids: list[int]) -> Iterator[tuple[int, list[str], str | None]]:
    """Each cursor's ledger, all members of its ensembles, and its digest type."""
    wanted = ledgers.where(
        (F.col("scope_id") == 0) & F.col("ledger_id").isin(ids) & (F.col("status") == "ok")
    )
    rows = wanted.select("ledger_id", F.col("replicas.bookie_id").alias("members"), "digest_type").collect()
    for row in sorted(rows, key=lambda row: int(row["ledger_id"])):
        yield row["ledger_id"], row["members"], row["digest_type"]


def _read_whole(indexes: Indexes, name: str) -> bool:
    known, _ = indexes.tail(name)
    return indexes.bookies.read_whole(name) and known in (TailRead.READ, TailRead.STOPPED)


def _ledger_directories(bookies: ClusterBookies) -> dict[str, list[str]]:
    """Where each bookie's entry logs may lie."""
    found: dict[str, list[str]] = {}
    for directory in bookies.attribution.directories:
        if directory.owner is not None:
            found.setdefault(directory.owner, []).append(directory.path)
    return found


def _first_body(
    newest: Iterator[_Copy], id: int, digest_type: str, directories: Mapping[str, list[str]]
) -> bytes | None:
    """The entry from the first bookie that can show it; None where none can."""
    for each in newest:
        try:
            location = find_location(each.index, each.storage, id, each.last)
            if location is not None:
                logs = directories.get(each.bookie_id, [])
                return read_body(logs, location, id, each.last, digest_type)
        except (DecodeError, UnreadError):
            continue  # another bookie has a copy; without any the ledger stays unknown, and is said to be
    return None


NOBODY = "none"
"""The value of ``--owners`` that looks for none."""

_OPEN = {
    "young": "younger than --owner-grace",
    "unknown": "whose owner could not be read",
    "foreign": "of other applications",
    "unnamed": "without custom metadata",
}
"""Standings of ledgers that no owner names and that are not called unowned."""


def check_owners(options: AuditOptions) -> None:
    """Say that ``--owners`` is invalid before anything is read.

    Raises:
        UsageError: it names no application, or its URI is invalid.
    """
    if options.owners not in (None, NOBODY):
        parse_owners_uri(str(options.owners))


@dataclass(frozen=True)
class Owners:
    """The owners that one audit has read: the table ``rows``, and where it is from; None: there are none.

    ``own`` is whether the metadata's own store was looked at, since nobody named another.
    """

    uri: OwnersUri | None
    rows: DataFrame | None
    own: bool
    notes: tuple[str, ...]


def read_owners(source: MetadataSource, options: AuditOptions) -> Owners:
    """Find who refers to the ledgers, after M0, and land the table owners.

    Raises:
        StoreError: the store that ``--owners`` names cannot be read, or has none.
    """
    named = options.owners not in (None, NOBODY)
    uri, notes = _find(source, options)
    if uri is None:
        return Owners(None, None, not named, notes)
    try:
        rows = source.landing.land("owners", partial(_read, source, uri, options))
    except StoreError as error:
        if named:
            raise
        source.landing.run.remove("tables/owners")
        why = f"who refers to the ledgers could not be read from {uri.text}: {error}"
        return Owners(None, None, True, (*notes, why))
    if named and "owners" in source.landing.empty:
        tree = APPLICATIONS[uri.application].trees[0]
        raise StoreError(
            f"--owners {uri.text}: nothing of {uri.application} is kept there; the chroot above {tree} "
            "belongs into the URI"
        )
    return Owners(uri, rows, not named, notes)


def resolve_cursors(owners: Owners, first: FirstScan, indexes: Indexes) -> Owners:
    """Take what only cursors' ledgers name from the disks (`auditor.audit.owner_scan`)."""
    run = first.source.landing.run
    if owners.rows is None or run.exists(f"tables/ownership/{WHOLE}"):
        return owners
    return replace(
        owners, rows=resolve_references(owners.rows, newest_compactions(owners.rows, first, indexes))
    )


def land_ownership(
    owners: Owners,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    before: RunsBefore,
    options: AuditOptions,
) -> DataFrame | None:
    """Join owners with both scans, and land the table ownership; None where there are no owners."""
    source, uri, rows = metadata.source, owners.uri, owners.rows
    landing = source.landing
    if uri is None or rows is None:
        return None
    grace_ms = round(options.owner_grace * 1000)
    earlier = before.with_owners(landing, source.scan_time - grace_ms)
    moments = Moments(
        source.scan_time,
        grace_ms,
        uri.chroot,
        _zxid(metadata.first) if owners.own else None,
        metadata.first.nodes.scan_time if source.live and not owners.own else None,
        _apart(owners, uri, source),
    )

    def table() -> DataFrame:
        ours = landing.spark.read.parquet(f"{earlier.path}/tables/ownership") if earlier else None
        of_scans = (metadata.first.ledgers, rows, difference.moved, difference.doubtful_ids)
        return ownership(*of_scans, ours, (uri.application,), moments)

    return landing.land("ownership", table)


def owner_remarks(owners: Owners, rows: DataFrame) -> list[Remark]:
    """What a reader of the report should know: whose owners were read, and what that left open.

    ``rows`` are those of the table ownership.
    """
    unread = [remark_with_reason(RemarkKind.OWNERS_UNREAD, note) for note in owners.notes]
    if owners.uri is None:
        return unread
    open_ones = rows.where(rows.standing.isin(*_OPEN)).groupBy("standing").count().collect()
    counts = {row["standing"]: row["count"] for row in open_ones}
    parts = [
        f"{plural(counts[name], 'ledger', 'ledgers')} {words}"
        for name, words in _OPEN.items()
        if name in counts
    ]
    text = f"{plural(sum(counts.values()), 'ledger')}: no owner is known, and none is ruled out"
    left = [remark(RemarkKind.OWNERS, text, *parts)] if parts else []
    return [*unread, remark(RemarkKind.OWNERS, "owners were read", owners.uri.text), *left]


def _find(source: MetadataSource, options: AuditOptions) -> tuple[OwnersUri | None, tuple[str, ...]]:
    """Where the owners are, and why that is not known of some application."""
    if options.owners == NOBODY:
        return None, ()
    if options.owners is not None:
        return parse_owners_uri(options.owners), ()
    notes: tuple[str, ...] = ()
    for name, application in APPLICATIONS.items():
        try:
            store = source.store
            if isinstance(store, NeighbourStore) and store.has_beside(application.trees[0]):
                return beside(name, source.uri), notes
        except StoreError as error:
            notes += (f"whether {name} refers to these ledgers is unknown: {error}",)
    return None, notes


def _read(source: MetadataSource, uri: OwnersUri, options: AuditOptions) -> pa.Table | PartTable:
    spark = source.landing.spark
    return read_source(spark, OwnerSource(source_options(spark, options, {"owners": uri.text})))


def _zxid(first: FirstScan) -> int | None:
    """Where a running ZooKeeper stood at the first scan; None of other stores."""
    in_zookeeper = first.source.live and first.source.store.keeps_times
    return int(first.nodes.position, 16) if in_zookeeper else None


def _apart(owners: Owners, uri: OwnersUri, source: MetadataSource) -> str | None:
    """Why owners and ledgers may be of two times."""
    tree = APPLICATIONS[uri.application].trees[0]
    if owners.own or (source.live and is_live(uri.tree(tree))):
        return None
    if uri.store.partition("?")[0] == source.uri.text.partition("?")[0]:
        return None  # one file, or one server's files
    return "owners and ledgers were not saved together"
