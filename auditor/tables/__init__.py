"""The tables a check may read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from auditor.model.collector_settings import CollectorSettings
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.facts import ClusterFacts
from auditor.tables.roster import Roster

__all__ = ["OF_ENTRY_LOGS", "OF_OFFLOADS", "OF_PLACEMENT", "ClusterFacts", "Roster", "Tables"]

OF_ENTRY_LOGS = (
    "space",
    "entry_logs",
    "disks",
    "misplaced",
    "digests",
    "log_foresight",
    "deletion_candidates",
)
"""Tables that a run has only where entry logs were read; ``digests`` only with --deep."""

OF_OFFLOADS = ("offload_objects",)
"""Tables that a run has only with the inventory of a bucket (``--offload-listing``)."""


OF_PLACEMENT = ("placement",)
"""Tables that a run has only where it knows by which placement policy to judge."""


@dataclass(frozen=True)
class Tables:
    """One cluster at one time, as DataFrames; the published schemas describe every saved column.

    Saved with a run: ``ledgers`` (one row per znode of the ledger tree), ``marks``, ``locks``, ``bookies``
    (one row for every bookie id that an ensemble, a cookie, a registration or a directory knows),
    ``availability`` (one row per ledger and bookie with an index), ``unequal`` (pairs whose expected and held
    entries differ), ``judged`` (what that means, one row per ledger) and ``verdicts`` (the class of every
    ledger). What else is known of the bookies is in ``roster``, as rows and not as tables.

    Derived for the checks, each following what is odd and not the size of the cluster:

    ``orphans``
        One row per ledger and bookie: a ledger that a bookie holds and the last metadata scan does not list.
        ``bookie_id``, ``scope_id``, ``ledger_id``, ``groups``, ``in_m0`` and ``in_m1`` (whether the scan
        before and after the bookies listed it; alike where one scan stands for both), ``newer_than_scan``
        (its index file is newer than a saved scan, or its id may be), ``doubt`` (why the store may have it
        all the same, unseen; null where nothing says so).
    ``holdings``
        One row per bookie with an index: ``bookie_id``, ``ledgers`` (that it holds), ``orphans`` (of those),
        ``in_doubt`` (orphans with a ``doubt``), ``lasting`` (others, that an hour did not collect).
    ``vanished_ranges``
        ``bookie_id``, ``scope_id``, ``low``, ``high``, ``ledgers``, ``in_doubt``: blocks of 10,000 ids of
        which a bookie holds at least 100 ledgers, all of them orphans.
    ``stale_marks``
        One row per mark of a ledger that has all its copies: ``ledger_id``, ``path``, ``replicas``,
        ``since``, ``why`` (returned or repaired).
    ``empty_directories``
        One row per directory of marks without any: ``path``, ``ctime``.
    ``ownership``
        One row per reference to a ledger, and one per ledger without (`auditor.tables.ownership`); no rows
        where no application's owners were read.
    ``undrawn``
        ``bookie_id``, ``undrawn``, ``lowest``, ``highest``: how many orphans of a bookie have ids that the
        store's own id generator has not given out, and between which ids.
    ``over_replicated``
        One row per ledger and bookie that no ensemble of the ledger names: ``scope_id``, ``ledger_id``,
        ``bookie_id``, ``count`` (entries held), ``state``, ``marked``, ``locked``, ``exposed`` (a member is
        unregistered or read-only, so that the copy may be one that an operator is making).
    ``unindexed``
        One row per ledger and bookie: entries that the bookie served and its index lacks, which no clock
        explains. ``scope_id``, ``ledger_id``, ``bookie_id``, ``groups``, ``count``.
    """

    ledgers: DataFrame
    ledgers_of_marks: DataFrame
    """The rows of ``ledgers`` that marks are of, or more of them: what is asked of a mark's ledger."""
    marks: DataFrame
    locks: DataFrame
    bookies: DataFrame
    availability: DataFrame
    unequal: DataFrame
    judged: DataFrame
    verdicts: DataFrame
    orphans: DataFrame
    holdings: DataFrame
    vanished_ranges: DataFrame
    undrawn: DataFrame
    over_replicated: DataFrame
    unindexed: DataFrame
    stale_marks: DataFrame
    empty_directories: DataFrame
    ownership: DataFrame
    roster: Roster
    cluster: ClusterFacts

    moved: DataFrame | None = None
    """What two scans of a live store differ in (`auditor.tables.moved`); None where one stands for both."""

    space: DataFrame | None = None
    """Whose each byte of the entry logs is (`auditor.tables.space`); None where these were not read."""

    entry_logs: DataFrame | None = None
    """The entry logs, one row a file and one a ledger in it; None likewise."""

    disks: DataFrame | None = None
    """What lies beside them, and how full the file systems are (`auditor.sources.bookies.entry_logs.rows`);
    None likewise."""

    misplaced: DataFrame | None = None
    """What the index points at and is not there (`auditor.tables.misplaced`); None likewise."""

    digests: DataFrame | None = None
    """Sampled entries, held to their digests (`auditor.tables.digests`); None where --deep was not given."""

    gc_foresight: DataFrame | None = None
    """What collectors do next (`auditor.tables.gc_foresight`); None where it was not made yet."""

    log_foresight: DataFrame | None = None
    """What they do with each entry log (`auditor.tables.log_foresight`); None where these were not read."""

    deletion_candidates: DataFrame | None = None
    """The logs that they delete next, complete (`auditor.tables.deletion_candidates`); None likewise."""

    collector: CollectorSettings = field(default_factory=CollectorSettings)
    """How the bookies' garbage collectors are taken to be set."""
    offload_objects: DataFrame | None = None
    """Copies in an object store (`auditor.tables.offload_objects`); None where no listing was given."""

    placement: DataFrame | None = None
    """Segments that break the placement policy, or are at risk (`auditor.tables.placement`); None where
    nothing says by which policy to judge."""

    known_empty: frozenset[str] = frozenset()
    """Tables, those of the properties and parts (`auditor.tables.parts`) too, of which the driver knows that
    they have no rows."""

    made_once: dict[Callable[[Tables], DataFrame], DataFrame] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What `auditor.tables.once` keeps; nothing of it goes along when other tables are made of these."""

    def without_rows(self, landed: Collection[str], empty: Collection[str]) -> frozenset[str]:
        """`known_empty` once the tables ``landed`` are there, of which those in ``empty`` have no rows."""
        return (self.known_empty - {*landed}) | ({*empty} & {*landed})

    @property
    def unregistered(self) -> DataFrame:
        """The rows of ``bookies`` that are `Roster.unregistered`."""
        return self.bookies.where(
            F.col("bookie_id").isin([row["bookie_id"] for row in self.roster.unregistered])
        )
