"""Inputs that checks need, inputs that a run read, and needs that the run did not meet.

If a need of a check is not met, a lack of findings proves nothing. Only `unmet_needs` decides which needs a
run did not meet, and all reports use it. `bkaudit doctor` uses it for a planned audit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from auditor.model.amounts import first_names

if TYPE_CHECKING:
    from auditor.model.report import Report

MAX_SHOWN_BOOKIES = 5
"""Largest number of bookies with an unreadable cookie or registration that a text names."""

WHOLE_ENTRIES_OPERATION = "entries read whole"
"""Name of the operation of a ``--deep`` run that compares entries with their digests."""


class Need(StrEnum):
    """An input that a check requires. Without the input, the check cannot prove that a fault is absent."""

    METADATA = "metadata"
    """All records of the metadata. `Check.all_needs` adds this need, so that no check declares it."""

    MARKS = "marks"
    """A store that keeps under-replication marks and locks."""
    ALL_MARKS = "all marks"
    """A complete list of the under-replication marks, for checks that report absent marks."""
    ALL_LEDGERS = "all ledgers"
    """A complete list of the ledgers."""
    ALL_BOOKIES = "all bookies"
    """A complete list of cookies and registrations, for checks that report absent ones."""
    REGISTRATIONS = "registrations"
    """A store with registrations. Saved metadata without any does not show which bookies are down."""
    TIMES = "times"
    """A store that keeps the times at which its records changed."""
    TWO_SCANS = "two scans"
    """A live store, which a run can scan twice to see changes."""
    INSTANCE_ID = "instance id"
    """An instance id of the cluster, to compare with the instance ids of bookies."""
    COPIES = "copies"
    """The bookies' indexes, or their answers to requests."""
    DISKS = "disks"
    """Files in the bookies' directories. Answers to requests do not show them."""
    ENTRY_LOGS = "entry logs"
    """A run with ``--entry-logs``."""
    DIGESTS = "digests"
    """A run with ``--deep``, which reads whole entries."""
    OWNERS = "owners"
    """Applications' lists of the ledgers that they use."""
    OBJECTS = "objects"
    """A list of the objects in the bucket to which ledgers are offloaded."""
    LOCATIONS = "locations"
    """A mapping of bookies to locations, or a chosen placement policy."""
    BOOKIE_ANSWERS = "witness"
    """Bookies of a live store that the run may ask for entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableInputs:
    """The inputs that a run read, or that a planned audit will read. By default, all inputs are available.

    A field is None if the run is from an earlier version that did not record it.

    Attributes:
        unread_place_reason: Reason why a part of the store with cookies or registrations was not read. None
            if all parts were read (`auditor.model.report.BookiesListed`).
        unclear_bookies: Bookies with a cookie or registration that could not be read.
        has_bookie_sources: Whether ``--bookies`` named a source.
        directory_count: Number of bookie directories found.
        read_bookie_count: Number of bookies that were read completely.
        has_undecided_copies: Whether the run could not find out for every ledger and replica which entries
            are missing.
        skipped_checks: Checks that the run skipped.
    """

    is_live: bool = True
    has_two_scans: bool = True
    keeps_replication_marks: bool | None = True
    keeps_times: bool | None = True
    lists_all_marks: bool | None = True
    unread_place_reason: str | None = None
    unclear_bookies: tuple[str, ...] | None = ()
    has_gaps: bool = False
    has_doubtful_ids: bool = False
    has_instance_id: bool = True
    has_bookie_sources: bool = True
    directory_count: int | None = 1
    read_bookie_count: int = 1
    unread_bookies: tuple[str, ...] = ()
    has_undecided_copies: bool = False
    asks_bookies: bool | None = True
    reads_entry_logs: bool = True
    reads_whole_entries: bool = True
    reads_owners: bool = True
    has_offload_listing: bool = True
    checks_placement: bool | None = True
    has_registrations: bool | None = True
    skipped_checks: tuple[str, ...] = ()

    @classmethod
    def from_report(cls, report: Report) -> AvailableInputs:
        """Return the inputs of a finished run."""
        run, coverage, registration_listing = report.run, report.coverage, report.run.bookies_listed
        return cls(
            is_live=run.live,
            has_two_scans=len(run.positions) > 1,
            keeps_replication_marks=run.keeps_marks,
            keeps_times=run.keeps_times,
            lists_all_marks=run.marks_listed,
            unread_place_reason=registration_listing["hidden"] if registration_listing else None,
            unclear_bookies=tuple(registration_listing["unclear"]) if registration_listing else None,
            has_gaps=bool(run.gaps),
            has_doubtful_ids=run.in_doubt is not None,
            has_instance_id=report.cluster.instance_id is not None,
            has_bookie_sources=not report.is_metadata_only,
            directory_count=run.directories_read,
            read_bookie_count=coverage.bookies.read,
            unread_bookies=coverage.bookies.unread,
            has_undecided_copies=not coverage.complete,
            asks_bookies=run.witness_asked,
            reads_entry_logs=run.entry_logs,
            reads_whole_entries=WHOLE_ENTRIES_OPERATION in run.operations,
            reads_owners=run.owners,
            has_offload_listing=run.offload_listing,
            checks_placement=None if run.keeps_marks is None else run.placement is not None,
            has_registrations=None if run.repair is None else run.repair["knows_registrations"],
            skipped_checks=run.checks_not_run,
        )


@dataclass(frozen=True, slots=True)
class MissingInput:
    """Reason why a need is not met.

    Attributes:
        affected_part: Part of the cluster for which the need is not met. Empty for the whole cluster.
        is_known: False if the run does not record whether the need was met.
    """

    reason: str
    affected_part: str = ""
    is_known: bool = True


def unmet_needs(inputs: AvailableInputs) -> dict[Need, MissingInput]:
    """Return the unmet needs with reasons. Needs that are unmet for the whole cluster come first."""
    missing_needs = [
        *_unmet_store_needs(inputs),
        *_unmet_bookie_needs(inputs),
        *_unmet_option_needs(inputs),
        *_unmet_partial_needs(inputs),
    ]
    input_by_need: dict[Need, MissingInput] = {}
    for need, missing_input in sorted(
        missing_needs,
        key=lambda need_and_input: (bool(need_and_input[1].affected_part), not need_and_input[1].is_known),
    ):
        input_by_need.setdefault(need, missing_input)
    return input_by_need


def _unrecorded_input(missing_fact: str) -> MissingInput:
    return MissingInput(
        f"an earlier bkaudit version made this run and did not record {missing_fact}", is_known=False
    )


def _unmet_store_needs(inputs: AvailableInputs) -> Iterator[tuple[Need, MissingInput]]:
    """Yield needs for data that the metadata store does not keep, or that the scan could not list."""
    if inputs.keeps_replication_marks is False:
        yield Need.MARKS, MissingInput("the store keeps no under-replication marks and no locks")
    elif inputs.keeps_replication_marks is None:
        yield Need.MARKS, _unrecorded_input("whether the store keeps under-replication marks")
    elif inputs.lists_all_marks is False:
        yield Need.ALL_MARKS, MissingInput("not all under-replication marks could be listed")
    if inputs.keeps_times is False:
        yield Need.TIMES, MissingInput("the store keeps no times, so ages are unknown")
    elif inputs.keeps_times is None:
        yield Need.TIMES, _unrecorded_input("whether the store keeps times")
    if inputs.unread_place_reason is not None:
        yield Need.ALL_BOOKIES, MissingInput(inputs.unread_place_reason)
    elif inputs.unclear_bookies is None:
        yield Need.ALL_BOOKIES, _unrecorded_input("whether all cookies and registrations could be read")
    elif inputs.unclear_bookies:
        affected_part = first_names(inputs.unclear_bookies, MAX_SHOWN_BOOKIES)
        yield Need.ALL_BOOKIES, MissingInput("a cookie or a registration could not be read", affected_part)
    if inputs.has_registrations is None:
        yield Need.REGISTRATIONS, _unrecorded_input("whether any bookie was registered")
    elif not inputs.has_registrations:
        reason = "the saved metadata has no registrations, so it is unknown which bookies are down"
        yield Need.REGISTRATIONS, MissingInput(reason)
    if not inputs.has_instance_id:
        yield Need.INSTANCE_ID, MissingInput("the cluster has no instance id to compare with")
    if not inputs.has_two_scans:
        reason = "saved metadata is scanned only once, so changes cannot be detected"
        yield Need.TWO_SCANS, MissingInput(reason, "changes made while the bookies were read")


def _unmet_bookie_needs(inputs: AvailableInputs) -> Iterator[tuple[Need, MissingInput]]:
    """Yield needs for data that the run did not get from any bookie."""
    if not inputs.directory_count and not inputs.read_bookie_count:
        missing_input = MissingInput(
            "no bookie was read" if inputs.has_bookie_sources else "no --bookies was given"
        )
        yield Need.COPIES, missing_input
        yield Need.DISKS, missing_input
        yield Need.ENTRY_LOGS, missing_input
    elif inputs.directory_count is None:
        yield Need.DISKS, _unrecorded_input("whether the run read directories of any bookie")
    elif inputs.directory_count == 0:
        yield (
            Need.DISKS,
            MissingInput("bookies were only asked for their entries (rpc:), so their disks were not checked"),
        )
    elif inputs.asks_bookies is False:
        reason = "--witness no" if inputs.is_live else "saved metadata"
        yield (
            Need.BOOKIE_ANSWERS,
            MissingInput(f"{reason}: no bookie was asked for entries missing from its index"),
        )
    if inputs.asks_bookies is None:
        yield (
            Need.BOOKIE_ANSWERS,
            _unrecorded_input("whether bookies could be asked for entries missing from their indexes"),
        )


def _unmet_option_needs(inputs: AvailableInputs) -> Iterator[tuple[Need, MissingInput]]:
    """Yield needs for data that the run did not read because of its options."""
    if not inputs.reads_entry_logs:
        yield Need.ENTRY_LOGS, MissingInput("entry logs were not read; add --entry-logs")
    elif not inputs.reads_whole_entries:
        yield Need.DIGESTS, MissingInput("no entry was read completely; add --deep to read a sample")
    if inputs.checks_placement is None:
        yield Need.LOCATIONS, _unrecorded_input("whether the run checked placement")
    elif not inputs.checks_placement:
        reason = (
            "placement was not checked: no racks were found next to BookKeeper's root, and --racks was not "
            "given"
        )
        yield Need.LOCATIONS, MissingInput(reason)
    if not inputs.reads_owners:
        reason = "owners were not read: none were found next to BookKeeper's root, and --owners was not given"
        yield Need.OWNERS, MissingInput(reason)
    elif not inputs.has_offload_listing:
        yield (
            Need.OBJECTS,
            MissingInput("objects of offloaded ledgers were not checked; add --offload-listing"),
        )


def _unmet_partial_needs(inputs: AvailableInputs) -> Iterator[tuple[Need, MissingInput]]:
    """Yield needs that are not met for some bookies, some ledger ids or some parts of the metadata."""
    if inputs.unread_bookies and (inputs.read_bookie_count or inputs.directory_count):
        unread_count = len(inputs.unread_bookies)
        affected_part = (
            f"{unread_count:,} bookies that were not fully read"
            if unread_count > 1
            else inputs.unread_bookies[0]
        )
        missing_input = MissingInput("entries outside readable indexes are unknown", affected_part)
        yield from ((need, missing_input) for need in (Need.COPIES, Need.DISKS, Need.ENTRY_LOGS))
    if inputs.has_gaps:
        missing_input = MissingInput(
            "not all of the metadata could be read", "records that could not be read"
        )
        yield from (
            (need, missing_input) for need in (Need.METADATA, Need.ALL_LEDGERS, Need.COPIES, Need.DISKS)
        )
    if inputs.has_doubtful_ids:
        reason = "part of the ledger tree could not be read or is at the wrong path"
        missing_input = MissingInput(reason, "ledger ids that may be in this part")
        yield Need.ALL_LEDGERS, missing_input
        yield Need.METADATA, missing_input
    if inputs.has_undecided_copies:
        missing_input = MissingInput("not everything could be checked (see coverage)", "unchecked copies")
        yield Need.COPIES, missing_input
        yield Need.DISKS, missing_input
