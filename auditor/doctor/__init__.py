"""Checks before a first run: whether an audit has everything it needs, and what it cannot see.

The checks read the records of bookies, and some hundreds of znodes to count ledgers. The checks keep to the
audit's own rate limit, and write nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from auditor.checks.needs import AvailableInputs
from auditor.doctor.bookies import Bookies, look_at_bookies
from auditor.doctor.machine import look_at_out, machine
from auditor.doctor.owners import look_at_owners
from auditor.doctor.registrations import registration_lines
from auditor.doctor.sources import PlannedSources, parse_sources
from auditor.doctor.store import Metadata, read_metadata
from auditor.model.amounts import first_names
from auditor.model.options import AuditOptions
from auditor.model.report import NOT_COVERED
from auditor.reports.blind_spots import blind_spots
from auditor.reports.doctor import BOOKIES, Diagnosis, Line, State
from auditor.sources.bookies.parts import ROCKSDB
from auditor.tables.registry import instance_id

__all__ = ["PlannedSources", "examine", "parse_sources"]

IDS_SHOWN = 5
"""Largest number of check ids that a sentence names."""


def examine(
    sources: PlannedSources | None = None,
    out: str | None = None,
    options: AuditOptions | None = None,
    start_spark: bool = False,
) -> Diagnosis:
    """Check this machine and the sources of a planned audit. Each problem is a line of the result.

    Args:
        sources: the parsed sources (`parse_sources`); None to check only this machine.
        out: the path or URI of the run directory, which need not exist.
        options: the options of the audit.
        start_spark: whether to start a Spark session with one Python worker too.

    Raises:
        UsageError: a source is invalid in a way that only its store shows.
    """
    options, sources = options or AuditOptions(), sources or PlannedSources()
    lines = list(machine(options, start_spark))
    metadata = sources.metadata
    store = read_metadata(metadata, sources.credentials, options) if metadata is not None else None
    lines += store.lines if store else [_missing_option_line("store", "access", "--metadata URI")]
    lines += look_at_owners(sources, options)
    disks = None
    if sources.bookies is not None:
        disks = look_at_bookies(sources.bookies, store, sources.access, options)
    if store is not None and store.nodes is not None:
        lines += registration_lines(store.store.root, store.nodes, disks.whole if disks else ())
    lines += disks.lines if disks else [_missing_bookies_line(is_named=metadata is not None)]
    lines += (
        look_at_out(out, metadata) if out is not None else [_missing_option_line("out", "place", "--out RUN")]
    )
    return Diagnosis(tuple(lines), tuple(_name_blind_spots(store, disks, options.witness == "yes")))


def _name_blind_spots(
    metadata: Metadata | None, bookies: Bookies | None, may_ask_bookies: bool
) -> Iterator[str]:
    """Yield a sentence for each thing that the audit cannot see.

    Args:
        metadata: the checked store; None if no metadata URI was given.
        bookies: the checked bookies; None if no bookies were given.
        may_ask_bookies: True if ``--witness`` allows reads from bookies.
    """
    if metadata is None and bookies is None:
        return
    for blind_spot in blind_spots(_expected_inputs(metadata, bookies, may_ask_bookies)):
        yield f"{blind_spot.sentence}; checks: {first_names(blind_spot.ids, IDS_SHOWN)}"
    if metadata is not None and metadata.store.live and not metadata.store.keeps_times:
        yield (
            "the age of missing entries: a running etcd keeps no times; these entries stay "
            "suspect, unless the index is newer than the scan or the bookie itself was asked"
        )
    if bookies is None:
        return
    if metadata is not None:
        yield (
            "bookies that only ensembles mention: the audit finds them when it scans all "
            "metadata, and cannot read them if no source covers them"
        )
    if bookies.disks:
        yield (
            "entries that are in no index yet, if the journal cannot be read from the last mark "
            "on: missing entries of a ledger that changed after the mark are only suspected"
        )
    if ROCKSDB in bookies.storages:
        yield (
            "entries that a running bookie on DbLedgerStorage flushes during the read: a copy of "
            "its database shows only one moment"
        )
    if bookies.rpc:
        yield (
            "bookies on DbLedgerStorage, if only rpc: is given: they do not list their entries, "
            "and are unread"
        )
    yield "damaged entries: an index has the location of an entry, not its content"


def _expected_inputs(
    metadata: Metadata | None, bookies: Bookies | None, may_ask_bookies: bool
) -> AvailableInputs:
    """Return the inputs that the audit will have, judging by its sources before they are read.

    A store counts as complete if no URI was given, or if its own znodes could not be read.
    """
    inputs = AvailableInputs()
    if metadata is not None:
        store, live = metadata.store, metadata.store.live
        inputs = AvailableInputs(
            is_live=live,
            has_two_scans=live,
            keeps_replication_marks=store.keeps_marks,
            keeps_times=store.keeps_times,
            has_instance_id=metadata.nodes is None or instance_id(metadata.nodes) is not None,
            asks_bookies=live and may_ask_bookies,
        )
    if bookies is None:
        return replace(inputs, has_bookie_sources=False, directory_count=0, read_bookie_count=0)
    is_rpc_only = bookies.rpc and not bookies.disks and not bookies.storages
    return replace(inputs, directory_count=int(not is_rpc_only))


def _missing_bookies_line(is_named: bool) -> Line:
    """Return the line for an audit without bookies, which cannot decide anything about copies of entries.

    ``is_named`` is True if a metadata URI was given.
    """
    if not is_named:
        return _missing_option_line("bookies", "coverage", "--bookies PATH")
    text = "no --bookies PATH was given: such an audit checks only metadata"
    return BOOKIES.not_asked(
        "coverage", text, "pass the directories of the indexes with --bookies", NOT_COVERED
    )


def _missing_option_line(topic: str, name: str, option: str) -> Line:
    return Line(topic, name, State.NOT_ASKED, f"no {option} was given")
