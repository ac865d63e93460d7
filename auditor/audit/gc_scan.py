"""What the bookies' garbage collectors do next: the table gc_foresight, and the settings that it rests on.

It needs the metadata and the indexes alone, and starts from what is odd already: orphans, copies outside of
the ensembles. Only a store with a record in the wrong place, or with the greatest id there is, has all of its
ledgers looked at again, for then the server's listing is another than the scan's.

A bookie keeps a deleted ledger until its collector passes, so that much of what a busy bookie has may be
orphans of the last interval: `listed_lately` says which those are.
"""

from __future__ import annotations

from dataclasses import replace

from auditor.audit.metadata import ClusterMetadata
from auditor.audit.runs_before import RunsBefore
from auditor.checks.gc_guards import doubted_orphans
from auditor.codecs.bookie import java_properties
from auditor.errors import DecodeError, UsageError
from auditor.model.collector_settings import CollectorSettings
from auditor.model.layout import LayoutKind
from auditor.model.remark import Remark, RemarkKind, remark
from auditor.model.states import LISTED, LedgerStatus
from auditor.sources.bookies.collections.places import IN_COLLECTION
from auditor.sources.regular_file import read_regular
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.deletion_candidates import deletion_candidates
from auditor.tables.gc_foresight import GC_FORESIGHT, Collector, gc_foresight
from auditor.tables.gc_listing import ServerListing, listed_ids, odd, outcome, places, ranges
from auditor.tables.id_generator import Ids
from auditor.tables.log_foresight import log_foresight
from auditor.tables.orphans import Lately

USUAL_INTERVAL_MS = 900_000
"""gcWaitTime as Pulsar sets it; the server's own default is shorter."""


def collector_settings(path: str | None) -> CollectorSettings:
    """How the collectors are set, by a bookie's configuration file; the server's defaults without one.

    Raises:
        UsageError: no such file, no properties, or values with which no bookie starts.
    """
    if path is None:
        return CollectorSettings()
    try:
        return CollectorSettings.of(java_properties.decode(read_regular(path)), path)
    except OSError as error:
        raise UsageError(f"--bookie-conf {path}: {error.strerror or error}") from None
    except (DecodeError, ValueError) as error:
        raise UsageError(f"--bookie-conf {path}: {error}") from None


def with_foresight(metadata: ClusterMetadata, tables: Tables, before: RunsBefore, conf: str | None) -> Tables:
    """``tables`` with gc_foresight, and with log_foresight where entry logs were read.

    ``conf`` is the bookies' configuration file, ``before`` the runs beside this one.
    """
    landing, layout = metadata.source.landing, metadata.source.layout
    collector = Collector(collector_settings(conf), layout, _listing(metadata), tables.roster.aliases)
    now = tables.cluster.scan_time
    if {"orphans", "over_replicated"} <= tables.known_empty and collector.listing.seen is None:
        rows = landing.rows("gc_foresight", [], GC_FORESIGHT)
    else:
        known = before.table(landing, "gc_foresight", now)
        rows = landing.land("gc_foresight", lambda: foresight(collector, tables, known))
    logs = candidates = None
    space, entry_logs = tables.space, tables.entry_logs
    if space is not None and entry_logs is not None:
        earlier = before.table(landing, "log_foresight", now)
        disks = _bookies_own(tables.disks, metadata.source.live)
        logs = landing.land(
            "log_foresight",
            lambda: log_foresight(space, entry_logs, rows, collector.settings, now, earlier, disks),
        )
        candidates = landing.land("deletion_candidates", lambda: _candidates(entry_logs, logs))
    made = {"gc_foresight"} if logs is None else {"gc_foresight", "log_foresight", "deletion_candidates"}
    empty = tables.without_rows(made, landing.empty)
    if logs is not None:
        empty -= {"gc_foresight"}  # what logs do to ledgers that the index lacks is asked of the same check
    return replace(
        tables,
        gc_foresight=rows,
        log_foresight=logs,
        deletion_candidates=candidates,
        collector=collector.settings,
        known_empty=empty,
    )


def _candidates(entry_logs: DataFrame, logs: DataFrame) -> DataFrame:
    return deletion_candidates(entry_logs, logs, logs.sparkSession.sparkContext.defaultParallelism)


def _bookies_own(disks: DataFrame | None, live: bool) -> DataFrame | None:
    """The rows of disks whose free bytes are the bookies': with a saved store directories are copies, but
    for those that were collected."""
    return disks if disks is None or live else disks.where(F.col("directory").contains(IN_COLLECTION))


def foresight_remarks(tables: Tables) -> list[Remark]:
    """What the report says of the settings; nothing where a look at metadata alone forecasts nothing."""
    if not tables.cluster.has_sources:
        return []
    settings, details = tables.collector, []
    if tables.cluster.layout == LayoutKind.ETCD and settings.over_replicated_wait_ms > 0:
        details = [
            "on etcd a bookie that runs for longer than gcOverreplicatedLedgerWaitTime deletes nothing"
        ]
    kind = RemarkKind.COLLECTOR_DEFAULTS if settings.source is None else RemarkKind.COLLECTOR_SETTINGS
    return [remark(kind, settings.said_by, *details)]


def foresight(collector: Collector, tables: Tables, earlier: DataFrame | None = None) -> DataFrame:
    """The rows of gc_foresight, of the tables that checks ask."""
    return gc_foresight(
        collector,
        doubted_orphans(tables),
        tables.over_replicated,
        tables.ledgers,
        tables.availability,
        tables.judged,
        tables.verdicts,
        tables.unequal,
        tables.moved,
        tables.cluster.scan_time,
        earlier,
    )


def listed_lately(metadata: ClusterMetadata, before: RunsBefore) -> Lately:
    """What says which orphans were in the metadata within the collectors' last interval; a query or two.

    An earlier run that listed them then, or the order of their ids.
    """
    source, nodes = metadata.source, metadata.first.nodes.nodes
    conf = source.options.bookie_conf
    since = source.scan_time - (USUAL_INTERVAL_MS if conf is None else collector_settings(conf).wait_ms)
    ids, drawn = metadata.ids_drawn(), None
    if len(ids) == 1 and "idgen" in nodes and source.store.keeps_times and metadata.first.cut is None:
        drawn = drawn_since(metadata.first.ledgers, ids[0], nodes["idgen"].ctime, since)
    return Lately(before.ledgers_listed(source.landing, since, source.scan_time), drawn)


def drawn_since(ledgers: DataFrame, ids: Ids, begun: int, since: int) -> tuple[int, int] | None:
    """The first id that a store's generator gave out after ``since``, and the next one; None: not known.

    It is that of a ledger that was made since, and is above all that are older; of a generator that is not
    older itself (``begun``; times in ms), 0. Not believed of a store that lists an id which was not given
    out yet: ids were chosen by hand, or the tree is a copy, whose znodes are new and whose generator is
    behind.
    """
    own = F.when(F.col("status").isin(*LISTED) & (F.col("scope_id") == 0), F.col("ledger_id"))
    row = ledgers.agg(
        F.max(own).alias("highest"),
        F.max(F.when(F.col("ctime") < since, own)).alias("old"),
        F.count_if(F.col("status") == LedgerStatus.GAP.value).alias("gaps"),
    ).first()
    assert row is not None
    if row["gaps"] or row["highest"] is None or row["highest"] >= ids.next:
        return None
    if row["old"] is None and begun >= since:
        return 0, ids.next
    above = -1 if row["old"] is None else row["old"]
    found = ledgers.agg(F.min(F.when(own > above, own)).alias("first")).first()
    assert found is not None
    return None if found["first"] is None else (found["first"], ids.next)


def _listing(metadata: ClusterMetadata) -> ServerListing:
    """What the collectors list; of the last scan, for their pass comes after it."""
    source, again = metadata.source, metadata.second.ledgers
    scan = metadata.first.ledgers if again is None else again
    if odd(scan).isEmpty():
        return ServerListing()
    found = places(scan, source.layout, source.store.root)
    landed = source.landing.land("gc_ranges", lambda: ranges(found), "tables/checks")
    end = outcome(landed).first()
    assert end is not None
    return ServerListing(listed_ids(found, landed), end["reach"], end["overflows"])
