"""Inputs that checks need, inputs that a run read, and needs that the run did not meet.

If a need of a check is not met, the check finds nothing, and its silence proves nothing. Only `lacks` decides
which needs a run did not meet. All reports use `lacks`. `bkaudit doctor` uses it for a planned audit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from auditor.model.amounts import first_names

if TYPE_CHECKING:
    from auditor.model.report import Report

UNCLEAR_SHOWN = 5
"""Largest number of bookies with an unreadable cookie or registration that a text names."""

ENTRIES_WHOLE = "entries read whole"
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
    WITNESS = "witness"
    """Bookies of a live store that the run may ask for entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The inputs that a run read, or that a planned audit will read. By default, these are all inputs.

    A field is None if a run of an earlier version does not record it.

    Attributes:
        hidden: Reason why a place with cookies or registrations could not be read. None if all were read
            (`auditor.model.report.BookiesListed`).
        unclear: Bookies with a cookie or registration that could not be read.
        sources: Whether ``--bookies`` named a source.
        directories: Number of bookie directories found.
        read: Number of bookies that were read completely.
        undecided: Whether the run could not decide all ledgers and replicas.
        not_run: Checks that the run skipped.
    """

    live: bool = True
    two_scans: bool = True
    keeps_marks: bool | None = True
    keeps_times: bool | None = True
    marks_listed: bool | None = True
    hidden: str | None = None
    unclear: tuple[str, ...] | None = ()
    gaps: bool = False
    in_doubt: bool = False
    instance_id: bool = True
    sources: bool = True
    directories: int | None = 1
    read: int = 1
    unread: tuple[str, ...] = ()
    undecided: bool = False
    witness: bool | None = True
    entry_logs: bool = True
    deep: bool = True
    owners: bool = True
    offload_listing: bool = True
    placement: bool | None = True
    registrations: bool | None = True
    not_run: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: Report) -> Sight:
        """Return the inputs of a finished run."""
        run, coverage, registration_listing = report.run, report.coverage, report.run.bookies_listed
        return cls(
            live=run.live,
            two_scans=len(run.positions) > 1,
            keeps_marks=run.keeps_marks,
            keeps_times=run.keeps_times,
            marks_listed=run.marks_listed,
            hidden=registration_listing["hidden"] if registration_listing else None,
            unclear=tuple(registration_listing["unclear"]) if registration_listing else None,
            gaps=bool(run.gaps),
            in_doubt=run.in_doubt is not None,
            instance_id=report.cluster.instance_id is not None,
            sources=not report.metadata_only,
            directories=run.directories_read,
            read=coverage.bookies.read,
            unread=coverage.bookies.unread,
            undecided=not coverage.complete,
            witness=run.witness_asked,
            entry_logs=run.entry_logs,
            deep=ENTRIES_WHOLE in run.operations,
            owners=run.owners,
            offload_listing=run.offload_listing,
            placement=None if run.keeps_marks is None else run.placement is not None,
            registrations=None if run.repair is None else run.repair["knows_registrations"],
            not_run=run.not_run,
        )


@dataclass(frozen=True, slots=True)
class Lack:
    """Reason why a need is not met.

    Attributes:
        where: Part of the cluster for which the need is not met. Empty for the whole cluster.
        is_known: False if the run does not record whether the need was met.
    """

    why: str
    where: str = ""
    is_known: bool = True


def lacks(sight: Sight) -> dict[Need, Lack]:
    """Return the needs that are not met, with reasons. Needs that are not met at all come first."""
    missing_needs = [
        *_store_lacks(sight),
        *_bookie_lacks(sight),
        *_option_lacks(sight),
        *_partial_lacks(sight),
    ]
    lack_by_need: dict[Need, Lack] = {}
    for need, lack in sorted(
        missing_needs, key=lambda need_and_lack: (bool(need_and_lack[1].where), not need_and_lack[1].is_known)
    ):
        lack_by_need.setdefault(need, lack)
    return lack_by_need


def _unrecorded_lack(missing_fact: str) -> Lack:
    return Lack(
        f"an earlier version wrote this run, and did not record whether {missing_fact}", is_known=False
    )


def _store_lacks(sight: Sight) -> Iterator[tuple[Need, Lack]]:
    """Yield needs for data that the metadata store does not keep, or that the scan could not list."""
    if sight.keeps_marks is False:
        yield Need.MARKS, Lack("the store keeps no under-replication marks and no locks")
    elif sight.keeps_marks is None:
        yield Need.MARKS, _unrecorded_lack("the store keeps under-replication marks")
    elif sight.marks_listed is False:
        yield Need.ALL_MARKS, Lack("not all under-replication marks could be listed")
    if sight.keeps_times is False:
        yield Need.TIMES, Lack("the store keeps no times, so no age is known")
    elif sight.keeps_times is None:
        yield Need.TIMES, _unrecorded_lack("the store keeps times")
    if sight.hidden is not None:
        yield Need.ALL_BOOKIES, Lack(sight.hidden)
    elif sight.unclear is None:
        yield Need.ALL_BOOKIES, _unrecorded_lack("all cookies and registrations could be read")
    elif sight.unclear:
        affected_part = first_names(sight.unclear, UNCLEAR_SHOWN)
        yield Need.ALL_BOOKIES, Lack("a cookie or a registration could not be read", affected_part)
    if sight.registrations is None:
        yield Need.REGISTRATIONS, _unrecorded_lack("any bookie was registered")
    elif not sight.registrations:
        reason = "the saved metadata has no registration, so which bookies are down is unknown"
        yield Need.REGISTRATIONS, Lack(reason)
    if not sight.instance_id:
        yield Need.INSTANCE_ID, Lack("the cluster has no instance id to compare with")
    if not sight.two_scans:
        reason = "saved metadata is scanned once, so changes cannot be seen"
        yield Need.TWO_SCANS, Lack(reason, "changes while the bookies were read")


def _bookie_lacks(sight: Sight) -> Iterator[tuple[Need, Lack]]:
    """Yield needs for data of bookies that the run did not get from any bookie."""
    if not sight.directories and not sight.read:
        lack = Lack("no bookie was read" if sight.sources else "no --bookies was given")
        yield Need.COPIES, lack
        yield Need.DISKS, lack
        yield Need.ENTRY_LOGS, lack
    elif sight.directories is None:
        yield Need.DISKS, _unrecorded_lack("it read the directories of any bookie")
    elif sight.directories == 0:
        yield (
            Need.DISKS,
            Lack("bookies were only asked for their entries (rpc:), so their disks were not checked"),
        )
    elif sight.witness is False:
        reason = "--witness no" if sight.live else "saved metadata"
        yield Need.WITNESS, Lack(f"{reason}: no bookie was asked for entries that its index lacks")
    if sight.witness is None:
        yield Need.WITNESS, _unrecorded_lack("bookies could be asked for entries that their indexes lack")


def _option_lacks(sight: Sight) -> Iterator[tuple[Need, Lack]]:
    """Yield needs for data that the run did not read because of its options."""
    if not sight.entry_logs:
        yield Need.ENTRY_LOGS, Lack("entry logs were not read: --entry-logs adds them")
    elif not sight.deep:
        yield Need.DIGESTS, Lack("no entry was read completely: --deep reads a sample")
    if sight.placement is None:
        yield Need.LOCATIONS, _unrecorded_lack("it checked placement")
    elif not sight.placement:
        reason = (
            "placement was not checked: no racks were found next to BookKeeper's root, and --racks was not "
            "given"
        )
        yield Need.LOCATIONS, Lack(reason)
    if not sight.owners:
        reason = "owners were not read: none were found next to BookKeeper's root, and --owners was not given"
        yield Need.OWNERS, Lack(reason)
    elif not sight.offload_listing:
        yield Need.OBJECTS, Lack("objects of offloaded ledgers were not checked: --offload-listing adds them")


def _partial_lacks(sight: Sight) -> Iterator[tuple[Need, Lack]]:
    """Yield needs that are not met for some bookies, some ids or some places of the metadata."""
    if sight.unread and (sight.read or sight.directories):
        unread_count = len(sight.unread)
        affected_part = (
            f"{unread_count:,} bookies that were not fully read" if unread_count > 1 else sight.unread[0]
        )
        lack = Lack("entries outside readable indexes are unknown", affected_part)
        yield from ((need, lack) for need in (Need.COPIES, Need.DISKS, Need.ENTRY_LOGS))
    if sight.gaps:
        lack = Lack("not all of the metadata could be read", "records that could not be read")
        yield from ((need, lack) for need in (Need.METADATA, Need.ALL_LEDGERS, Need.COPIES, Need.DISKS))
    if sight.in_doubt:
        reason = "a part of the ledger tree could not be read, or is at the wrong path"
        lack = Lack(reason, "ledger ids that this part may hide")
        yield Need.ALL_LEDGERS, lack
        yield Need.METADATA, lack
    if sight.undecided:
        lack = Lack("not everything could be checked (see coverage)", "unchecked copies")
        yield Need.COPIES, lack
        yield Need.DISKS, lack
