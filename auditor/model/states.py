"""Words in the tables of a run: states of bookies, replicas, ledgers and findings.

The tables store the words themselves. Only these enumerations define which words exist. A member is equal
to its word, and can be passed to Spark, Arrow and JSON without conversion.

>>> IndexState.CUT == "cut", f"{LedgerStatus.BROKEN}"
(True, 'broken')
"""

from __future__ import annotations

from auditor.model.stored_word import StoredWord


class BookieRead(StoredWord):
    """Whether a bookie's index was read completely: column ``read`` of the table bookies."""

    READ = "read"  # all of it: what it does not show is not there
    PARTIAL = "partial"  # what was found is there, all else is unknown
    UNREAD = "unread"


class TailRead(StoredWord):
    """Whether a bookie's journal was read completely, from its last checkpoint (lastMark) to its end."""

    READ = "read"
    STOPPED = "stopped"  # nothing to read: the bookie went down cleanly
    UNREAD = "unread"


class ReplayError(StoredWord):
    """Reason why a server's replay of a journal ends early. Releases 4.14 to 4.18 have the same reasons.

    ``INVALID_RECORD`` is an IOException of ``Journal.scanJournal``, and only a warning with
    ``skipReplayJournalInvalidRecord``. The others end the start with any configuration.
    """

    INVALID_RECORD = "invalid-record"
    SHORT_RECORD = "short-record"  # BufferUnderflowException while the record's ids are read
    INVALID_PADDING = "invalid-padding"  # IllegalArgumentException of ByteBuffer.limit
    INVALID_VERSION = "invalid-version"  # JournalChannel opens no such file
    INVALID_NAME = "invalid-name"  # NumberFormatException of listJournalIds


class TailState(StoredWord):
    """Kind of a row in the table journal_tails, which has the journal entries after the last checkpoint."""

    OK = "ok"  # the entries of one ledger
    GAP = "gap"  # some entries after the mark are not known
    NO_FILE = (
        "gone"  # the file that the mark names is not there: nothing is known, and the bookie does not start
    )


class TimeBasis(StoredWord):
    """Source of a bookie's index time: column ``index_time_basis`` of the table bookies.

    The index time is the time at which an index shows the state of a bookie. The id of a journal's first
    file is the bookie's clock at its first start. The ids of all other journal files are not times.
    `auditor.sources.bookies.mark_times` compares file times with that clock.
    """

    OPTION = "option"  # --index-time
    JOURNAL_READ = "journal-read"  # the journal of a running bookie was read then
    LAST_WRITE = "last-write"  # a journal that was read, or lastMark, was last written to then
    CLEAN_STOP = "clean-stop"  # the bookie went down cleanly, and wrote its last mark then
    OLDER_JOURNAL = "older-journal"  # the journal file before that of the mark was last written to then
    FIRST_START = "first-start"  # the bookie first started then, by the id of its journal files
    INDEX_LOG = "index-log"  # RocksDB last wrote to the index then, long before the mark

    @property
    def sentence(self) -> str:
        """Description of this source in words."""
        return _TIME_BASIS_SENTENCES[self]


_TIME_BASIS_SENTENCES = {
    TimeBasis.OPTION: "the value of --index-time",
    TimeBasis.JOURNAL_READ: "the time when the journal of the running bookie was read",
    TimeBasis.LAST_WRITE: "the file time of its journal or of its lastMark, whichever is later",
    TimeBasis.CLEAN_STOP: "the file time of the lastMark that the bookie wrote when it stopped",
    TimeBasis.OLDER_JOURNAL: "the file time of the journal before the one in lastMark; the index may be "
    "newer",
    TimeBasis.FIRST_START: "the bookie's first start, judged by journal ids; the index may be much newer",
    TimeBasis.INDEX_LOG: "the file time of RocksDB's log, because the index files are older than lastMark",
}


class IndexState(StoredWord):
    """Kind of a row in the table availability, or the state of one ledger's entries in a bookie's index."""

    OK = "ok"
    CUT = "cut"  # ends inside a page: what it shows is there, the rest is unknown
    UNREADABLE = "unreadable"
    LIMBO = "limbo"  # the bookie does not know its entries yet, and serves none of them
    NOT_INDEXED = (
        "not-indexed"  # locations without an entry in the ledger index: the bookie does not serve it
    )
    MISPLACED = "misplaced"  # a file outside its place: the bookie does not look there
    WRONG_DIRECTORY = "wrong-directory"  # a ledger in the RocksDB index of another directory
    ABSENT = "absent"  # only for replicas: the index has no row
    STRAY = "stray"  # a file that is not one of the bookie's
    GAP = "gap"  # a place that could not be listed
    DAMAGED = "damaged"  # a part of the index that belongs to no one ledger


WRONG_PATH = (IndexState.MISPLACED, IndexState.WRONG_DIRECTORY)
"""States of a replica whose index is in a place where the bookie does not look for it."""

DISK_STATES = (IndexState.OK, IndexState.CUT, IndexState.UNREADABLE, IndexState.LIMBO, *WRONG_PATH)
"""States of a replica that is on the bookie's disks and counts as the bookie's own."""

REPLICA_STATES = (*DISK_STATES, IndexState.NOT_INDEXED)
"""States of rows that describe one replica."""

NOT_REPLICAS = (IndexState.STRAY, IndexState.GAP, IndexState.DAMAGED)
"""States of rows that describe a part of the index, and not one replica."""

PARTIAL_INDEX = (IndexState.CUT, IndexState.UNREADABLE, IndexState.LIMBO, IndexState.NOT_INDEXED, *WRONG_PATH)
"""States of a replica whose index may lack entries that the bookie has."""


DELETED_REASON = "it was listed, but no longer existed when it was to be read"
"""Stored reason (never reword it) of a file that a bookie deleted after the listing (garbage collection)."""


class UnknownCopy(StoredWord):
    """Why it is unknown whether a bookie has an entry: ``why`` in column ``unknown`` of table judged."""

    UNREAD = "unread"  # the bookie was not read completely
    UNREADABLE = "unreadable"  # its index of the ledger is damaged or cut
    LIMBO = "limbo"
    NOT_INDEXED = "not-indexed"
    MISPLACED = "misplaced"
    WRONG_DIRECTORY = "wrong-directory"
    ENTRY_LOG = "entry-log-gone"  # in a log that is not there; compaction may have moved them
    # Once the bookie was asked for entries: see `auditor.tables.rejudgement`.
    DENIED = "denied"  # it does not have an entry that its index shows
    INDEX_INCOMPLETE = "index-incomplete"  # it serves entries that its index lacks
    NOT_ASKED = "not-asked"  # the index is too old to say, and not all was asked for


class EntryLogState(StoredWord):
    """Result of reading an entry log: column ``state`` of the table entry_logs."""

    OK = "ok"
    NO_MAP = "no-map"  # still written to, or not closed properly
    MAP_WRONG = "map-wrong"  # it contradicts the entries, which were read instead
    MAP_UNREADABLE = "map-unreadable"  # the entries were read instead, as the server does
    ASTRAY = "header-astray"  # a server with a larger read buffer than the default reads them wrongly
    DAMAGED = "damaged"  # a record that no server wrote
    UNREADABLE = "unreadable"


PARTIAL_LOGS = (EntryLogState.DAMAGED, EntryLogState.UNREADABLE)
"""States of an entry log, or a directory of logs, in which some entries may not have been found."""


class CollectorScan(StoredWord):
    """Effect of a damaged log on the garbage collector's scan: ``collector_scan`` of table entry_logs."""

    COUNTS = "counts"  # it counts the readable records, and misses the others
    MAY_FAIL = "may-fail"  # as counts, unless memory runs out
    FAILS = "fails"  # the log is left alone


class CacheState(StoredWord):
    """State of the garbage collector's cached metadata of an entry log: column ``cache`` of entry_logs."""

    OK = "ok"  # the log's own bytes, but for ledgers that the collector has dropped
    WRONG = "wrong"  # it contradicts the log
    UNREADABLE = "unreadable"


class LogFileKind(StoredWord):
    """Kind of a file in a ledger directory: column ``kind`` of the tables entry_logs and space."""

    LOG = "log"
    COMPACTING = "compacting"  # a new log that compaction did not finish
    COMPACTED = "compacted"  # a second name of a log


class GoneState(StoredWord):
    """How certain it is that entries are in no entry log: column ``state`` of the table gone_entries."""

    TWO_READS = "agreed"  # index and list of logs say so in two readings
    ONE_READ = "once"  # in one: gone if the bookie was stopped


class Probe(StoredWord):
    """Result of reading an entry where an index locates it (tables ``locations`` and ``misplaced``)."""

    OK = "ok"  # the entry
    MISSING = "missing"  # there is no such log
    MISNAMED = (
        "misnamed"  # the log has the decimal digits of its id for a name, and the bookie does not find it
    )
    PAST_END = "past-end"  # the log ends before
    OTHER = "other"  # another entry, or none


class DigestState(StoredWord):
    """Result of checking an entry against its digest: column ``state`` of the table digests."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_CHECKED = "not-checked"


class UncheckedReason(StoredWord):
    """Reason why a digest was not checked: column ``reason`` of the table digests."""

    BUDGET = "budget"  # the bytes that one bookie may have read were used up
    LOG = "log"  # its log could not be read
    OTHER = "other-entry"  # its log has something else there
    METADATA = "metadata"  # the metadata does not list the ledger, or could not be read
    TYPE = "type"  # the metadata says no digest type, and none matches
    DUMMY = "dummy"  # the ledger has no digests
    NO_PASSWORD = "no-password"
    OTHER_PASSWORD = "other-password"


class SpaceClass(StoredWord):
    """Class of bytes in an entry log: column ``class`` of the table space."""

    LIVE = "live"
    OVER_REPLICATED = "over-replicated"  # no ensemble of the ledger names the bookie
    ORPHAN = "orphan"  # the metadata has no such ledger
    SURPLUS = "surplus"  # entries that striping does not put here
    NOT_INDEXED = "not-indexed"  # entries that the bookie needs and its index lacks
    OWNER_NAMED = "owner-named"  # the metadata has no such ledger, and an owner names it
    SUPERSEDED = "superseded"  # the index needs nothing of the ledger in this log
    OWNER_UNKNOWN = "owner-unknown"
    HEADERS_AND_MAPS = "headers-and-maps"  # of no ledger; padding too
    NOT_YET_MAPPED = "not-yet-mapped"  # written since the index was


NOT_RECLAIMABLE = (SpaceClass.NOT_INDEXED, SpaceClass.OWNER_NAMED)
"""Classes of bytes that may be the last copy of an entry; an entry log with such bytes must not be freed."""


class GcPass(StoredWord):
    """The part of a garbage collection that handles a ledger: column ``pass`` of the table gc_foresight."""

    LISTING = "listing"  # what the store does not list
    OVER_REPLICATED = "over-replicated"  # what no ensemble gives to the bookie; once a day


class GcAction(StoredWord):
    """Action that a garbage collector would take: column ``action`` of gc_foresight and log_foresight."""

    DELETE = "delete"
    KEEP = "keep"
    # of logs: the compaction that rewrites them
    MINOR = "minor"
    MAJOR = "major"


class FullDisk(StoredWord):
    """Effect of a full disk on a bookie's compaction: column ``full_disk`` of the table log_foresight."""

    FULL = "full"  # no compaction runs
    ALMOST_FULL = "almost-full"  # minor compaction runs, major does not
    FORCED = "forced"  # isForceGCAllowWhenNoSpace: collection and compaction run at once


class GcCause(StoredWord):
    """Reason why the server would delete or keep a ledger: column ``cause`` of the table gc_foresight."""

    NOT_LISTED = "not-listed"
    OUT_OF_ORDER = "listed-out-of-order"  # a higher id was listed before
    LIST_OVERFLOW = "listing-overflows"  # the id 2^63 - 1 is listed
    IN_NO_ENSEMBLE = "in-no-ensemble"
    # and why it keeps it
    LISTING_CUT = "listing-breaks-off"
    OTHER_NAME = "listed-by-another-name"  # the server reads the id out of a name of no ledger
    METADATA_READ = "metadata-read"  # verifyMetadataOnGC
    NOT_CLOSED = "not-closed"
    LOCKED = "locked"
    SWITCHED_OFF = "switched-off"  # gcOverreplicatedLedgerWaitTime of 0 or less
    NO_LOCKS = "no-locks"  # the store has no under-replication, and the whole pass fails


class GcVerdict(StoredWord):
    """Whether the garbage collector's action would be right: column ``verdict`` of the table gc_foresight."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class GcReason(StoredWord):
    """Reason for a `GcVerdict` (is a collector's action right?): column ``reason`` of the table gc_foresight.

    If it is not known whether a ledger is an orphan, the column lists the unknown facts instead.
    """

    NO_METADATA = "no-metadata"
    COPIES_ELSEWHERE = "copies-elsewhere"
    NOT_COLLECTED = "not-collected"  # garbage that stays
    KEPT = "kept"  # nothing is deleted
    MEMBER = "in-its-ensembles"
    LAST_COPY = "last-copy"  # of an entry of which no member has a copy
    OTHER_ID = "under-another-id"  # the ensembles name the bookie by another id
    METADATA_UNREADABLE = "metadata-unreadable"
    MEMBERS_UNKNOWN = "members-unknown"
    BEHIND_END = "behind-end"  # it has entries behind the ledger's end, which members may lack
    COPY_IN_FLIGHT = "copy-in-flight"
    CHANGED = "moved"  # its metadata changed between the scans
    NOT_INDEXED = "not-indexed"  # the bookie's ledger index lacks it, so that its bytes count as garbage
    UNSCANNED = "unseen"  # a damaged record hides its entries from the collector


class LedgerStatus(StoredWord):
    """Kind of a row in the table ledgers: its column ``status``."""

    OK = "ok"
    BROKEN = "broken"  # it parses, and breaks a rule
    UNREADABLE = "unreadable"
    MISPLACED = "misplaced"  # a znode whose name no ledger can have there
    GAP = "gap"  # a part of the tree that could not be listed


DECODED = (LedgerStatus.OK, LedgerStatus.BROKEN)
"""States of ledgers with decoded metadata."""

LISTED = (*DECODED, LedgerStatus.UNREADABLE)
"""States of ledgers that exist, whatever their metadata contains."""


class MarkRowKind(StoredWord):
    """Kind of a row in the table marks (under-replication marks and locks): its column ``kind``."""

    MARK = "mark"
    LOCK = "lock"
    DIRECTORY = "directory"  # of marks, in which none was seen
    GAP = "gap"  # a part of the tree that could not be listed


class LedgerClass(StoredWord):
    """Class of a ledger, determined by the copies of its worst entry: class columns of the table verdicts."""

    HEALTHY = "healthy"
    BELOW_WRITE_QUORUM = "below-write-quorum"
    BELOW_ACK_QUORUM = "below-ack-quorum"
    ENTRY_LOST = "entry-lost"
    NOT_CLOSED = "not-closed"
    UNDECIDED = "undecided"


class Reach(StoredWord):
    """Problem with reading a ledger from registered bookies: column ``reach`` of the table reachability."""

    UNAVAILABLE = "unavailable"
    UNRECOVERABLE = "unrecoverable"
    SINGLE_COPY = "single-copy"


class Verdict(StoredWord):
    """Verdict of a run about the cluster."""

    HEALTHY = "healthy"
    NOT_HEALTHY = "not-healthy"
    INCOMPLETE = "incomplete"


class Change(StoredWord):
    """Change of a finding since the previous run: column ``change`` of the table changes."""

    NEW = "new"
    WORSE = "worse"  # or confirmed by now
    BETTER = "better"
    SAME = "same"
    FIXED = "fixed"
    UNCHECKED = "unseen"  # neither found nor ruled out, because it was not checked


FOUND_NOW = (Change.NEW, Change.WORSE, Change.BETTER, Change.SAME)
"""Changes of findings that a run found; fixed and unseen findings are those of an earlier run only."""

OLD_ONLY = (Change.FIXED, Change.UNCHECKED)
"""Changes of findings that only an earlier run has."""


class WitnessAnswer(StoredWord):
    """A bookie's answer to a request to read one entry (`auditor.audit.comparison`).

    ``REFUSED``: the bookie accepts no reads from this client. ``UNKNOWN``: the answer does not show whether
    the bookie has the entry.
    """

    SERVED = "served"
    NO_SUCH_ENTRY = "no-such-entry"
    NO_SUCH_LEDGER = "no-such-ledger"
    REFUSED = "refused"
    UNKNOWN = "unknown"


WRITABLE_MODES = ("writable", "both")
"""Registrations of a bookie that takes writes; clients use the writable one if there are both."""
