"""The entry logs of an audit (``--entry-logs``): read after the indexes, and whose each byte is.

Where the indexes point is read before the logs: what collection moves in between is then seen in the log that
it was moved to. Directories on disk alone are read; a collection has its logs' maps, and no locations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from auditor.audit.bookies import ClusterBookies
from auditor.audit.digest_scan import digest_notes, whole_entries
from auditor.audit.landing import Landing
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.states import EntryLogState
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.entry_logs.locations_source import LocationSource
from auditor.sources.bookies.entry_logs.parts import LogPart, slice_parts, to_json
from auditor.sources.bookies.entry_logs.reader import SCAN
from auditor.sources.bookies.entry_logs.spark_source import EntryLogSource
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory
from auditor.spark.source_rows import source_rows
from auditor.tables import OF_ENTRY_LOGS
from auditor.tables.digests import digests
from auditor.tables.misplaced import misplaced_locations
from auditor.tables.space import each_file_once, space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


class EntryLogScan(NamedTuple):
    """The tables ``entry_logs`` and ``locations``.

    ``whole_entries`` are the sampled ones, not read yet; None without --deep.
    """

    entry_logs: DataFrame
    locations: DataFrame
    whole_entries: DataFrame | None = None


def read_entry_logs(landing: Landing, bookies: ClusterBookies, options: AuditOptions) -> EntryLogScan | None:
    """Read where the indexes point, then the logs, and land both; None where nobody asked for it."""
    if not options.entry_logs:
        return None
    spark = landing.spark
    wanted = spark.sparkContext.defaultParallelism * options.parts_per_core
    found = [each for each in bookies.attribution.bookies.values() if each.index_directories]
    indexes = index_parts.plan_parts([(each.bookie_id, each.index_directories) for each in found], wanted)
    homes = {each.bookie_id: _ledger_directories(bookies, each.bookie_id) for each in found}
    parts = slice_parts(list(_directories(bookies, options.deep)), wanted)

    def locations() -> DataFrame:
        named = {"parts": index_parts.to_json(indexes), "ledger_directories": json.dumps(homes)}
        return source_rows(spark, LocationSource(named))

    where = landing.land("locations", locations)
    logs = landing.land("entry_logs", lambda: source_rows(spark, EntryLogSource({"parts": to_json(parts)})))
    sampled = whole_entries(spark, indexes, homes, options) if options.deep else None
    return EntryLogScan(logs, where, sampled)


def with_space(landing: Landing, scan: EntryLogScan, availability: DataFrame, tables: Tables) -> Tables:
    """``tables`` with those of entry logs; ``availability`` is that table, with every row."""
    times = [(row["path"], row["index_time"]) for row in tables.roster.directories]
    marked = landing.spark.createDataFrame(times, "path string, index_time long")
    of_bytes = landing.land(
        "space",
        lambda: space(
            scan.entry_logs,
            scan.locations,
            tables.ledgers,
            availability,
            tables.orphans,
            tables.over_replicated,
            tables.judged,
            tables.bookies,
            marked,
        ),
    )
    wrong = landing.land(
        "misplaced", lambda: misplaced_locations(scan.locations, availability, tables.orphans)
    )
    checked = None
    if (sampled := scan.whole_entries) is not None:
        checked = landing.land("digests", lambda: digests(sampled, tables.ledgers))
    read = {*OF_ENTRY_LOGS} - ({"digests"} if checked is None else set())
    empty = (tables.known_empty - read) | (landing.empty & read)
    return replace(
        tables,
        space=of_bytes,
        entry_logs=scan.entry_logs,
        misplaced=wrong,
        digests=checked,
        known_empty=frozenset(empty),
    )


def space_notes(scan: EntryLogScan, tables: Tables) -> list[str]:
    """What the report says of the sum, of what was sampled, and of what could not be read."""
    assert tables.space is not None
    sums = _hold_sums(tables.space, scan.entry_logs, scan.locations)
    every = f"all of {'its' if sums.files == 1 else 'their'} {sums.bytes:,} bytes are"
    said = every if not sums.left_out else f"{sums.left_out:,} of {sums.bytes:,} bytes are NOT"
    notes = [
        f"entry logs: {plural(sums.files, 'file', 'files')}, {said} in the table space, each in one class; "
        f"{sums.verified:,} of {plural(sums.maps, 'ledgers map')} held to the log's entries, "
        f"{sums.probed:,} of {sums.located:,} pairs of ledger and log in the indexes to an entry there"
    ]
    if sums.unread:
        unread = plural(sums.unread, "file or directory", "files or directories")
        notes.append(f"entry logs: {unread} could not be read")
    return notes if tables.digests is None else [*notes, *digest_notes(tables.digests)]


class _Sums(NamedTuple):
    """Files and their bytes, how many of these ``space`` leaves out, and how many ``unread`` files there are.

    ``probed`` of the ``located`` pairs of a ledger and a log were looked up, and ``verified`` of the ``maps``
    were held to the entries of their logs.
    """

    files: int
    bytes: int
    left_out: int
    unread: int
    located: int
    probed: int
    maps: int
    verified: int


def _hold_sums(space: DataFrame, entry_logs: DataFrame, locations: DataFrame) -> _Sums:
    """Hold the rows of ``space`` to the lengths of the files; 0 left out is what must come of it."""
    from pyspark.sql import functions as F

    once = each_file_once(entry_logs)
    mapped = F.col("state").isin(EntryLogState.OK.value, EntryLogState.MAP_WRONG.value)
    files = once.agg(
        F.count("*"),
        F.coalesce(F.sum("bytes"), F.lit(0)),
        F.count_if(mapped),
        F.count_if(mapped & (F.col("counted") == SCAN)),
    ).first()
    total = space.agg(F.coalesce(F.sum("bytes"), F.lit(0))).first()
    unread = entry_logs.where(F.col("bytes").isNull() & F.col("ledger_id").isNull())
    pairs = locations.where(F.col("log_id").isNotNull()).agg(F.count("*"), F.count("probe")).first()
    assert files is not None
    assert total is not None
    assert pairs is not None
    left_out = int(files[1]) - int(total[0])
    paths = unread.select("path").distinct().count()
    looked_up, maps = (int(pairs[0]), int(pairs[1])), (int(files[2]), int(files[3]))
    return _Sums(int(files[0]), int(files[1]), left_out, paths, *looked_up, *maps)


def _ledger_directories(bookies: ClusterBookies, bookie_id: str) -> list[str]:
    """A bookie's ledger directories in configured order, "" for one that was not found."""
    rows = [row for row in bookies.attribution.directories if row.owner == bookie_id and row.ledger_dirs]
    if not rows:
        return []
    # They were found to agree, or their union is asked for; the longest list has all of it.
    configured = max((row.ledger_dirs or () for row in rows), key=len)
    paths = {row.configured: row.path for row in rows if row.role == "ledger"}
    return [paths.get(path, "") for path in configured]


def _directories(bookies: ClusterBookies, verify: bool) -> Iterator[LogPart]:
    """Every directory that may have entry logs; one of nobody's too."""
    in_rocksdb = {
        name: any(each.storage == ROCKSDB for each in bookie.index_directories)
        for name, bookie in bookies.attribution.bookies.items()
    }
    current = {each.found.path: each.found for each in bookies.attribution.found}
    for row in bookies.attribution.directories:
        found = current.get(row.path)
        if row.role not in ("ledger", "unknown") or found is None or not found.has_current:
            continue
        logger: int | None = 0
        if row.owner is None or in_rocksdb.get(row.owner):
            homes = _ledger_directories(bookies, row.owner) if row.owner else []
            logger = homes.index(row.path) if row.path in homes else None
        version = IndexDirectory.seen(row.path, found.version).version_sha256
        yield LogPart(row.owner, logger, row.path, version, verify=verify)
