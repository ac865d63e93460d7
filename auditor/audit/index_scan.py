"""One side of an audit: who the bookies are, and what their indexes hold, read and landed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.audit import journal_scan
from auditor.audit.damaged_collections import damaged_collections
from auditor.audit.earlier_run import Since
from auditor.audit.journal_scan import Tail, Tails
from auditor.audit.landing import Landing
from auditor.audit.manifest import files_noted, indexes_noted
from auditor.audit.metadata_scan import MetadataScan
from auditor.errors import RunError
from auditor.model.bookie_id import accepted
from auditor.model.options import AuditOptions, moment
from auditor.model.report import Taken
from auditor.model.states import OF_PLACES, BookieRead, TailRead
from auditor.sources.bookies import owners as bookie_owners
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.collections.index import collected_availability
from auditor.sources.bookies.collections.places import collected_places, settled, without
from auditor.sources.bookies.index_files import page_size
from auditor.sources.bookies.index_files.page_size import IndexShapes
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.bookies.spark_source import IndexSource
from auditor.spark.source_rows import source_rows
from auditor.tables.answers import combine_pieces
from auditor.tables.by_state import by_state
from auditor.tables.judgement import BookieState
from auditor.tables.registry import registered_modes, registrations, store_cookies
from auditor.tables.starts import starts
from auditor.tables.unequal import held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Indexes(NamedTuple):
    """What the bookies' indexes say.

    ``rows`` is the table availability; ``replicas`` has one row per replica, with files that were cut
    recognised; ``by_state`` has these too, and what is no index of a ledger, for questions after few of them.
    ``overlapping`` are the bookies of which a ledger may have more than one row. ``tails`` is what their
    journals have besides.
    """

    rows: DataFrame
    replicas: DataFrame
    by_state: DataFrame
    pages: Mapping[str, int]
    overlapping: Sequence[str]
    tails: Tails


class BookieScan:
    """The bookies' indexes, and who the bookies are."""

    def __init__(
        self,
        landing: Landing,
        metadata: MetadataScan,
        sources: Sequence[str],
        options: AuditOptions,
        since: Since,
    ) -> None:
        self._landing = landing
        self._since = since
        self.reused = Taken(reused=0, read=0)
        self._gaps: dict[str, str] | None = None
        self._metadata = metadata
        self._options = options
        self.sources = tuple(sources)
        landing.progress.stage("directories")
        kinds = split_sources(sources)
        self.rpc = kinds.rpc
        self._collected = collected_places(kinds.collections)
        self.places = [*find_places(kinds.directories), *self._collected.places]
        self.members = {row["bookie_id"]: row.asDict() for row in self._members().collect()}
        cookies = store_cookies(metadata.before)
        self._connected = registered_modes(registrations(metadata.before))
        known = {*self.members, *(cookie.bookie_id for cookie in cookies), *self._connected}
        self._attributed = bookie_owners.attribute(
            self.places,
            known,
            {cookie.bookie_id: cookie.cookie for cookie in cookies if cookie.cookie is not None},
            metadata.instance_id,
        )
        self._settled = settled(self._attributed, self._collected)
        self.attribution = self._settled.attribution
        self._tail_parts = journal_scan.plan_tails(landing, self.attribution.bookies, self._settled)
        self._tails: Mapping[str, Tail] = {}

    def _members(self) -> DataFrame:
        """Who is in ensembles: one row per bookie. What the server would refuse as an id is no bookie."""
        from pyspark.sql import functions as F

        ledgers = self._metadata.ledgers()
        members = ledgers.select(F.explode("replicas").alias("r"))
        return self._landing.land(
            "members",
            lambda: members.groupBy("r.bookie_id").agg(
                F.count("*").alias("ledgers"),
                F.sum(F.col("r.depends").cast("long")).alias("depending"),
                F.sum((F.length("r.groups") > 0).cast("long")).alias("replicas"),
            ),
        )

    def indexes(self) -> Indexes:
        """I: read all indexes, then the journals after them, and land both."""
        from pyspark.sql import functions as F

        rows = self._availability()
        tails = journal_scan.land_tails(
            self._landing, self._tail_parts, self.attribution.bookies, self._collected, self._settled
        )
        self._tails = tails.of
        shapes, overlapping = self._shapes(rows), self._overlapping(rows)
        replicas = combine_pieces(held(rows, shapes.pages, shapes.cut), overlapping)
        others = rows.where(F.col("state").isin(*OF_PLACES))
        apart = replicas.unionByName(others) if overlapping else by_state(rows, shapes)
        apart = journal_scan.without_served(apart, tails)
        return Indexes(rows, replicas, apart, shapes.pages, overlapping, tails)

    def _availability(self) -> DataFrame:
        """What every bookie that has a readable directory says it holds, and what lies beside it."""
        spark = self._landing.spark
        found = [each for each in self.attribution.bookies.values() if each.index_directories]
        wanted = spark.sparkContext.defaultParallelism * self._options.parts_per_core
        parts = index_parts.parts(
            [(each.bookie_id, each.index_directories) for each in found],
            wanted,
            threads=self._options.threads,
        )
        indexes_noted(self._landing, self.attribution.bookies)
        try:
            landed = self._landed(self._since.parts(parts, self.attribution.bookies))
        except RunError as error:
            if not self._since.usable:
                raise
            # An earlier run's table turned out to be damaged while it was read: this one does without it.
            self._since.give_up(str(error))
            landed = self._landed(parts)
        files_noted(self._landing)
        if self._since.path is not None:
            self.reused = _taken(landed)
        return landed

    def _landed(self, parts: list[index_parts.IndexPart]) -> DataFrame:
        """The table of some parts and of all collections."""
        spark = self._landing.spark

        def read() -> DataFrame:
            here = source_rows(spark, IndexSource({"parts": index_parts.to_json(parts)}))
            whole, owners = self._collected.whole, self._settled.owner_of_piece
            return here.unionByName(collected_availability(spark, whole, owners)) if whole else here

        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self._landing.land("availability", read)
        except (Py4JError, PySparkException):
            damaged = damaged_collections(spark, self._collected.whole, self._settled.owner_of_piece)
            if not damaged:
                raise
            self._collected = without(self._collected, damaged)
            self._settled = settled(self._attributed, self._collected)
            self.attribution = self._settled.attribution
            return self._landing.land("availability", read)

    def _overlapping(self, availability: DataFrame) -> list[str]:
        """Bookies of which a ledger may have more than one row.

        Their index came in several pieces; or one of their databases has a ledger that belongs into another.
        """
        several = any(
            directory.storage == index_parts.ROCKSDB and directory.of > 1
            for bookie in self.attribution.bookies.values()
            for directory in bookie.index_directories
        )
        if not several and not self._collected.whole:
            return sorted(self._settled.overlapping)
        odd = availability.where("state = 'unreadable' and storage = 'rocksdb'")
        rows = odd.select("bookie_id").distinct().collect()
        return sorted({*self._settled.overlapping, *(row["bookie_id"] for row in rows)})

    @property
    def foreign(self) -> list[str]:
        """Bookies whose directories all carry another cluster's instance id."""
        found = self.attribution.bookies
        return [bookie_id for bookie_id, bookie in found.items() if bookie.foreign_instance]

    def notes(self) -> list[str]:
        """What a reader of the report should know of the sources."""
        broken = [f"collection {path} was not used: {reason}" for path, reason in self._collected.broken]
        return [*broken, *self._collected.notes, *self._unread_tails()]

    def _unread_tails(self) -> list[str]:
        reasons = [
            (name, reason)
            for name, each in self.attribution.bookies.items()
            if name in self.members and each.read != BookieRead.UNREAD
            for known, reason in [self.tail(name)]
            if known == TailRead.UNREAD
        ]
        return journal_scan.unread_note(reasons)

    def unseen(self, bookie_id: str) -> bool:
        """Whether no directory and no collection shows anything of a bookie's index."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is None or bookie.read == BookieRead.UNREAD

    def dated(self, indexes: DataFrame) -> DataFrame:
        """Rows of ``availability``, with files' times only where these tell of an orphan's age.

        They do with a saved scan, if any index may be newer than that; and always in collections.
        """
        from pyspark.sql import functions as F

        times = [self.newest(bookie_id) for bookie_id in self.attribution.bookies]
        scan_time = self._metadata.scan_time
        if not self._metadata.live and any(each is None or each > scan_time for each in times):
            return indexes
        collected = sorted({owner.bookie_id for owner in self._settled.owner_of_piece.values()})
        return indexes.withColumn("mtime", F.when(F.col("bookie_id").isin(collected), F.col("mtime")))

    def index_time(self, bookie_id: str) -> int | None:
        """How new what is known of a bookie's entries is at least, in ms; None where nothing says."""
        if self._options.index_time is not None:
            return moment(self._options.index_time)
        bookie = self.attribution.bookies.get(bookie_id)
        if bookie is None:
            return None
        return journal_scan.index_time(bookie, self._tails.get(bookie_id), self._running(bookie_id))

    def newest(self, bookie_id: str) -> int | None:
        """No index file of a bookie that counts is newer than this, in ms; None where nothing says."""
        if self._options.index_time is not None:
            return moment(self._options.index_time)
        bookie, tail = self.attribution.bookies.get(bookie_id), self._tails.get(bookie_id)
        if bookie is None or bookie.journals.marked is None:
            return None
        return max(bookie.journals.marked, (tail.modified if tail else None) or 0)

    def tail(self, bookie_id: str) -> tuple[str | None, str | None]:
        """How a bookie's journal after the mark is known, and why it was not read whole."""
        bookie = self.attribution.bookies.get(bookie_id)
        if bookie is None:
            return None, None
        return journal_scan.tail_state(bookie, self._tails.get(bookie_id), self._running(bookie_id))

    def _running(self, bookie_id: str) -> bool:
        return self._metadata.live and bookie_id in self._connected

    def _shapes(self, availability: DataFrame) -> IndexShapes:
        """How large each bookie's pages are, and what else is worth knowing before the indexes are asked."""
        from pyspark.sql import functions as F

        # A length says no more than its least bit that is set: a few rows per bookie.
        power = F.least(F.col("page_bytes").bitwiseAND(-F.col("page_bytes")), F.lit(page_size.LARGEST))
        counted = availability.groupBy("bookie_id", "state", power.alias("length")).agg(F.count("*"))
        return page_size.index_shapes((row[0], row[1], row[2], row[3]) for row in counted.collect())

    def states(self, availability: DataFrame, asked: Mapping[str, str | None]) -> dict[str, BookieState]:
        """How far each bookie that holds or should hold something was read; arguments as for `bookies`."""
        broken = self._broken(availability)
        rows = (
            self._bookie(name, None, broken, asked)
            for name in sorted({*filter(accepted, self.members), *self.attribution.bookies})
        )
        return {
            row["bookie_id"]: BookieState(
                row["read"], row["suspect"], row["index_time"], row["foreign_instance"]
            )
            for row in rows
        }

    def read_whole(self, bookie_id: str) -> bool:
        """Whether a bookie's directories and collections show all of its index."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is not None and bookie.read == BookieRead.READ

    def _broken(self, availability: DataFrame) -> dict[str, str]:
        if self._gaps is None:
            self._gaps = gap_reasons(availability)
        return self._gaps

    def directories(self) -> list[dict[str, Any]]:
        """Rows of the table directories."""
        return [asdict(directory) for directory in self.attribution.directories]

    def starts(self) -> list[dict[str, Any]]:
        """Rows of the table starts."""
        metadata = self._metadata
        known = metadata.instance_id is not None or metadata.instance_id_missing()
        cookies = store_cookies(metadata.after)
        return starts(self.attribution.found, cookies, metadata.instance_id) if known else []

    def bookies(
        self,
        availability: DataFrame,
        marks: DataFrame,
        pages: Mapping[str, int],
        asked: Mapping[str, str | None],
    ) -> list[dict[str, Any]]:
        """Rows of the table bookies: every id that anything names.

        A bookie whose index broke off while it was read was not read whole. ``asked`` are those that were
        asked for everything, over the wire, and why one could not answer whole.
        """
        broken = self._broken(availability)
        marked = _marked(marks)
        cookies = {cookie.bookie_id for cookie in store_cookies(self._metadata.after)}
        modes, twice = self._metadata.modes(), self._metadata.registered_twice()
        members = {name: row for name, row in self.members.items() if accepted(name)}
        found = self.attribution.bookies
        return [
            self._bookie(name, members.get(name), broken, asked)
            | {"registered": modes.get(name), "has_cookie": name in cookies, "marked": name in marked}
            | {"page_size": pages.get(name), "registered_twice": name in twice}
            for name in sorted({*members, *cookies, *modes, *found, *marked})
        ]

    def _bookie(
        self,
        name: str,
        member: dict[str, Any] | None,
        broken: dict[str, str],
        asked: Mapping[str, str | None],
    ) -> dict[str, Any]:
        attributed = self.attribution.bookies.get(name)
        read = attributed.read if attributed else BookieRead.UNREAD
        nowhere = "no --bookies source has a place for it" if self.sources else "no --bookies was given"
        reason = attributed.reason if attributed else nowhere
        if name in asked:
            reason = asked[name]
            read = BookieRead.READ if reason is None else BookieRead.PARTIAL
        if name in broken and read == BookieRead.READ:
            read, reason = BookieRead.PARTIAL, broken[name]
        tail, tail_reason = self.tail(name)
        foreign = bool(attributed and attributed.foreign_instance)
        if foreign:
            reason = "all of its directories carry another cluster's instance id"
        return {
            "bookie_id": name,
            "named": member is not None,
            "ledgers": member["ledgers"] if member else 0,
            "depending": member["depending"] if member else 0,
            "replicas": member["replicas"] if member else 0,
            "found": bool(attributed and attributed.found),
            "read": BookieRead.UNREAD if foreign else read,
            "reason": reason,
            "index_time": self.index_time(name),
            "suspect": bool(attributed and attributed.suspect),
            "foreign_instance": foreign,
            "tail": tail,
            "tail_reason": tail_reason,
        }


def _taken(availability: DataFrame) -> Taken:
    """How many indexes were taken from an earlier run, and how many were read."""
    from pyspark.sql import functions as F

    again = F.coalesce("reused", F.lit(False))
    row = (
        availability.where("path is not null")
        .agg(F.count_if(again).alias("reused"), F.count_if(~again).alias("read"))
        .first()
    )
    assert row is not None
    return Taken(reused=row["reused"], read=row["read"])


def gap_reasons(availability: DataFrame) -> dict[str, str]:
    """The bookies of which something could not be listed or asked for, and one reason each."""
    from pyspark.sql import functions as F

    gaps = availability.where("state in ('gap', 'damaged')").groupBy("bookie_id")
    rows = gaps.agg(F.min(F.concat_ws(": ", "path", "reason")).alias("reason")).collect()
    return {row["bookie_id"]: row["reason"] for row in rows}


def _marked(marks: DataFrame) -> set[str]:
    """The ids that marks name: as many as bookies were ever lost."""
    from pyspark.sql import functions as F

    rows = marks.where("kind = 'mark'").select(F.explode("replicas").alias("bookie_id")).distinct().collect()
    return {row["bookie_id"] for row in rows}
