"""Facts about the cluster and its bookies in the driver's memory.

The facts come from all tables whose size does not depend on the number of ledgers. A cluster has tens of
bookies, or thousands at most. For 100,000 bookies the facts would take up to 1 GB. Code that reads them
needs no Spark query. Spark queries for the facts would take most of the time of a small audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from auditor.model.bookie_id import legacy_address
from auditor.model.check_settings import CheckSettings
from auditor.model.placement import Locations, PlacementSettings
from auditor.model.repair import RepairState
from auditor.model.states import BookieRead


def is_unread(bookie_row: Mapping[str, Any]) -> bool:
    """Return whether an audit should have read a bookie but did not read it completely.

    >>> is_unread({"named": True, "found": False, "read": "unread"})
    True
    """
    is_expected = bool(bookie_row["named"] or bookie_row["found"])
    return is_expected and bookie_row["read"] != BookieRead.READ


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The audited cluster, and the time from which ages are counted.

    Attributes:
        scan_time: Milliseconds since 1970. For a live store, the time by the server's clock. For a saved
            store, the largest ctime or mtime in it, so that the same input gives the same findings.
        has_marks: False if the store keeps no under-replication marks (``keeps_marks``), or if not all of
            them could be listed. A missing mark then proves nothing.
        instance_id_missing: The cluster certainly has no instance id. False if it could not be read.
        looks_unused: The store certainly looks unused: it has neither a LAYOUT nor an id generator.
        lists_no_ledger: The store was listed without a gap and has no ledger, but the cluster is not new.
        unproved_bookies: The reason for each bookie whose data comes from a different time or cluster than
            the metadata. No finding that depends on such data is confirmed.
        has_sources: The audit could look for bookies' indexes. False for an audit of metadata alone.
        bookies_listed: Cookies and registrations were listed completely. If they were not, a bookie without
            a cookie or registration is unknown, not a ghost (an id that occurs only in ensembles).
        earlier_orphans_time: End of the earlier run whose orphans ``holdings`` compares (``lasting``), in
            ms. None if there is no such run.
        unclear_bookies: Bookies whose own cookie or registration could not be read.
        wrong_tree_reason: A sentence if the ledgers are not where the store's LAYOUT says, else None.
        layout_known: The store records its layout, or can have only one. If False, the layout is assumed.
        placement: The placement policy by which ledgers are judged. None if no mapping of bookies to
            locations is known and no policy was chosen.
        placement_differences: Sentences about settings that differ between AutoRecovery and brokers.
        copies_complete: The metadata was read without a gap, every entry has all copies that must exist, and
            no bookie holds a ledger without metadata.
        repair: The state of AutoRecovery, with the number of waiting ledgers.
        settings: The constants of the checks.
        resolves_ids: Clients find bookies at their registered addresses. False if ``--bookie-conf``
            disables this (BP-41). A bookie's id is then also its address.

    >>> facts = ClusterFacts("a77a8e0d", 90_000_000, live=False, layout="flat", two_scans=False)
    >>> facts.scan_time - facts.settings.stuck_limit_ms
    3600000
    """

    instance_id: str | None
    scan_time: int
    live: bool
    layout: str
    two_scans: bool
    has_marks: bool = True
    keeps_marks: bool = True
    instance_id_missing: bool = False
    looks_unused: bool = False
    lists_no_ledger: bool = False
    unproved_bookies: Mapping[str, str] = field(default_factory=dict)
    bookies_listed: bool = True
    earlier_orphans_time: int | None = None
    unclear_bookies: frozenset[str] = frozenset()
    has_sources: bool = True
    wrong_tree_reason: str | None = None
    layout_known: bool = True
    placement: PlacementSettings | None = None
    placement_differences: tuple[str, ...] = ()
    copies_complete: bool = False
    repair: RepairState = field(default_factory=RepairState)
    settings: CheckSettings = field(default_factory=CheckSettings)
    resolves_ids: bool = True


TableRow = dict[str, Any]


@dataclass(frozen=True)
class Roster:
    """The rows about one cluster in the driver: its bookies and its stores of owners.

    Owners are objects of applications, such as topics, that refer to ledgers. Each field except ``cluster``
    has the rows of the table with the same name in `auditor.tables.run_tables`.
    """

    cookies: Sequence[TableRow]
    registrations: Sequence[TableRow]
    bookies: Sequence[TableRow]
    bookie_locations: Sequence[TableRow]
    directories: Sequence[TableRow]
    starts: Sequence[TableRow]
    contents: Sequence[TableRow]
    identities: Sequence[TableRow]
    identity_edges: Sequence[TableRow]
    owner_stores: Sequence[TableRow]
    cluster: ClusterFacts

    @classmethod
    def read(cls, rows: Callable[[str], Sequence[TableRow]], cluster: ClusterFacts) -> Roster:
        """Read the roster of a cluster. ``rows`` returns the rows of a table in `ROSTER_TABLES`."""
        return cls(**{table_name: rows(table_name) for table_name in ROSTER_TABLES}, cluster=cluster)

    @cached_property
    def locations(self) -> Locations:
        """Return the locations of the bookies."""
        from auditor.tables.placement import locations_of  # imported here, because checks must not load Arrow

        return locations_of(self.bookie_locations, None)

    def client_address(self, registration: TableRow) -> tuple[str, int] | None:
        """Return the host and port at which clients look for a registered bookie.

        Returns None if the bookie has no address.
        """
        if not self.cluster.resolves_ids:
            return legacy_address(registration["bookie_id"])
        host = registration["host"]
        return None if host is None else (host, registration["port"])

    @cached_property
    def certain_bookies(self) -> list[TableRow]:
        """Return the rows of ``bookies`` whose cookie and registration were read or are certainly absent."""
        # A listing that failed does not prove that a bookie is absent.
        if not self.cluster.bookies_listed:
            return []
        return [row for row in self.bookies if row["bookie_id"] not in self.cluster.unclear_bookies]

    @cached_property
    def unregistered(self) -> list[TableRow]:
        """Return the rows of bookies that an ensemble names but that are certainly not registered."""
        return [row for row in self.certain_bookies if row["named"] and row["registered"] is None]

    @cached_property
    def suspect_bookie_ids(self) -> list[str]:
        """Return the ids of bookies whose data may belong to a different bookie."""
        return [row["bookie_id"] for row in self.bookies if row["suspect"]]

    @cached_property
    def unread_bookies(self) -> list[TableRow]:
        """Return the rows of ``bookies`` that the audit should have read but did not read completely."""
        return [row for row in self.bookies if is_unread(row)]

    @cached_property
    def all_cookies(self) -> list[TableRow]:
        """Return all cookies, in the store and on disks, including damaged ones.

        ``place`` tells where each cookie is. For a cookie on disk, ``bookie_id`` is the bookie at whose path
        the directory is. An absent VERSION file does not count as a cookie.
        """
        # Cookies of store and disks get the same keys, so that checks treat them alike.
        store_cookies = [{**row, "place": "metadata store"} for row in self.cookies]
        disk_cookies = [
            {**row, "bookie_id": row["place"], "place": row["path"]}
            for row in self.directories
            if row["cookie_bookie_id"] is not None
            or (row["damage"] is not None and not row["version_absent"])
        ]
        return store_cookies + disk_cookies

    @cached_property
    def aliases(self) -> frozenset[tuple[str, str]]:
        """Return pairs of ids of the same bookie, in both orders, that the check bookie-alias reports.

        A bookie counts only if ensembles name one of its ids, and this id is not registered. If all its ids
        are registered, they have the same address, and the check endpoint-duplicate reports that.
        """
        return frozenset(
            (row["bookie_id"], other_id)
            for row in self.identities
            if row["stranded"]
            for other_id in row["aliases"]
        )


ROSTER_TABLES = tuple(roster_field.name for roster_field in fields(Roster) if roster_field.name != "cluster")
"""Names of the tables of a run that make a `Roster`."""
