"""What is true of the whole cluster at the time of an audit: a handful of values, no table."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.placement import PlacementSettings

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster that was audited, and the clock that ages are counted from.

    ``scan_time`` is milliseconds since 1970: the server's clock on a live store, the largest ctime or mtime
    in a saved one, so that the same input gives the same findings. ``has_marks`` is false where the store
    keeps no under-replication marks (``keeps_marks``), or not all of them could be listed: their absence then
    means nothing. ``instance_id_missing``:
    the cluster surely has no instance id; false where it could not be read. ``bare``: the store surely has
    neither a LAYOUT nor an id generator, as if no cluster had ever used it.
    ``has_sources``: bookies' indexes could be looked for, as an audit of metadata alone does not.
    ``bookies_listed``: cookies and registrations were seen to their end; where not, a bookie without one is
    unknown, not a ghost. ``orphans_known``: when the earlier run ended that ``holdings`` counts lasting
    orphans by, ms; None: there is none.
    ``unclear_bookies`` are those of which alone that could not be read. ``tree_elsewhere``: that the ledgers
    lie where the store's LAYOUT does not say, as a sentence; None: they do not. ``layout_known``: the store
    says which layout it has, or can have one alone; else it is assumed. ``placement`` is the policy to
    judge by; None: no mapping of bookies to locations is known, and no policy was chosen;
    ``placement_differences`` are sentences of what AutoRecovery is configured to do otherwise than brokers.

    >>> facts = ClusterFacts("a77a8e0d", 90_000_000, live=False, layout="flat", two_scans=False)
    >>> facts.scan_time - facts.stuck_after_ms
    3600000
    """

    instance_id: str | None
    scan_time: int
    live: bool
    layout: str
    two_scans: bool
    stuck_after_ms: int = _DAY_MS
    has_marks: bool = True
    keeps_marks: bool = True
    instance_id_missing: bool = False
    bare: bool = False
    bookies_listed: bool = True
    orphans_known: int | None = None
    unclear_bookies: frozenset[str] = frozenset()
    has_sources: bool = True
    tree_elsewhere: str | None = None
    layout_known: bool = True
    placement: PlacementSettings | None = None
    placement_differences: tuple[str, ...] = ()
