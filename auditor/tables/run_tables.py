"""The list of all tables of a run, with their columns and source tables. All code that needs tables reads it.

This command publishes the columns:

    python -m auditor.tables.run_tables > schemas/tables.json
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from auditor.sources.bookies.entry_logs.locations import LOCATIONS
from auditor.sources.bookies.entry_logs.parts import ENTRY_LOGS
from auditor.sources.bookies.entry_logs.rows import DISKS
from auditor.sources.bookies.journal.tails import SCHEMA as JOURNAL_TAILS
from auditor.sources.bookies.part_rows import SCHEMA as AVAILABILITY
from auditor.sources.bookies.rpc.reads import WITNESS
from auditor.sources.metadata.ledger_rows import LEDGERS, REREAD_LEDGERS
from auditor.sources.metadata.mark_rows import MARKS
from auditor.sources.owners.applications import OWNERS
from auditor.spark.types import DataFrame
from auditor.tables.changes import CHANGES
from auditor.tables.cluster_state import CLUSTER, UNISSUED_IDS
from auditor.tables.contents import CONTENTS
from auditor.tables.digests import DIGESTS
from auditor.tables.gc_foresight import GC_FORESIGHT
from auditor.tables.gone_entries import GONE_ENTRIES
from auditor.tables.holds import HOLDS
from auditor.tables.id_generators import ID_GENERATORS
from auditor.tables.identities import IDENTITIES, IDENTITY_EDGES
from auditor.tables.judged import JUDGED
from auditor.tables.log_entries import LOG_ENTRIES
from auditor.tables.log_foresight import DELETION_CANDIDATES, LOG_FORESIGHT, deletion_candidates
from auditor.tables.marks import STALE_MARKS
from auditor.tables.members import MEMBERS
from auditor.tables.offload_objects import OFFLOAD_OBJECTS
from auditor.tables.orphans import HOLDINGS, ORPHANS, VANISHED_RANGES
from auditor.tables.owner_stores import OWNER_STORES
from auditor.tables.ownership import OWNERSHIP
from auditor.tables.placement import BOOKIE_LOCATIONS, PLACEMENT
from auditor.tables.reachability import REACHABILITY
from auditor.tables.registry import BOOKIES, COOKIES, DIRECTORIES, REGISTRATIONS
from auditor.tables.scans import DOUBTFUL_IDS, MOVED_LEDGERS
from auditor.tables.sources import SOURCES
from auditor.tables.space import MISPLACED, SPACE
from auditor.tables.starts import STARTS
from auditor.tables.unequal import UNEQUAL
from auditor.tables.unseen_entries import UNSEEN_ENTRIES, unseen_entries
from auditor.tables.verdicts import VERDICTS


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a run.

    ``row_meaning`` says what a row represents. ``columns`` (`auditor.model.columns.make_schema`) describes
    each column. ``run_kind`` says which runs have the table. It is None if every run has the table.

    ``make_rows`` makes the table from the tables named in ``sources``, in this order. An audit that has
    these tables writes the table without further code. If ``make_rows`` is None, a stage of the audit
    writes the table.
    """

    name: str
    row_meaning: str
    columns: pa.Schema
    run_kind: str | None = None
    make_rows: Callable[..., DataFrame] | None = None
    sources: tuple[str, ...] = ()


LIVE_RUNS = "runs on a live store"
LEDGER_LIST_RUNS = "runs that asked bookies for their ledgers"
ENTRY_READ_RUNS = "runs that asked bookies for entries"
OWNER_RUNS = "runs that read owners"
ENTRY_LOG_RUNS = "runs with `--entry-logs`"
DIGEST_RUNS = "runs with `--deep`"
OFFLOAD_LISTING_RUNS = "runs with `--offload-listing`"
PLACEMENT_RUNS = "runs that checked placement"

_ALL_TABLES = (
    Table(
        "ledgers",
        "the metadata of a ledger in the first scan, or a znode that does not belong to a ledger",
        LEDGERS,
    ),
    Table(
        "ledgers_again",
        "the metadata of a ledger in the last scan, with fewer columns",
        REREAD_LEDGERS,
        LIVE_RUNS,
    ),
    Table(
        "doubtful_ids",
        "a range of ids that a scan of the metadata may have missed, and the reason",
        DOUBTFUL_IDS,
    ),
    Table("moved", "a ledger that changed, appeared or vanished between the scans", MOVED_LEDGERS, LIVE_RUNS),
    Table("marks", "an under-replication mark, a lock, or a directory without marks", MARKS),
    Table("cookies", "a cookie in the store", COOKIES),
    Table("registrations", "a registered bookie", REGISTRATIONS),
    Table("cluster", "a fact of the whole cluster, such as its instance id", CLUSTER),
    Table("members", "a bookie in an ensemble", MEMBERS),
    Table("directories", "a bookie's directory", DIRECTORIES),
    Table("contents", "a directory, and a bookie whose ledgers the directory seems to have", CONTENTS),
    Table("starts", "a bookie, and whether its next start will succeed", STARTS),
    Table("identity_edges", "two ids that may belong to the same bookie, and the reason", IDENTITY_EDGES),
    Table("identities", "a bookie id, and the other ids of the same bookie", IDENTITIES),
    Table("bookies", "a bookie, how completely it was read, and how many ledgers depend on it", BOOKIES),
    Table("sources", "a source of the audit, and its coverage, proof and age", SOURCES),
    Table("bookie_locations", "a bookie, and its location", BOOKIE_LOCATIONS),
    Table("availability", "a ledger on a bookie, and its entries in the bookie's index", AVAILABILITY),
    Table(
        "journal_tails",
        "a ledger in a bookie's journals after lastMark, or a journal directory",
        JOURNAL_TAILS,
    ),
    Table(
        "answers",
        "a ledger on a bookie whose answer differs from its index; the columns are those of `availability`",
        AVAILABILITY,
        LEDGER_LIST_RUNS,
    ),
    Table(
        "entry_logs",
        "an entry log, or a ledger in an entry log, with the byte count and its source",
        ENTRY_LOGS,
        ENTRY_LOG_RUNS,
    ),
    Table(
        "locations", "a ledger in an entry log, according to the bookie's index", LOCATIONS, ENTRY_LOG_RUNS
    ),
    Table(
        "disks",
        "a bookie's directory, with its bytes outside entry logs and its free bytes",
        DISKS,
        ENTRY_LOG_RUNS,
    ),
    Table(
        "log_entries",
        "a ledger in an entry log, if the index lacks needed entries of this ledger",
        LOG_ENTRIES,
        ENTRY_LOG_RUNS,
    ),
    Table(
        "gone_entries",
        "a ledger on a bookie, if the index locates some of its entries in a missing entry log",
        GONE_ENTRIES,
        ENTRY_LOG_RUNS,
    ),
    Table("space", "the bytes of one ledger and class in an entry log", SPACE, ENTRY_LOG_RUNS),
    Table(
        "misplaced",
        "a ledger on a bookie, if the index locates entries in an entry log that lacks them",
        MISPLACED,
        ENTRY_LOG_RUNS,
    ),
    Table("digests", "a sampled entry on a bookie, and whether its digest is right", DIGESTS, DIGEST_RUNS),
    Table(
        "unequal",
        "a ledger on a bookie that does not have exactly the expected entries of the ledger",
        UNEQUAL,
    ),
    Table("judged", "a ledger from `unequal`, with its missing, unknown and surplus entries", JUDGED),
    Table(
        "witness", "an entry that a bookie was asked for, and the bookie's answer", WITNESS, ENTRY_READ_RUNS
    ),
    Table("verdicts", "a ledger, and its class", VERDICTS),
    Table(
        "reachability",
        "a ledger with an entry that at most one registered bookie of its ensemble can serve",
        REACHABILITY,
    ),
    Table("orphans", "a ledger on a bookie, if the metadata does not list the ledger", ORPHANS),
    Table(
        "placement",
        "a segment that breaks the placement policy, or that would lose data after a single failure",
        PLACEMENT,
        PLACEMENT_RUNS,
    ),
    Table("holdings", "a bookie, with the numbers of its ledgers and orphans", HOLDINGS),
    Table(
        "vanished_ranges", "a range of 10,000 ledger ids in which a bookie has only orphans", VANISHED_RANGES
    ),
    Table(
        "id_generators",
        "an id generator of the store, its next id, and the ids in use from this id on",
        ID_GENERATORS,
    ),
    Table("undrawn", "a bookie with orphans whose ids the generator has not given out", UNISSUED_IDS),
    Table(
        "gc_foresight",
        "a ledger on a bookie, and whether and why the next garbage collection will delete it",
        GC_FORESIGHT,
    ),
    Table(
        "log_foresight",
        "an entry log, and its next garbage collection or compaction",
        LOG_FORESIGHT,
        ENTRY_LOG_RUNS,
    ),
    Table(
        "deletion_candidates",
        "an entry log that will be deleted or rewritten next, compared with its ledgers map",
        DELETION_CANDIDATES,
        ENTRY_LOG_RUNS,
        make_rows=deletion_candidates,
        sources=("entry_logs", "log_foresight"),
    ),
    Table(
        "unseen_entries",
        "a ledger with indexed entries that garbage collection does not see",
        UNSEEN_ENTRIES,
        ENTRY_LOG_RUNS,
        make_rows=unseen_entries,
        sources=("entry_logs", "locations", "deletion_candidates"),
    ),
    Table(
        "owners",
        "an application's reference to a ledger, or an unreadable value",
        OWNERS,
        OWNER_RUNS,
    ),
    Table(
        "ownership",
        "an application's reference together with its ledger, or a ledger without a reference",
        OWNERSHIP,
        OWNER_RUNS,
    ),
    Table("owner_stores", "an owner store, and the proof that it is complete", OWNER_STORES),
    Table(
        "offload_objects",
        "an offload context, or a copy of a ledger in the bucket",
        OFFLOAD_OBJECTS,
        OFFLOAD_LISTING_RUNS,
    ),
    Table("stale_marks", "an under-replication mark of a ledger that has all its copies", STALE_MARKS),
    Table(
        "changes",
        "a finding compared with the previous run, and the time of the first run that had it",
        CHANGES,
    ),
    Table(
        "holds",
        "actions that are forbidden on an object, the reason, and the condition that lifts the hold",
        HOLDS,
    ),
)
TABLES = {table.name: table for table in _ALL_TABLES}
"""All tables of a run, by name."""

OPTIONAL_TABLES = frozenset(table.name for table in _ALL_TABLES if table.run_kind is not None)
"""Names of the tables that only some runs have."""


def to_json() -> str:
    """Return the columns of all tables as JSON. Types have their Arrow names.

    >>> json.loads(to_json())["holdings"]["orphans"]["type"]
    'int64'
    """
    tables = {
        name: {
            column.name: {"type": str(column.type), "comment": column.metadata[b"comment"].decode()}
            for column in table.columns
        }
        for name, table in TABLES.items()
    }
    return json.dumps(tables, indent=2) + "\n"


if __name__ == "__main__":
    print(to_json(), end="")
