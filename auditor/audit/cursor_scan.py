"""Compacted ledgers of topics whose ids are only in entries of cursor ledgers.

While a topic is loaded, its compaction cursor stores its position and the id of the compacted ledger in
entries of the cursor's own ledger. The cursor's znode is older than these entries. With saved metadata, whose
bookies do not change, the audit reads the newest entry. All bookies in the ensembles of the cursor ledger
must have been read completely, with their journals. No journal may have a later entry. Otherwise the
compacted ledger stays unknown. Only the ledger id is taken from the entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from auditor.audit.bookies import ClusterBookies
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata_scan import FirstScan
from auditor.codecs.pulsar.managed_cursor import decode_position
from auditor.errors import DecodeError, UnreadError
from auditor.model.states import IndexState, TailRead
from auditor.sources.bookies.entry_logs.locations import find_location, read_body
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.judge_replicas import groups_of

CURSORS_LIMIT = 1000
"""Largest number of cursor ledgers read in one audit. Further compacted ledgers stay unknown."""

COMPACTIONS = "path string, found boolean, compacted bigint"


class Compaction(NamedTuple):
    """The compacted ledger that the newest entry of a cursor names, and the cursor's path.

    ``compacted`` is None if the entry has no such ledger.
    """

    path: str
    compacted: int | None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of a cursor ledger on one bookie, with its last entry and the index that has this entry."""

    bookie_id: str
    last: int
    index: str
    storage: str


def newest_compactions(owners: DataFrame, first: FirstScan, indexes: Indexes) -> list[Compaction]:
    """Return the compacted ledgers from the newest cursor entries. Uncertain ledgers are left out."""
    if first.source.live:
        return []  # the cursor may have moved on while it was read
    cursor_ledgers = owners.where("kind = 'cursor' and ledger_id is not null").select("path", "ledger_id")
    rows = (
        cursor_ledgers.join(owners.where("stale").select("path"), "path")
        .orderBy("path")
        .limit(CURSORS_LIMIT)
        .collect()
    )
    cursors: dict[int, str] = {row["ledger_id"]: row["path"] for row in rows}
    if not cursors:
        return []
    ids = sorted(cursors)
    copies_of = _holders(indexes, ids)
    tail_ends = _tails(indexes, ids)
    fully_read_bookies = {name for name in indexes.bookies.members if _read_whole(indexes, name)}
    directories = _ledger_directories(indexes.bookies)
    compactions = []
    for id, members, digest_type in _ledgers(first.ledgers, ids):
        if not set(members) <= fully_read_bookies or digest_type is None:
            continue
        copies_on_members = [copy for copy in copies_of.get(id, ()) if copy.bookie_id in members]
        last = max((copy.last for copy in copies_on_members), default=-1)
        if last < 0 or tail_ends.get(id, -1) > last:
            continue
        newest_copies = (copy for copy in copies_on_members if copy.last == last)
        body = _first_body(newest_copies, id, digest_type, directories)
        if body is not None:
            compactions += _compaction(cursors[id], body)
    return compactions


def resolve_references(owners: DataFrame, compactions: Sequence[Compaction]) -> DataFrame:
    """Return the owner rows with the ids of ``compactions``. These rows are no longer stale."""
    if not compactions:
        return owners
    rows = [(compaction.path, True, compaction.compacted) for compaction in compactions]
    resolved = owners.sparkSession.createDataFrame(rows, COMPACTIONS)
    is_resolved = F.col("stale") & F.coalesce("found", F.lit(False))
    joined = owners.join(F.broadcast(resolved), "path", "left")
    joined = joined.withColumn(
        "ledger_id", F.when(is_resolved, F.col("compacted")).otherwise(F.col("ledger_id"))
    )
    return joined.withColumn("stale", F.col("stale") & ~is_resolved).select(*owners.columns)


def _compaction(path: str, body: bytes) -> list[Compaction]:
    try:
        return [Compaction(path, decode_position(body).compacted_ledger)]
    except DecodeError:
        return []  # whichever ledger it names stays unknown, and is said to be


def _holders(indexes: Indexes, ids: list[int]) -> dict[int, list[_Copy]]:
    of_ledgers = indexes.rows.where((F.col("scope_id") == 0) & F.col("ledger_id").isin(ids))
    copies_of: dict[int, list[_Copy]] = {}
    for row in of_ledgers.select("bookie_id", "ledger_id", "groups", "state", "path", "storage").collect():
        if row["state"] == IndexState.OK and row["path"] is not None:
            copy = _Copy(row["bookie_id"], _last_entry(row["groups"]), row["path"], row["storage"])
            copies_of.setdefault(row["ledger_id"], []).append(copy)
    return copies_of


def _tails(indexes: Indexes, ids: list[int]) -> dict[int, int]:
    """Return the id of the last entry in the journals, by ledger id."""
    if indexes.tails.rows is None:
        return {}
    of_ledgers = indexes.tails.rows.where((F.col("scope_id") == 0) & F.col("ledger_id").isin(ids))
    last: dict[int, int] = {}
    for row in of_ledgers.select("ledger_id", "groups").collect():
        last[row["ledger_id"]] = max(_last_entry(row["groups"]), last.get(row["ledger_id"], -1))
    return last


def _last_entry(groups: bytes | None) -> int:
    """Return the largest entry id of a set. -1 if the set is empty."""
    runs = groups_of(groups)
    return int((runs["last_start"] + runs["size"] - 1).max()) if len(runs) else -1


def _ledgers(ledgers: DataFrame, ids: list[int]) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield each cursor ledger, with all bookies in its ensembles and its digest type."""
    of_cursors = ledgers.where(
        (F.col("scope_id") == 0) & F.col("ledger_id").isin(ids) & (F.col("status") == "ok")
    )
    rows = of_cursors.select(
        "ledger_id", F.col("replicas.bookie_id").alias("members"), "digest_type"
    ).collect()
    for row in sorted(rows, key=lambda row: int(row["ledger_id"])):
        yield row["ledger_id"], row["members"], row["digest_type"]


def _read_whole(indexes: Indexes, name: str) -> bool:
    tail_read, _ = indexes.tail(name)
    return indexes.bookies.read_whole(name) and tail_read in (TailRead.READ, TailRead.STOPPED)


def _ledger_directories(bookies: ClusterBookies) -> dict[str, list[str]]:
    """Return, for each bookie, its directories that may have entry logs."""
    directories: dict[str, list[str]] = {}
    for directory in bookies.attribution.directories:
        if directory.owner is not None:
            directories.setdefault(directory.owner, []).append(directory.path)
    return directories


def _first_body(
    newest_copies: Iterator[_Copy], id: int, digest_type: str, directories: Mapping[str, list[str]]
) -> bytes | None:
    """Return the body of the last entry from the first readable copy. None if no copy is readable."""
    for copy in newest_copies:
        try:
            location = find_location(copy.index, copy.storage, id, copy.last)
            if location is not None:
                logs = directories.get(copy.bookie_id, [])
                return read_body(logs, location, id, copy.last, digest_type)
        except (DecodeError, UnreadError):
            continue  # another bookie has a copy; without any the ledger stays unknown, and is said to be
    return None
