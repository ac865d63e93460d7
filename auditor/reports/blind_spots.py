"""What a run could not have found, and why: no finding there means nothing.

A check that looks at what a store does not keep, or that no source showed, is silent and not satisfied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.checks import ALL, Need
from auditor.model.amounts import first_names
from auditor.model.report import Report
from auditor.model.run_view import RunView

UNCLEAR_SHOWN = 5
"""So many bookies are named of which a cookie or a registration could not be read."""

ENTRIES_WHOLE = "entries read whole"
"""The operation of a run that looked deep: it held entries to their digests."""


def checks_that_need(*needs: Need) -> tuple[str, ...]:
    """The ids of the checks that cannot do without any of some things, in the order of the catalogue.

    >>> checks_that_need(Need.TIMES)
    ('index-incomplete', 'recovery-stuck')
    """
    return tuple(check.id for check in ALL if check.needs & {*needs})


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """Checks that saw nothing of what ``where`` names, and why; an empty ``where`` means nothing at all."""

    ids: tuple[str, ...]
    why: str
    where: str = ""


def blind_spots(run: RunView) -> list[BlindSpot]:
    """What this run could not see, what is blind altogether first."""
    unread = (BlindSpot(checks_that_need(need), why) for need, why in unread_sources(run.report))
    return [*_store_spots(run), *_bookie_spots(run), *unread, *_cluster_spots(run), *_part_spots(run)]


def unread_sources(report: Report) -> Iterator[tuple[Need, str]]:
    """What a run was not given to read, or not asked to, and how it reads it."""
    if not report.run.entry_logs:
        yield Need.ENTRY_LOGS, "entry logs were not read: --entry-logs reads them"
    elif ENTRIES_WHOLE not in report.run.operations:
        yield Need.DIGESTS, "no entry was read whole: --deep does"
    if not report.run.owners:
        why = "nobody's owners were read: none lie beside BookKeeper's root, and --owners names none"
        yield Need.OWNERS, why
    elif not report.run.offload_listing:
        yield Need.OBJECTS, "the bucket of offloaded ledgers was not looked at: --offload-listing does"


def _store_spots(run: RunView) -> Iterator[BlindSpot]:
    """What the metadata store does not keep, or could not list."""
    if run.report.cluster.layout == "etcd":
        yield BlindSpot(checks_that_need(Need.MARKS), "etcd keeps no under-replication marks and no locks")
        yield BlindSpot(checks_that_need(Need.TIMES), "etcd keeps no times, so no age is known")
    elif not run.marks_listed:
        yield BlindSpot(checks_that_need(Need.ALL_MARKS), "not all under-replication marks could be listed")
    if run.bookies_hidden is not None or run.unclear_bookies:
        why = run.bookies_hidden or "a cookie or a registration could not be read"
        where = "" if run.bookies_hidden is not None else first_names(run.unclear_bookies, UNCLEAR_SHOWN)
        yield BlindSpot(checks_that_need(Need.ALL_BOOKIES), why, where)


def _bookie_spots(run: RunView) -> Iterator[BlindSpot]:
    """What of all bookies was not read, or not asked for."""
    report = run.report
    if not run.directories:
        if not report.coverage.bookies.read:
            why = "no --bookies was given" if report.metadata_only else "no bookie was read"
            yield BlindSpot(checks_that_need(Need.COPIES, Need.DISKS), why)
        else:
            why = "bookies were only asked (rpc:), which tells nothing of their disks"
            yield BlindSpot(checks_that_need(Need.DISKS), why)
    elif not run.witness:
        why = "--witness no" if report.run.live else "saved metadata"
        yield BlindSpot(checks_that_need(Need.WITNESS), f"{why}: no bookie was asked what its index lacks")


def _cluster_spots(run: RunView) -> Iterator[BlindSpot]:
    """What there was nothing to compare with."""
    if run.report.cluster.instance_id is None:
        why = "the cluster has no instance id to compare with"
        yield BlindSpot(checks_that_need(Need.INSTANCE_ID), why)
    if len(run.report.run.positions) < 2:
        yield BlindSpot(
            checks_that_need(Need.TWO_SCANS),
            "one scan of saved metadata stands for both, so nothing can be seen to change",
            "what changed while the bookies were read",
        )


def _part_spots(run: RunView) -> Iterator[BlindSpot]:
    """What was looked at but for a part: some bookies, some ids."""
    seen = run.report.coverage
    if run.unread and (seen.bookies.read or run.directories):
        left = len(seen.bookies.unread)
        where = f"{left:,} bookies that were not read whole" if left > 1 else run.unread[0].bookie_id
        copies = checks_that_need(Need.COPIES, Need.DISKS)
        yield BlindSpot(copies, "what is not in a readable index is neither there nor missing", where)
    if run.report.run.in_doubt is not None:
        yield BlindSpot(
            checks_that_need(Need.ALL_LEDGERS),
            "a part of the ledger tree could not be read, or lies in the wrong place",
            "ids that it could stand for",
        )
