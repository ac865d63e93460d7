"""The entry logs of an audit (``--entry-logs``): whose each byte of them is, and what a report says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from auditor.audit.entry_log_scan import EntryLogScan, digest_remarks
from auditor.audit.landing import Landing
from auditor.audit.runs_before import RunsBefore
from auditor.model.amounts import plural
from auditor.model.remark import Remark, RemarkKind, remark
from auditor.model.space import DISK_BYTES
from auditor.model.states import CacheState, EntryLogState
from auditor.sources.bookies.entry_logs.reader import SCAN
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import OF_ENTRY_LOGS, Tables
from auditor.tables.digests import digests
from auditor.tables.misplaced import misplaced_locations
from auditor.tables.space import each_file_once, space


def with_space(
    landing: Landing, scan: EntryLogScan, availability: DataFrame, tables: Tables, before: RunsBefore
) -> Tables:
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
    checked = None
    if (sampled := scan.whole_entries) is not None:
        checked = landing.land("digests", lambda: digests(sampled, tables.ledgers))
    now = tables.cluster.scan_time
    earlier = before.table(landing, "misplaced", now)
    wrong = landing.land(
        "misplaced",
        lambda: misplaced_locations(scan.locations, availability, tables.orphans, checked, now, earlier),
    )
    read = {*OF_ENTRY_LOGS} - ({"digests"} if checked is None else set())
    return replace(
        tables,
        space=of_bytes,
        entry_logs=scan.entry_logs,
        disks=scan.disks,
        misplaced=wrong,
        digests=checked,
        known_empty=tables.without_rows(read, landing.empty),
    )


def space_remarks(scan: EntryLogScan, tables: Tables) -> list[Remark]:
    """What the report says of the sum, of what was sampled, and of what could not be read."""
    assert tables.space is not None
    sums = _hold_sums(tables.space, scan.entry_logs, scan.locations)
    every = f"all of {'its' if sums.files == 1 else 'their'} {sums.bytes:,} bytes are"
    said = every if not sums.left_out else f"{sums.left_out:,} of {sums.bytes:,} bytes are NOT"
    found = [
        remark(
            RemarkKind.SPACE_UNREAD if sums.left_out else RemarkKind.SPACE,
            f"entry logs: {plural(sums.files, 'file', 'files')}, {said} in the table space",
            "each byte is in one class",
            f"{sums.verified:,} of {plural(sums.maps, 'ledgers map')} compared with the log's entries",
            f"{sums.probed:,} of {sums.located:,} pairs of ledger and log compared with an entry there",
        )
    ]
    if sums.cached:
        unread = f", {sums.cache_unread:,} of them unreadable there" if sums.cache_unread else ""
        text = f"entry logs: collectors' metadata caches have {plural(sums.cached, 'log')}{unread}"
        found.append(remark(RemarkKind.SPACE, text))
    if sums.unread:
        unread = plural(sums.unread, "file or directory", "files or directories")
        found.append(remark(RemarkKind.SPACE_UNREAD, f"entry logs: {unread} could not be read"))
    found += disk_remarks(scan.disks)
    return found if tables.digests is None else [*found, *digest_remarks(tables.digests, scan.collected)]


def disk_remarks(disks: DataFrame) -> list[Remark]:
    """What lies beside the entry logs; and what of it could not be read."""
    sums = [F.coalesce(F.sum(kind.column), F.lit(0)).alias(kind.column) for kind in DISK_BYTES]
    row = disks.agg(*sums, F.count("reason").alias("unread"), F.count("*").alias("all")).first()
    assert row is not None
    if not row["all"]:
        return []
    parts = [f"{row[kind.column]:,} bytes of {kind.words}" for kind in DISK_BYTES]
    found = [remark(RemarkKind.SPACE, "other files of the ledger disks (table disks)", *parts)]
    if row["unread"]:
        unread = plural(row["unread"], "directory", "directories")
        text = f"other files of the ledger disks: {unread} could not be read to the end"
        found.append(remark(RemarkKind.SPACE_UNREAD, text))
    return found


class _Sums(NamedTuple):
    """Files and their bytes, how many of these ``space`` leaves out, and how many ``unread`` files there are.

    ``probed`` of the ``located`` pairs of a ledger and a log were looked up, and ``verified`` of the ``maps``
    were held to the entries of their logs. Collectors' metadata caches have ``cached`` of the logs, of which
    ``cache_unread`` could not be read there.
    """

    files: int
    bytes: int
    left_out: int
    unread: int
    located: int
    probed: int
    maps: int
    verified: int
    cached: int
    cache_unread: int


def _hold_sums(space: DataFrame, entry_logs: DataFrame, locations: DataFrame) -> _Sums:
    """Hold the rows of ``space`` to the lengths of the files; 0 left out is what must come of it."""
    once = each_file_once(entry_logs)
    mapped = F.col("state").isin(EntryLogState.OK.value, EntryLogState.MAP_WRONG.value)
    files = once.agg(
        F.count("*"),
        F.coalesce(F.sum("bytes"), F.lit(0)),
        F.count_if(mapped),
        F.count_if(mapped & (F.col("counted") == SCAN)),
        F.count("cache"),
        F.count_if(F.col("cache") == CacheState.UNREADABLE.value),
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
    cached = (int(files[4]), int(files[5]))
    return _Sums(int(files[0]), int(files[1]), left_out, paths, *looked_up, *maps, *cached)
