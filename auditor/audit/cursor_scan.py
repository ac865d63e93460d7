"""Reader of compacted ledgers' ids that are stored only in entries of cursor ledgers.

While a topic is loaded, its compaction cursor stores its position and the id of the compacted ledger. It
writes both to entries of the cursor's own ledger. The cursor's znode is older than these entries.

With saved metadata, the bookies do not change. So the audit reads the newest entry, and uses only the id of
the compacted ledger in it. The compacted ledger is known only if two conditions are true: (1) All bookies
in the ensembles of the cursor ledger were read completely, with their journals. (2) No journal has a later
entry.
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

COMPACTION_COLUMNS = "path string, found boolean, compacted bigint"


class Compaction(NamedTuple):
    """The compacted ledger that the newest entry of a cursor names, and the cursor's path.

    ``compacted_ledger`` is None if the entry names no compacted ledger.
    """

    path: str
    compacted_ledger: int | None


@dataclass(frozen=True, slots=True)
class _LedgerCopy:
    """A copy of a cursor ledger on one bookie, with its last entry and the index that locates this entry."""

    bookie_id: str
    last_entry: int
    index_path: str
    storage_kind: str


def read_compactions(owners: DataFrame, first_scan: FirstScan, indexes: Indexes) -> list[Compaction]:
    """Return the compacted ledgers that the newest cursor entries name.

    If it is uncertain which entry of a cursor is the newest, the cursor is left out. The list is empty for a
    live store, where a cursor's position may change during the read.
    """
    if first_scan.source.live:
        return []  # the cursor may move while it is read
    cursor_ledgers = owners.where("kind = 'cursor' and ledger_id is not null").select("path", "ledger_id")
    cursor_rows = (
        cursor_ledgers.join(owners.where("stale").select("path"), "path")
        .orderBy("path")
        .limit(CURSORS_LIMIT)
        .collect()
    )
    path_by_ledger: dict[int, str] = {row["ledger_id"]: row["path"] for row in cursor_rows}
    if not path_by_ledger:
        return []
    ids = sorted(path_by_ledger)
    copies_by_ledger = _find_copies(indexes, ids)
    last_journal_entries = _last_journal_entries(indexes, ids)
    fully_read_bookies = {name for name in indexes.bookies.members if _is_fully_read(indexes, name)}
    directories_by_bookie = _ledger_directories(indexes.bookies)
    compactions = []
    for id, members, digest_type in _cursor_ledgers(first_scan.ledgers, ids):
        if not set(members) <= fully_read_bookies or digest_type is None:
            continue
        copies_on_members = [copy for copy in copies_by_ledger.get(id, ()) if copy.bookie_id in members]
        last_entry = max((copy.last_entry for copy in copies_on_members), default=-1)
        if last_entry < 0 or last_journal_entries.get(id, -1) > last_entry:
            continue
        newest_copies = (copy for copy in copies_on_members if copy.last_entry == last_entry)
        entry_body = _read_first_entry(newest_copies, id, digest_type, directories_by_bookie)
        if entry_body is not None:
            compactions += _decode_compaction(path_by_ledger[id], entry_body)
    return compactions


def resolve_references(owners: DataFrame, compactions: Sequence[Compaction]) -> DataFrame:
    """Return ``owners`` with the stale references to compacted ledgers replaced by newer ones.

    ``owners`` are references from applications' objects to ledgers. A row is stale if the cursor's ledger may
    contain a newer reference. If ``compactions`` has the row's cursor, the row gets the compacted ledger from
    there, and is not stale any more.
    """
    if not compactions:
        return owners
    rows = [(compaction.path, True, compaction.compacted_ledger) for compaction in compactions]
    resolved_rows = owners.sparkSession.createDataFrame(rows, COMPACTION_COLUMNS)
    is_resolved = F.col("stale") & F.coalesce("found", F.lit(False))
    joined_rows = owners.join(F.broadcast(resolved_rows), "path", "left")
    joined_rows = joined_rows.withColumn(
        "ledger_id", F.when(is_resolved, F.col("compacted")).otherwise(F.col("ledger_id"))
    )
    return joined_rows.withColumn("stale", F.col("stale") & ~is_resolved).select(*owners.columns)


def _decode_compaction(path: str, entry_body: bytes) -> list[Compaction]:
    try:
        return [Compaction(path, decode_position(entry_body).compacted_ledger)]
    except DecodeError:
        return []  # the compacted ledger stays unknown, and the report says so


def _find_copies(indexes: Indexes, ids: list[int]) -> dict[int, list[_LedgerCopy]]:
    ledger_rows = indexes.rows.where((F.col("scope_id") == 0) & F.col("ledger_id").isin(ids))
    copies_by_ledger: dict[int, list[_LedgerCopy]] = {}
    for row in ledger_rows.select("bookie_id", "ledger_id", "groups", "state", "path", "storage").collect():
        if row["state"] == IndexState.OK and row["path"] is not None:
            copy = _LedgerCopy(row["bookie_id"], _last_entry(row["groups"]), row["path"], row["storage"])
            copies_by_ledger.setdefault(row["ledger_id"], []).append(copy)
    return copies_by_ledger


def _last_journal_entries(indexes: Indexes, ids: list[int]) -> dict[int, int]:
    """Return the largest entry id in journals for each ledger in ``ids``.

    Ledgers without entries in a journal are left out.
    """
    if indexes.journal_tails.rows is None:
        return {}
    ledger_rows = indexes.journal_tails.rows.where((F.col("scope_id") == 0) & F.col("ledger_id").isin(ids))
    last_entries: dict[int, int] = {}
    for row in ledger_rows.select("ledger_id", "groups").collect():
        last_entries[row["ledger_id"]] = max(
            _last_entry(row["groups"]), last_entries.get(row["ledger_id"], -1)
        )
    return last_entries


def _last_entry(entry_groups: bytes | None) -> int:
    """Return the largest entry id in an encoded set of ids (BP-34 groups), or -1 if the set is empty."""
    entry_runs = groups_of(entry_groups)
    return int((entry_runs["last_start"] + entry_runs["size"] - 1).max()) if len(entry_runs) else -1


def _cursor_ledgers(ledgers: DataFrame, ids: list[int]) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield each cursor ledger, with all bookies in its ensembles and its digest type."""
    cursor_ledger_rows = ledgers.where(
        (F.col("scope_id") == 0) & F.col("ledger_id").isin(ids) & (F.col("status") == "ok")
    )
    rows = cursor_ledger_rows.select(
        "ledger_id", F.col("replicas.bookie_id").alias("members"), "digest_type"
    ).collect()
    for row in sorted(rows, key=lambda row: int(row["ledger_id"])):
        yield row["ledger_id"], row["members"], row["digest_type"]


def _is_fully_read(indexes: Indexes, name: str) -> bool:
    tail_read_state, _ = indexes.tail(name)
    return indexes.bookies.is_read_completely(name) and tail_read_state in (TailRead.READ, TailRead.STOPPED)


def _ledger_directories(bookies: ClusterBookies) -> dict[str, list[str]]:
    """Return, for each bookie, its directories that may have entry logs."""
    paths_by_bookie: dict[str, list[str]] = {}
    for directory in bookies.attribution.directories:
        if directory.owner is not None:
            paths_by_bookie.setdefault(directory.owner, []).append(directory.path)
    return paths_by_bookie


def _read_first_entry(
    newest_copies: Iterator[_LedgerCopy],
    id: int,
    digest_type: str,
    directories_by_bookie: Mapping[str, list[str]],
) -> bytes | None:
    """Return the body of the last entry from the first readable copy, or None if no copy is readable."""
    for copy in newest_copies:
        try:
            location = find_location(copy.index_path, copy.storage_kind, id, copy.last_entry)
            if location is not None:
                log_directories = directories_by_bookie.get(copy.bookie_id, [])
                return read_body(log_directories, location, id, copy.last_entry, digest_type)
        except (DecodeError, UnreadError):
            continue  # try the copy of another bookie
    return None
