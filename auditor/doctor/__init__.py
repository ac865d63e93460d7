"""Checks before a first run: whether an audit has everything it needs, and what it cannot see.

The checks read the records of bookies in the metadata store, and some hundreds of znodes to count ledgers.
They obey the audit's rate limit, and write nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from auditor.checks.needs import AvailableInputs
from auditor.doctor.bookies import Bookies, check_bookies
from auditor.doctor.machine import check_machine, check_run_directory
from auditor.doctor.owners import check_owner_stores
from auditor.doctor.registrations import registration_lines
from auditor.doctor.sources import PlannedSources, parse_sources
from auditor.doctor.store import Metadata, read_metadata
from auditor.model.amounts import first_names
from auditor.model.options import AuditOptions
from auditor.model.report import EXIT_NOT_COVERED
from auditor.reports.blind_spots import make_blind_spots
from auditor.reports.doctor import BOOKIES_TOPIC, AnswerLine, AnswerState, Diagnosis
from auditor.sources.bookies.parts import ROCKSDB
from auditor.tables.registry import instance_id

__all__ = ["PlannedSources", "examine", "parse_sources"]

MAX_IDS_SHOWN = 5
"""Largest number of check ids that a sentence names."""


def examine(
    sources: PlannedSources | None = None,
    out: str | None = None,
    options: AuditOptions | None = None,
    starts_spark: bool = False,
) -> Diagnosis:
    """Check this machine and the sources of a planned audit. Each problem is a line of the result.

    Args:
        sources: the parsed sources (`parse_sources`). None to check this machine alone.
        out: the path or URI of the run directory, which need not exist.
        options: the options of the audit.
        starts_spark: whether to also start a Spark session with one Python worker.

    Raises:
        UsageError: a source is invalid in a way that `parse_sources` cannot see from its URI.
    """
    options, sources = options or AuditOptions(), sources or PlannedSources()
    lines = list(check_machine(options, starts_spark))
    metadata = sources.metadata
    store = read_metadata(metadata, sources.credentials, options) if metadata is not None else None
    lines += store.lines if store else [_missing_option_line("store", "access", "--metadata URI")]
    lines += check_owner_stores(sources, options)
    bookie_facts = None
    if sources.bookies is not None:
        bookie_facts = check_bookies(sources.bookies, store, sources.access, options)
    if store is not None and store.nodes is not None:
        lines += registration_lines(
            store.store.root, store.nodes, bookie_facts.complete_bookies if bookie_facts else ()
        )
    lines += (
        bookie_facts.lines if bookie_facts else [_missing_bookies_line(has_metadata_uri=metadata is not None)]
    )
    lines += (
        check_run_directory(out, metadata)
        if out is not None
        else [_missing_option_line("out", "place", "--out RUN")]
    )
    return Diagnosis(tuple(lines), tuple(_name_blind_spots(store, bookie_facts, options.witness == "yes")))


def _name_blind_spots(
    metadata: Metadata | None, bookies: Bookies | None, may_ask_bookies: bool
) -> Iterator[str]:
    """Yield a sentence for each kind of fault that the audit cannot see.

    Args:
        metadata: the checked store. None if no metadata URI was given.
        bookies: the checked bookies. None if no bookies were given.
        may_ask_bookies: True if ``--witness`` allows reads from bookies.
    """
    if metadata is None and bookies is None:
        return
    for blind_spot in make_blind_spots(_expected_inputs(metadata, bookies, may_ask_bookies)):
        yield f"{blind_spot.sentence}; checks: {first_names(blind_spot.ids, MAX_IDS_SHOWN)}"
    if metadata is not None and metadata.store.live and not metadata.store.keeps_times:
        yield (
            "the age of missing entries: a running etcd keeps no times. These entries stay "
            "suspect, unless the index is newer than the scan or the bookie itself was asked"
        )
    if bookies is None:
        return
    if metadata is not None:
        yield (
            "bookies with neither a cookie nor a registration: the audit finds them in ensembles when it "
            "scans all metadata. It cannot read them unless a source covers them"
        )
    if bookies.reads_disks:
        yield (
            "entries that are only in the journal, if the journal cannot be read from the last mark on. Then "
            "missing entries of ledgers that changed after the mark are reported as suspected, not confirmed"
        )
    if ROCKSDB in bookies.index_kinds:
        yield (
            "entries that a running bookie on DbLedgerStorage flushes while its database is read. "
            "The audit reads a copy of the database from one point in time"
        )
    if bookies.has_rpc_source:
        yield (
            "bookies on DbLedgerStorage, if --bookies rpc: is their only source: they do not list "
            "their entries, and count as unread"
        )
    yield "damaged entries: an index contains the location of an entry, not its content"


def _expected_inputs(
    metadata: Metadata | None, bookies: Bookies | None, may_ask_bookies: bool
) -> AvailableInputs:
    """Return the inputs that the audit is expected to have, before the sources are read.

    All inputs from the store are expected if no metadata URI was given. They are also expected if the store
    could not be read.
    """
    inputs = AvailableInputs()
    if metadata is not None:
        store, is_live = metadata.store, metadata.store.live
        inputs = AvailableInputs(
            is_live=is_live,
            has_two_scans=is_live,
            keeps_replication_marks=store.keeps_marks,
            keeps_times=store.keeps_times,
            has_instance_id=metadata.nodes is None or instance_id(metadata.nodes) is not None,
            asks_bookies=is_live and may_ask_bookies,
        )
    if bookies is None:
        return replace(inputs, has_bookie_sources=False, directory_count=0, read_bookie_count=0)
    is_rpc_only = bookies.has_rpc_source and not bookies.reads_disks and not bookies.index_kinds
    return replace(inputs, directory_count=int(not is_rpc_only))


def _missing_bookies_line(has_metadata_uri: bool) -> AnswerLine:
    """Return the line for an audit without bookie sources, which cannot check copies of entries."""
    if not has_metadata_uri:
        return _missing_option_line("bookies", "coverage", "--bookies PATH")
    line_text = "no --bookies PATH was given: an audit without bookies checks only the metadata"
    return BOOKIES_TOPIC.not_asked(
        "coverage", line_text, "pass the index directories of the bookies with --bookies", EXIT_NOT_COVERED
    )


def _missing_option_line(line_topic: str, line_name: str, option: str) -> AnswerLine:
    return AnswerLine(line_topic, line_name, AnswerState.NOT_ASKED, f"no {option} was given")
