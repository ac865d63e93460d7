"""Check of the ``--bookies`` sources: which bookies an audit would read completely.

The check reads no index. It lists the journal files, but does not open them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from auditor.codecs.bookie.last_mark import LastMark
from auditor.doctor.bookie_access import access_lines
from auditor.doctor.store import Metadata
from auditor.model.amounts import age, and_more, duration, plural, size
from auditor.model.options import AuditOptions, to_time_ms
from auditor.model.report import EXIT_NOT_COVERED
from auditor.model.states import BookieRead, TimeBasis
from auditor.reports.doctor import BOOKIES_TOPIC, AnswerLine, AnswerState
from auditor.sources.bookies.collections.places import CollectedPlaces, collected_places, find_piece_owners
from auditor.sources.bookies.journal.files import list_journals
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie, attribute_directories
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB, IndexDirectory
from auditor.sources.bookies.places import FoundPlace, find_places
from auditor.sources.bookies.rpc.access import BookieAccess
from auditor.sources.bookies.source_kinds import BookieSources
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import ClusterNodes
from auditor.tables.registry import instance_id, registrations, store_cookies

MAX_JOURNALS_NAMED = 5
"""Largest number of bookies with incomplete journals to name. Those that are not named are counted too."""


@dataclass(frozen=True)
class JournalListing:
    """Listings of a bookie's journal directories.

    ``reason`` is why an audit cannot read the journals completely. It is None if the listings show no
    problem. ``last_write`` is the time of the last write to lastMark's journal file or a newer file, in ms.
    It is None if there is no such file. ``older_files`` are the paths of files that are older than
    lastMark's file, and ``older_bytes`` is their total size.
    """

    reason: str | None
    last_write: int | None = None
    older_files: tuple[str, ...] = ()
    older_bytes: int = 0


def list_bookie_journals(bookie: AttributedBookie) -> JournalListing:
    """List a bookie's journal directories on this machine."""
    if bookie.journals.gap_reason is not None:
        return JournalListing(bookie.journals.gap_reason)
    reasons, newest_time, older_files, older_bytes = [], 0, list[str](), 0
    for directory in bookie.journals.directories:
        mark = LastMark(directory.mark_file_id, directory.mark_offset)
        try:
            files = [(file.id, file.path, Path(file.path).stat()) for file in list_journals(directory.path)]
        except (OSError, ValueError) as error:
            reasons.append(f"{directory.path}: {error}")
            continue
        if mark.file_id > 0 and mark.file_id not in {file_id for file_id, _, _ in files}:
            reasons.append(f"{directory.path}: lastMark refers to {mark.file_name}, a missing journal file")
        for file_id, path, journal_stat in files:
            if file_id < mark.file_id:
                older_files.append(path)
                older_bytes += journal_stat.st_size
            else:
                newest_time = max(newest_time, journal_stat.st_mtime_ns // 1_000_000)
    return JournalListing("; ".join(reasons) or None, newest_time or None, tuple(older_files), older_bytes)


def expected_index_time(bookie: AttributedBookie, listing: JournalListing | None) -> DatedIndex | None:
    """Return until when an audit would take the index as complete (time and its source). None: unknown.

    This check only lists the journals. An audit also reads them, and may therefore find a different time.
    """
    journals = bookie.journals
    if listing is None or listing.reason is None:
        last_write = listing.last_write if listing else None
        write_times = [time for time in (journals.newest_mark_ms, last_write) if time is not None]
        index_date = DatedIndex(max(write_times), TimeBasis.LAST_WRITE) if write_times else None
    elif journals.clean_stop_ms is not None:
        index_date = DatedIndex(journals.clean_stop_ms, TimeBasis.CLEAN_STOP)
    else:
        index_date = journals.index_date
    index_date = journals.limit_by_index(index_date)
    return None if index_date is None or index_date.time_ms > now_ms() else index_date


def journal_lines(
    bookies: Mapping[str, AttributedBookie], listings: Mapping[str, JournalListing]
) -> Iterator[AnswerLine]:
    """Yield lines about the journals of all bookies. The keys of both arguments are bookie ids."""
    reasons = {name: listing.reason for name, listing in listings.items() if listing.reason is not None}
    stopped_bookies = [name for name in reasons if bookies[name].journals.clean_stop_ms is not None]
    incomplete_bookies = sorted(reasons.keys() - set(stopped_bookies))
    readable_count = len(listings) - len(reasons)
    if listings:
        bookies_text = f"{readable_count:,} of {plural(len(listings), 'bookie')}"
        text = f"journals of {bookies_text} are complete from the last mark on"
        if stopped_bookies:
            text += f"; {len(stopped_bookies):,} stopped cleanly, so all their entries are in the index"
        yield AnswerLine(
            "bookies",
            "journals",
            AnswerState.OK if not incomplete_bookies else AnswerState.WARN,
            text,
            _journal_remedy(incomplete_bookies),
        )
    detail_texts = [f"{name}: {reasons[name]}" for name in incomplete_bookies[:MAX_JOURNALS_NAMED]]
    for detail_text in detail_texts + and_more(len(incomplete_bookies) - MAX_JOURNALS_NAMED):
        yield BOOKIES_TOPIC.warn("journal", detail_text)
    older_count = sum(len(listing.older_files) for listing in listings.values())
    if older_count:
        older_size_text = size(sum(listing.older_bytes for listing in listings.values()))
        yield BOOKIES_TOPIC.ok(
            "journals",
            f"{plural(older_count, 'journal file')} older than the last mark, {older_size_text}, will not "
            "be read: all their entries are in the index",
        )


def _journal_remedy(incomplete_bookies: list[str]) -> str | None:
    if not incomplete_bookies:
        return None
    return (
        "pass the journal directories of these bookies too. Without them, missing entries of ledgers "
        "that changed after the last mark are reported as suspected, not confirmed"
    )


MAX_NAMED = 20
"""Largest number of bookies and paths to name. Those that are not named are counted too."""

MAX_FILES_TRIED = 200
"""Largest number of files in an index directory to open as a trial of its permissions."""

MAX_INDEX_LAG_S = 86_400.0
"""Largest time in seconds that an index may be older than the metadata without a warning: one day.

If a ledger changed after the index was written, a finding of its missing entries stays unconfirmed.
"""


@dataclass
class Bookies:
    """Facts about the ``--bookies`` sources. They determine what an audit cannot see.

    ``index_kinds`` has the kinds of index storage that were found: idx, rocksdb or both. ``has_rpc_source``
    is True if ``rpc:`` is a source. ``reads_disks`` is True if a source is a directory. ``complete_bookies``
    has the bookies for which all directories were found.
    """

    index_kinds: set[str] = field(default_factory=set)
    has_rpc_source: bool = False
    reads_disks: bool = False
    complete_bookies: set[str] = field(default_factory=set)
    lines: list[AnswerLine] = field(default_factory=list)


def check_bookies(
    sources: BookieSources, metadata: Metadata | None, bookie_access: BookieAccess, options: AuditOptions
) -> Bookies:
    """Examine every ``--bookies`` source, without reading an index."""
    bookies = Bookies()
    bookies.lines.extend(_bookie_lines(sources, bookies, metadata, bookie_access, options))
    return bookies


def _bookie_lines(
    bookie_sources: BookieSources,
    bookies: Bookies,
    metadata: Metadata | None,
    bookie_access: BookieAccess,
    options: AuditOptions,
) -> Iterator[AnswerLine]:
    bookies.has_rpc_source, bookies.reads_disks = bookie_sources.rpc, bool(bookie_sources.directories)
    collected = collected_places(bookie_sources.collections)
    yield from _collection_lines(collected)
    nodes = metadata.nodes if metadata else None
    registration_rows = registrations(nodes) if nodes else []
    places = [*find_places(bookie_sources.directories), *collected.places]
    expected_ids, found_bookies = _attribute_directories(places, collected, nodes)
    index_directories = [
        directory for bookie in found_bookies.values() for directory in bookie.index_directories
    ]
    bookies.index_kinds = {directory.storage for directory in index_directories}
    bookies.complete_bookies = {id for id, bookie in found_bookies.items() if bookie.read == BookieRead.READ}
    if bookie_sources.directories or bookie_sources.collections:
        yield from _coverage_lines(found_bookies, expected_ids, nodes is not None, bookie_sources.rpc)
        no_disk_line = BOOKIES_TOPIC.ok("rights", "no source is a directory: no access to disks is needed")
        yield _rights_line(index_directories) if bookie_sources.directories else no_disk_line
        indexed_bookies = {id: bookie for id, bookie in found_bookies.items() if bookie.index_directories}
        listings = {id: list_bookie_journals(bookie) for id, bookie in indexed_bookies.items()}
        yield from journal_lines(found_bookies, listings)
        index_times = {
            name: expected_index_time(bookie, listings.get(name))
            for name, bookie in found_bookies.items()
            if bookie.has_directory
        }
        yield _index_time_line(index_times, metadata, options)
    if ROCKSDB in bookies.index_kinds:
        yield _scratch_line(index_directories)
    may_ask_bookies = metadata is not None and metadata.store.live and options.witness == "yes"
    if bookie_sources.rpc and nodes is None:
        yield BOOKIES_TOPIC.not_asked("rpc:", "registered bookies are unknown without the metadata")
    elif bookie_sources.rpc or may_ask_bookies:
        yield from access_lines(registration_rows, bookie_sources.rpc, bookie_access, options)


def _collection_lines(collected: CollectedPlaces) -> Iterator[AnswerLine]:
    for path, reason in collected.unreadable_collections:
        yield BOOKIES_TOPIC.warn(
            "collection",
            f"{path} cannot be used: {reason}",
            "collect these bookies again; until then they count as unread",
            EXIT_NOT_COVERED,
        )
    for note in collected.notes:
        yield BOOKIES_TOPIC.ok("collection", note)


def _attribute_directories(
    places: Sequence[FoundPlace], collected: CollectedPlaces, nodes: ClusterNodes | None
) -> tuple[set[str], Mapping[str, AttributedBookie]]:
    """Return the expected bookie ids (of the store, else of VERSION files), and the bookies found, by id."""
    if nodes is None:  # the VERSION files alone show which bookie owns a directory
        attribution_by_version = attribute_directories(places, frozenset(), {}, None)
        expected_ids = {
            directory.cookie_bookie_id
            for directory in attribution_by_version.directories
            if directory.cookie_bookie_id is not None
        }
        attribution = attribute_directories(places, expected_ids, {}, None)
    else:
        cookies = store_cookies(nodes)
        expected_ids = {cookie.bookie_id for cookie in cookies} | {
            row["bookie_id"] for row in registrations(nodes)
        }
        cookie_by_id = {cookie.bookie_id: cookie.cookie for cookie in cookies if cookie.cookie is not None}
        attribution = attribute_directories(places, expected_ids, cookie_by_id, instance_id(nodes))
    return expected_ids, find_piece_owners(attribution, collected).attribution.bookies


def _coverage_lines(
    found_bookies: Mapping[str, AttributedBookie],
    expected_ids: set[str],
    has_nodes: bool,
    has_rpc_source: bool,
) -> Iterator[AnswerLine]:
    unread_reasons = {
        name: "no --bookies source contains a directory of this bookie"
        for name in sorted(expected_ids)
        if name not in found_bookies
    }
    unread_reasons |= {
        name: bookie.reason or "" for name, bookie in found_bookies.items() if bookie.read != BookieRead.READ
    }
    foreign_bookies = [name for name, bookie in found_bookies.items() if bookie.foreign_instance]
    foreign_reason = "all of its directories have the instance id of another cluster"
    unread_reasons |= dict.fromkeys(foreign_bookies, foreign_reason)
    bookie_count = len({*found_bookies, *expected_ids})
    readable_count = bookie_count - len(unread_reasons)
    origin_text = "named in cookies or registrations" if has_nodes else "named in VERSION files"
    text = f"{readable_count:,} of {plural(bookie_count, 'bookie')} {origin_text} can be read in full"
    if not unread_reasons and readable_count:
        yield BOOKIES_TOPIC.ok("coverage", text)
    elif not unread_reasons:
        remedy_text = "pass a directory with one subdirectory for each bookie"
        yield BOOKIES_TOPIC.warn("coverage", text, remedy_text, EXIT_NOT_COVERED)
    else:
        yield BOOKIES_TOPIC.warn(
            "coverage",
            text,
            "the audit asks the other bookies over the network"
            if has_rpc_source
            else "pass the directories of the other bookies, or a collection of them, with another "
            "--bookies option. Or pass --bookies rpc: to ask the bookies over the network",
            EXIT_NOT_COVERED,
        )
    detail_texts = [f"{name}: {unread_reasons[name]}" for name in sorted(unread_reasons)[:MAX_NAMED]]
    for detail_text in detail_texts + and_more(len(unread_reasons) - MAX_NAMED):
        yield BOOKIES_TOPIC.warn("not read", detail_text)


def _rights_line(directories: Sequence[IndexDirectory]) -> AnswerLine:
    denied_files = [entry for directory in directories for entry in _find_denied_files(directory)]
    if not denied_files:
        return AnswerLine(
            "bookies",
            "rights",
            AnswerState.OK if directories else AnswerState.WARN,
            f"{plural(len(directories), 'index directory', 'index directories')} can be listed and read here"
            if directories
            else "no index directory was found",
        )
    denied_text = "; ".join(f"{path}: {reason}" for path, reason in denied_files[:MAX_NAMED])
    more_text = f"; and {len(denied_files) - MAX_NAMED:,} more" if len(denied_files) > MAX_NAMED else ""
    return BOOKIES_TOPIC.warn(
        "rights",
        f"user {os.geteuid()} may not read {denied_text}{more_text}",
        "run as a user with read access here and on every executor, such as the user of the bookies",
        EXIT_NOT_COVERED,
    )


def _find_denied_files(directory: IndexDirectory) -> Iterator[tuple[str, str]]:
    """Yield (path, reason) for files of an index directory that this user cannot open.

    The function opens about `MAX_FILES_TRIED` files at most, and reads nothing.
    """
    current = Path(directory.path, "current")
    if directory.storage == INDEX_FILES:
        pending_dirs = [current]
    else:
        pending_dirs = [path for path in (current / "ledgers", current / "locations") if path.is_dir()]
    tried_count = 0
    while pending_dirs and tried_count < MAX_FILES_TRIED:
        path = pending_dirs.pop(0)
        try:
            with os.scandir(path) as entries:
                for entry in islice(entries, MAX_FILES_TRIED):
                    tried_count += 1
                    if entry.is_dir():
                        pending_dirs.append(Path(entry.path))
                    elif entry.is_file():
                        os.close(os.open(entry.path, os.O_RDONLY))
        except FileNotFoundError:
            continue  # a running bookie may delete files meanwhile
        except OSError as error:
            yield error.filename or str(path), error.strerror or str(error)


def _index_time_line(
    index_times: Mapping[str, DatedIndex | None], metadata: Metadata | None, options: AuditOptions
) -> AnswerLine:
    undated_bookies = sorted(name for name, index_date in index_times.items() if index_date is None)
    current_ms = now_ms()
    if options.index_time is not None:
        text = f"--index-time is {age(to_time_ms(options.index_time), current_ms)}"
        return BOOKIES_TOPIC.ok("index time", text)
    if undated_bookies:
        return BOOKIES_TOPIC.warn(
            "index time",
            f"{plural(len(undated_bookies), 'bookie')} (first: {undated_bookies[0]}): the index time is "
            "unknown, because there is neither a lastMark nor a plausible file time. Missing entries "
            "there are reported as suspected, not confirmed",
            "preserve the file times when you copy the disks and journals; or pass --index-time",
        )
    index_dates = [index_date for index_date in index_times.values() if index_date is not None]
    if not index_dates:
        return BOOKIES_TOPIC.not_asked("index time", "no index was found")
    oldest_time = min(index_dates).time_ms
    text = f"the oldest index was written {age(oldest_time, current_ms)} ({min(index_dates).basis.sentence})"
    scan_time = metadata.scan_time if metadata else None
    if scan_time is None:
        return BOOKIES_TOPIC.ok("index time", text)
    lag_s, lead_s = (scan_time - oldest_time) / 1000, (max(index_dates).time_ms - scan_time) / 1000
    if lag_s > MAX_INDEX_LAG_S:
        return BOOKIES_TOPIC.warn(
            "index time",
            f"{text}, {duration(lag_s)} before the metadata. Missing entries of ledgers that "
            "changed in between are reported as suspected, not confirmed",
            "pass newer copies of the disks; or pass --index-time, if the copies lost the file times",
        )
    assert metadata is not None
    if lead_s > options.grace and not metadata.store.live:
        return BOOKIES_TOPIC.warn(
            "index time",
            f"the newest index was written {duration(lead_s)} after the metadata was saved. "
            "Ledgers created in between look like orphans, and are reported as suspected",
            "save the metadata after you copy the disks",
        )
    return BOOKIES_TOPIC.ok("index time", text)


def _scratch_line(directories: Sequence[IndexDirectory]) -> AnswerLine:
    """Return a line that compares free scratch space with the largest RocksDB write-ahead log.

    An audit copies the write-ahead log of a database before it opens the database.
    """
    largest_log_bytes = 0
    for directory in directories:
        for database in ("ledgers", "locations"):
            log_files = Path(directory.path, "current", database).glob("*.log")
            largest_log_bytes = max(largest_log_bytes, sum(log_file.stat().st_size for log_file in log_files))
    scratch_path = tempfile.gettempdir()
    free_bytes = shutil.disk_usage(scratch_path).free
    text = f"{scratch_path} has {size(free_bytes)} free; the largest write-ahead log to copy there has "
    text += size(largest_log_bytes)
    if free_bytes < 2 * largest_log_bytes:
        return BOOKIES_TOPIC.warn("scratch", text, "set TMPDIR to a directory with more room")
    return BOOKIES_TOPIC.ok("scratch", text)
