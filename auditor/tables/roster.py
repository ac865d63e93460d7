"""What is known of the bookies, as rows that the driver holds: all that grows with them and not with ledgers.

A cluster has tens of bookies, thousands at most; for 100,000 of them these rows take up to 1 GB. What looks
at them needs no query, and most of the time of a small audit went into preparing such queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from auditor.model.placement import Locations
from auditor.model.states import BookieRead
from auditor.tables.facts import ClusterFacts

Row = dict[str, Any]


@dataclass(frozen=True)
class Roster:
    """The bookies of one cluster at one time: rows of tables in `auditor.tables.published_schemas`."""

    cookies: Sequence[Row]
    registrations: Sequence[Row]
    bookies: Sequence[Row]
    bookie_locations: Sequence[Row]
    directories: Sequence[Row]
    starts: Sequence[Row]
    contents: Sequence[Row]
    identities: Sequence[Row]
    identity_edges: Sequence[Row]
    cluster: ClusterFacts

    @classmethod
    def read(cls, rows: Callable[[str], Sequence[Row]], cluster: ClusterFacts) -> Roster:
        """The roster of a cluster; ``rows`` gives the rows of each of `ROSTER_TABLES` by its name."""
        return cls(**{name: rows(name) for name in ROSTER_TABLES}, cluster=cluster)

    @cached_property
    def locations(self) -> Locations:
        """Where the bookies stand."""
        from auditor.tables.bookie_locations import locations_of  # not above: checks load no Arrow

        return locations_of(self.bookie_locations, None)

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


ROSTER_TABLES = tuple(each.name for each in fields(Roster) if each.name != "cluster")
"""The tables of a run that it is made of."""
