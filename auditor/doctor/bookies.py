"""Check of the ``--bookies`` sources: which bookies an audit would read completely. It reads no index.

The check lists the journal files from the last mark on, but does not open them.
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
from auditor.model.options import AuditOptions, parse_moment
from auditor.model.report import NOT_COVERED
from auditor.model.states import BookieRead, TimeBasis
from auditor.reports.doctor import BOOKIES, Line, State
from auditor.sources.bookies.collections.places import CollectedPlaces, collected_places, find_piece_owners
from auditor.sources.bookies.journal.files import list_journals
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie, attribute
from auditor.sources.bookies.parts import IDX, ROCKSDB, IndexDirectory
from auditor.sources.bookies.places import PlaceFound, find_places
from auditor.sources.bookies.rpc.access import BookieAccess
from auditor.sources.bookies.source_kinds import BookieSources
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import ClusterNodes
from auditor.tables.registry import instance_id, registrations, store_cookies

JOURNALS_NAMED = 5
"""Largest number of bookies with incomplete journals to name. All are counted."""


@dataclass(frozen=True)
class JournalLook:
    """Listings of a bookie's journal directories.

    ``reason`` is why an audit cannot read the journals completely; None if the listings show no problem.
    ``modified`` is the last write to a journal file at or after the mark, in ms; None if there is no such
    file. ``below`` are the paths of files before the mark, and ``below_bytes`` is their total size.
    """

    reason: str | None
    modified: int | None = None
    below: tuple[str, ...] = ()
    below_bytes: int = 0


def look_at_journals(bookie: AttributedBookie) -> JournalLook:
    """List a bookie's journal directories on this machine."""
    if bookie.journals.trouble is not None:
        return JournalLook(bookie.journals.trouble)
    reasons, newest_time, below, below_bytes = [], 0, list[str](), 0
    for directory in bookie.journals.directories:
        mark = LastMark(directory.mark_file_id, directory.mark_offset)
        try:
            files = [(file.id, file.path, Path(file.path).stat()) for file in list_journals(directory.path)]
        except (OSError, ValueError) as error:
            reasons.append(f"{directory.path}: {error}")
            continue
        if mark.file_id > 0 and mark.file_id not in {file_id for file_id, _, _ in files}:
            reasons.append(f"{directory.path}: journal file of lastMark missing: {mark.file_name}")
        for file_id, path, state in files:
            if file_id < mark.file_id:
                below.append(path)
                below_bytes += state.st_size
            else:
                newest_time = max(newest_time, state.st_mtime_ns // 1_000_000)
    return JournalLook("; ".join(reasons) or None, newest_time or None, tuple(below), below_bytes)


def expected_index_time(bookie: AttributedBookie, look: JournalLook | None) -> DatedIndex | None:
    """Return the index time that an audit would use for a bookie, with its basis; None if unknown.

    The journals are only listed, not read, so the audit may find another time.
    """
    journals = bookie.journals
    if look is None or look.reason is None:
        times = [time for time in (journals.mark_ms, look.modified if look else None) if time is not None]
        date = DatedIndex(max(times), TimeBasis.LAST_WRITE) if times else None
    elif journals.clean_stop_ms is not None:
        date = DatedIndex(journals.clean_stop_ms, TimeBasis.CLEAN_STOP)
    else:
        date = journals.index_date
    date = journals.limit_by_index(date)
    return None if date is None or date.time_ms > now_ms() else date


def journal_lines(
    bookies: Mapping[str, AttributedBookie], looks: Mapping[str, JournalLook]
) -> Iterator[Line]:
    """Yield lines about the journals of all bookies.

    ``bookies`` and ``looks`` are by bookie id.
    """
    reasons = {name: look.reason for name, look in looks.items() if look.reason is not None}
    stopped_bookies = [name for name in reasons if bookies[name].journals.clean_stop_ms is not None]
    incomplete_bookies = sorted(reasons.keys() - set(stopped_bookies))
    readable = len(looks) - len(reasons)
    if looks:
        text = (
            f"journals of {readable:,} of {plural(len(looks), 'bookie')} are complete from the last mark on"
        )
        if stopped_bookies:
            text += f"; {len(stopped_bookies):,} stopped cleanly, with all entries in the index"
        yield Line(
            "bookies",
            "journals",
            State.OK if not incomplete_bookies else State.WARN,
            text,
            _journal_remedy(incomplete_bookies),
        )
    details = [f"{name}: {reasons[name]}" for name in incomplete_bookies[:JOURNALS_NAMED]]
    for detail in details + and_more(len(incomplete_bookies) - JOURNALS_NAMED):
        yield BOOKIES.warn("journal", detail)
    old_files = sum(len(look.below) for look in looks.values())
    if old_files:
        old_size = size(sum(look.below_bytes for look in looks.values()))
        yield BOOKIES.ok(
            "journals",
            f"{plural(old_files, 'journal file')} below the marks, {old_size}, are not read: all "
            "their entries are flushed",
        )


def _journal_remedy(incomplete_bookies: list[str]) -> str | None:
    if not incomplete_bookies:
        return None
    return (
        "pass the journal directories of these bookies too: without them, missing entries of ledgers "
        "that changed after the last mark are only suspected"
    )


MAX_NAMED = 20
"""Largest number of bookies and paths to name. All are counted."""

TRIED = 200
"""Largest number of files to try to open in one index directory. Permissions rarely differ between files."""

STALE_S = 86_400.0
"""Largest time in seconds that an index may be older than the metadata without a warning: one day.

Missing entries of ledgers that changed after the index was written stay unconfirmed.
"""


@dataclass
class Bookies:
    """Facts about the ``--bookies`` sources, from which an audit's blind spots follow.

    ``storages`` are the kinds of index storage found, idx and rocksdb. ``rpc`` is True if ``rpc:`` is a
    source. ``disks`` is True if a source is a directory. ``whole`` are the bookies with all their directories
    found.
    """

    storages: set[str] = field(default_factory=set)
    rpc: bool = False
    disks: bool = False
    whole: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)


def look_at_bookies(
    sources: BookieSources, metadata: Metadata | None, access: BookieAccess, options: AuditOptions
) -> Bookies:
    """Examine every ``--bookies`` source, as an audit would before it reads the indexes."""
    bookies = Bookies()
    bookies.lines.extend(_lines(sources, bookies, metadata, access, options))
    return bookies


def _lines(
    kinds: BookieSources,
    bookies: Bookies,
    metadata: Metadata | None,
    access: BookieAccess,
    options: AuditOptions,
) -> Iterator[Line]:
    bookies.rpc, bookies.disks = kinds.rpc, bool(kinds.directories)
    collected = collected_places(kinds.collections)
    yield from _collection_lines(collected)
    nodes = metadata.nodes if metadata else None
    registered = registrations(nodes) if nodes else []
    expected_ids, attributions = _attribution(
        [*find_places(kinds.directories), *collected.places], collected, nodes
    )
    on_disk = [directory for bookie in attributions.values() for directory in bookie.index_directories]
    bookies.storages = {directory.storage for directory in on_disk}
    bookies.whole = {name for name, bookie in attributions.items() if bookie.read == BookieRead.READ}
    if kinds.directories or kinds.collections:
        yield from _coverage_lines(attributions, expected_ids, nodes is not None, kinds.rpc)
        untouched_line = BOOKIES.ok("rights", "only collected tables are read, and no bookie's disk")
        yield _rights_line(on_disk) if kinds.directories else untouched_line
        looks = {
            name: look_at_journals(bookie)
            for name, bookie in attributions.items()
            if bookie.index_directories
        }
        yield from journal_lines(attributions, looks)
        times = {
            name: expected_index_time(bookie, looks.get(name))
            for name, bookie in attributions.items()
            if bookie.has_directory
        }
        yield _times(times, metadata, options)
    if ROCKSDB in bookies.storages:
        yield _scratch(on_disk)
    may_ask_bookies = metadata is not None and metadata.store.live and options.witness == "yes"
    if kinds.rpc and nodes is None:
        yield BOOKIES.not_asked("rpc:", "registered bookies are unknown without the metadata")
    elif kinds.rpc or may_ask_bookies:
        yield from access_lines(registered, kinds.rpc, access, options)


def _collection_lines(collected: CollectedPlaces) -> Iterator[Line]:
    for path, reason in collected.unreadable_collections:
        yield BOOKIES.warn(
            "collection",
            f"{path} cannot be used: {reason}",
            "collect it again; its bookies are unread until then",
            NOT_COVERED,
        )
    for note in collected.notes:
        yield BOOKIES.ok("collection", note)


def _attribution(
    places: Sequence[PlaceFound], collected: CollectedPlaces, nodes: ClusterNodes | None
) -> tuple[set[str], Mapping[str, AttributedBookie]]:
    """Return the ids of the expected bookies, and the bookies that were found, by id."""
    if nodes is None:  # then the VERSIONs alone say who is who
        by_version = attribute(places, frozenset(), {}, None)
        expected_ids = {
            directory.cookie_bookie_id
            for directory in by_version.directories
            if directory.cookie_bookie_id is not None
        }
        attribution = attribute(places, expected_ids, {}, None)
    else:
        cookies = store_cookies(nodes)
        expected_ids = {cookie.bookie_id for cookie in cookies} | {
            row["bookie_id"] for row in registrations(nodes)
        }
        by_id = {cookie.bookie_id: cookie.cookie for cookie in cookies if cookie.cookie is not None}
        attribution = attribute(places, expected_ids, by_id, instance_id(nodes))
    return expected_ids, find_piece_owners(attribution, collected).attribution.bookies


def _coverage_lines(
    attributions: Mapping[str, AttributedBookie], expected_ids: set[str], have_nodes: bool, rpc: bool
) -> Iterator[Line]:
    missing = {
        name: "no --bookies source has a directory of this bookie"
        for name in sorted(expected_ids)
        if name not in attributions
    }
    missing |= {
        name: bookie.reason or "" for name, bookie in attributions.items() if bookie.read != BookieRead.READ
    }
    foreign_bookies = [name for name, bookie in attributions.items() if bookie.foreign_instance]
    missing |= dict.fromkeys(foreign_bookies, "all of its directories carry another cluster's instance id")
    readable = len({*attributions, *expected_ids}) - len(missing)
    who = "in cookies or registrations" if have_nodes else "in VERSION files"
    text = (
        f"{readable:,} of {plural(len({*attributions, *expected_ids}), 'bookie')} {who} can be read in full"
    )
    if not missing and readable:
        yield BOOKIES.ok("coverage", text)
    elif not missing:
        remedy = "pass a directory with one subdirectory for each bookie"
        yield BOOKIES.warn("coverage", text, remedy, NOT_COVERED)
    else:
        yield BOOKIES.warn(
            "coverage",
            text,
            "the audit asks the other bookies over the network"
            if rpc
            else "pass the directories of the other bookies, or a collection of these, with one more "
            "--bookies; or ask the bookies, with --bookies rpc:",
            NOT_COVERED,
        )
    details = [f"{name}: {missing[name]}" for name in sorted(missing)[:MAX_NAMED]]
    for detail in details + and_more(len(missing) - MAX_NAMED):
        yield BOOKIES.warn("not read", detail)


def _rights_line(directories: Sequence[IndexDirectory]) -> Line:
    denied_entries = [entry for directory in directories for entry in _denied_entries(directory)]
    if not denied_entries:
        return Line(
            "bookies",
            "rights",
            State.OK if directories else State.WARN,
            f"{plural(len(directories), 'index directory', 'index directories')} can be listed and read here"
            if directories
            else "no index directory was found",
        )
    denied_words = "; ".join(f"{path}: {reason}" for path, reason in denied_entries[:MAX_NAMED])
    suffix = f"; and {len(denied_entries) - MAX_NAMED:,} more" if len(denied_entries) > MAX_NAMED else ""
    return BOOKIES.warn(
        "rights",
        f"user {os.geteuid()} may not read {denied_words}{suffix}",
        "here and on every executor, run as a user with read access; for example the bookies' user",
        NOT_COVERED,
    )


def _denied_entries(directory: IndexDirectory) -> Iterator[tuple[str, str]]:
    """Yield (path, reason) for files of an index directory that this user cannot open. Nothing is read.

    At most about `TRIED` files are tried.
    """
    current = Path(directory.path, "current")
    if directory.storage == IDX:
        unread_directories = [current]
    else:
        unread_directories = [path for path in (current / "ledgers", current / "locations") if path.is_dir()]
    tried = 0
    while unread_directories and tried < TRIED:
        path = unread_directories.pop(0)
        try:
            with os.scandir(path) as entries:
                for entry in islice(entries, TRIED):
                    tried += 1
                    if entry.is_dir():
                        unread_directories.append(Path(entry.path))
                    elif entry.is_file():
                        os.close(os.open(entry.path, os.O_RDONLY))
        except FileNotFoundError:
            continue  # a running bookie removes files
        except OSError as error:
            yield error.filename or str(path), error.strerror or str(error)


def _times(times: Mapping[str, DatedIndex | None], metadata: Metadata | None, options: AuditOptions) -> Line:
    unknown = sorted(name for name, date in times.items() if date is None)
    current_ms = now_ms()
    if options.index_time is not None:
        text = f"--index-time says {age(parse_moment(options.index_time), current_ms)}"
        return BOOKIES.ok("index time", text)
    if unknown:
        return BOOKIES.warn(
            "index time",
            f"{plural(len(unknown), 'bookie')} (first: {unknown[0]}): the index time is unknown, "
            "because there is neither a lastMark nor a plausible file time; missing entries "
            "there are only suspected",
            "copy the disks and journals with their file times; or pass --index-time",
        )
    dates = [date for date in times.values() if date is not None]
    if not dates:
        return BOOKIES.not_asked("index time", "no index was found")
    oldest_time = min(dates).time_ms
    text = f"the oldest index was written {age(oldest_time, current_ms)} ({min(dates).basis.sentence})"
    scan_time = metadata.scan_time if metadata else None
    if scan_time is None:
        return BOOKIES.ok("index time", text)
    lag_s, lead_s = (scan_time - oldest_time) / 1000, (max(dates).time_ms - scan_time) / 1000
    if lag_s > STALE_S:
        return BOOKIES.warn(
            "index time",
            f"{text}, {duration(lag_s)} before the metadata: missing entries of ledgers that "
            "changed in between are only suspected",
            "read newer copies of the disks; or pass --index-time, if the copies have lost the file times",
        )
    assert metadata is not None
    if lead_s > options.grace and not metadata.store.live:
        return BOOKIES.warn(
            "index time",
            f"the newest index was written {duration(lead_s)} after the metadata was saved: "
            "ledgers created in between look like orphans, and are only suspected",
            "save the metadata after the disks are copied",
        )
    return BOOKIES.ok("index time", text)


def _scratch(directories: Sequence[IndexDirectory]) -> Line:
    """Return a line that compares free scratch space with the largest RocksDB write-ahead log.

    An audit copies the write-ahead log of a database before it opens the database.
    """
    largest = 0
    for directory in directories:
        for database in ("ledgers", "locations"):
            logs = Path(directory.path, "current", database).glob("*.log")
            largest = max(largest, sum(log.stat().st_size for log in logs))
    where = tempfile.gettempdir()
    free = shutil.disk_usage(where).free
    text = (
        f"{where} has {size(free)} free; the largest write-ahead log that is copied there has {size(largest)}"
    )
    if free < 2 * largest:
        return BOOKIES.warn("scratch", text, "set TMPDIR to a directory with more room")
    return BOOKIES.ok("scratch", text)
