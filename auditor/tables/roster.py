"""What is known of the cluster and its bookies, held by the driver: all that does not grow with ledgers.

A cluster has tens of bookies, thousands at most; for 100,000 of them these rows take up to 1 GB. What looks
at them needs no query, and most of the time of a small audit went into preparing such queries.
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


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster that was audited, and the clock that ages are counted from.

    ``scan_time`` is milliseconds since 1970: the server's clock on a live store, the largest ctime or mtime
    in a saved one, so that the same input gives the same findings. ``has_marks`` is false where the store
    keeps no under-replication marks (``keeps_marks``), or not all of them could be listed: their absence then
    means nothing. ``instance_id_missing``:
    the cluster surely has no instance id; false where it could not be read. ``bare``: the store surely has
    neither a LAYOUT nor an id generator, as if no cluster had ever used it. ``lists_no_ledger``: it was
    listed without a gap, has no ledger, and is not a new cluster. ``unproved_bookies`` are the bookies whose
    data is of another time or cluster than the metadata, and why: no finding that rests on it is confirmed.
    ``has_sources``: bookies' indexes could be looked for, as an audit of metadata alone does not.
    ``bookies_listed``: cookies and registrations were seen to their end; where not, a bookie without one is
    unknown, not a ghost. ``orphans_known``: when the earlier run ended that ``holdings`` counts lasting
    orphans by, ms; None: there is none.
    ``unclear_bookies`` are those of which alone that could not be read. ``tree_elsewhere``: that the ledgers
    lie where the store's LAYOUT does not say, as a sentence; None: they do not. ``layout_known``: the store
    says which layout it has, or can have one alone; else it is assumed. ``placement`` is the policy to
    judge by; None: no mapping of bookies to locations is known, and no policy was chosen;
    ``placement_differences`` are sentences of what AutoRecovery is configured to do otherwise than brokers.
    ``copies_complete``: the metadata was read without a gap, every judged entry has all its copies, and no
    bookie holds a ledger without metadata.
    ``repair`` is who repairs ledgers, and how many wait. ``settings`` are the constants of the checks.
    ``resolves_ids``: clients look for bookies at what these registered; False where ``--bookie-conf``
    switches that off (BP-41), so that an id is the address itself.

    >>> facts = ClusterFacts("a77a8e0d", 90_000_000, live=False, layout="flat", two_scans=False)
    >>> facts.scan_time - facts.settings.stuck_ms
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
    bare: bool = False
    lists_no_ledger: bool = False
    unproved_bookies: Mapping[str, str] = field(default_factory=dict)
    bookies_listed: bool = True
    orphans_known: int | None = None
    unclear_bookies: frozenset[str] = frozenset()
    has_sources: bool = True
    tree_elsewhere: str | None = None
    layout_known: bool = True
    placement: PlacementSettings | None = None
    placement_differences: tuple[str, ...] = ()
    copies_complete: bool = False
    repair: RepairState = field(default_factory=RepairState)
    settings: CheckSettings = field(default_factory=CheckSettings)
    resolves_ids: bool = True


Row = dict[str, Any]


@dataclass(frozen=True)
class Roster:
    """Bookies and stores of owners of one cluster: rows of tables in `auditor.tables.run_tables`."""

    cookies: Sequence[Row]
    registrations: Sequence[Row]
    bookies: Sequence[Row]
    bookie_locations: Sequence[Row]
    directories: Sequence[Row]
    starts: Sequence[Row]
    contents: Sequence[Row]
    identities: Sequence[Row]
    identity_edges: Sequence[Row]
    owner_stores: Sequence[Row]
    cluster: ClusterFacts

    @classmethod
    def read(cls, rows: Callable[[str], Sequence[Row]], cluster: ClusterFacts) -> Roster:
        """The roster of a cluster; ``rows`` gives the rows of each of `ROSTER_TABLES` by its name."""
        return cls(**{name: rows(name) for name in ROSTER_TABLES}, cluster=cluster)

    @cached_property
    def locations(self) -> Locations:
        """Where the bookies stand."""
        from auditor.tables.placement import locations_of  # not above: checks load no Arrow

        return locations_of(self.bookie_locations, None)

    def sought_address(self, registration: Row) -> tuple[str, int] | None:
        """Host and port at which clients look for a registered bookie; None if they look nowhere."""
        if not self.cluster.resolves_ids:
            return legacy_address(registration["bookie_id"])
        host = registration["host"]
        return None if host is None else (host, registration["port"])

    @cached_property
    def clear_bookies(self) -> list[Row]:
        """The rows of ``bookies`` whose lack of a cookie or a registration is known to be one."""
        # A listing that failed shows no bookie, and proves the absence of none.
        if not self.cluster.bookies_listed:
            return []
        return [row for row in self.bookies if row["bookie_id"] not in self.cluster.unclear_bookies]

    @cached_property
    def unregistered(self) -> list[Row]:
        """The rows of ``bookies`` that an ensemble names and surely nobody registered."""
        return [row for row in self.clear_bookies if row["named"] and row["registered"] is None]

    @cached_property
    def suspect_ids(self) -> list[str]:
        """The bookies of whose data it is not sure that they are theirs."""
        return [row["bookie_id"] for row in self.bookies if row["suspect"]]

    @cached_property
    def unread(self) -> list[Row]:
        """The rows of ``bookies`` that were to be read, and were not or in part."""
        return [
            row for row in self.bookies if (row["named"] or row["found"]) and row["read"] != BookieRead.READ
        ]

    @cached_property
    def every_cookie(self) -> list[Row]:
        """The cookies of the store and of the disks, damaged ones too; ``place`` says which.

        On disk ``bookie_id`` is whose place the directory lies in. A VERSION that is not there is no cookie.
        """
        # One shape for both, so that a check asks one question of every cookie.
        stored = [{**row, "place": "metadata store"} for row in self.cookies]
        on_disk = [
            {**row, "bookie_id": row["place"], "place": row["path"]}
            for row in self.directories
            if row["cookie_bookie_id"] is not None
            or (row["damage"] is not None and not row["version_absent"])
        ]
        return stored + on_disk

    @cached_property
    def aliases(self) -> frozenset[tuple[str, str]]:
        """Every two ids, in both orders, that the check bookie-alias reports as one.

        Only identities that strand a ledger: ids that are all registered are of one address, and the check
        endpoint-duplicate says so.
        """
        return frozenset(
            (row["bookie_id"], alias)
            for row in self.identities
            if row["stranded"]
            for alias in row["aliases"]
        )


ROSTER_TABLES = tuple(roster_field.name for roster_field in fields(Roster) if roster_field.name != "cluster")
"""The tables of a run that it is made of."""
