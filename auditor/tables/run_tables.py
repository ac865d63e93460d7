"""The list of all tables of a run: row, columns, and input. All code that knows tables reads this list.

    python -m auditor.tables.run_tables > schemas/tables.json

publishes their columns.
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
from auditor.sources.metadata.ledger_rows import LEDGERS, LEDGERS_AGAIN
from auditor.sources.metadata.mark_rows import MARKS
from auditor.sources.owners.applications import OWNERS
from auditor.spark.types import DataFrame
from auditor.tables.changes import CHANGES
from auditor.tables.cluster_state import CLUSTER, UNDRAWN
from auditor.tables.contents import CONTENTS
from auditor.tables.digests import DIGESTS
from auditor.tables.gc_foresight import GC_FORESIGHT
from auditor.tables.gone_entries import GONE_ENTRIES
from auditor.tables.holds import HOLDS
from auditor.tables.id_generators import ID_GENERATORS
from auditor.tables.identities import EDGES, IDENTITIES
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
from auditor.tables.scans import DOUBTFUL_IDS, MOVED
from auditor.tables.sources import SOURCES
from auditor.tables.space import MISPLACED, SPACE
from auditor.tables.starts import STARTS
from auditor.tables.unequal import UNEQUAL
from auditor.tables.unseen_entries import UNSEEN_ENTRIES, unseen_entries
from auditor.tables.verdicts import VERDICTS


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a run.

    ``row`` says what a row is. ``columns`` (`auditor.model.columns.schema_of`) describes each column.
    ``only`` says which runs have the table; None if every audit does.

    If a table has ``make``, the audit writes it without further code, if it has all tables in ``of``.
    ``make`` gets these tables, in this order. For other tables, the stage that reads them writes them.
    """

    name: str
    row: str
    columns: pa.Schema
    only: str | None = None
    make: Callable[..., DataFrame] | None = None
    of: tuple[str, ...] = ()


LIVE = "runs of a live store"
LISTING_RUNS = "runs that asked bookies for their ledgers"
WITNESSED = "runs that asked bookies for entries"
OWNED = "runs that read owners"
LOGS = "runs with `--entry-logs`"
DEEP = "runs with `--deep`"
LISTING = "runs with `--offload-listing`"
PLACED = "runs that judge placement"

_ALL = (
    Table("ledgers", "a ledger's metadata, or a znode that is not a ledger's, in the first scan", LEDGERS),
    Table("ledgers_again", "the same in the last scan, with fewer columns", LEDGERS_AGAIN, LIVE),
    Table("doubtful_ids", "ids that a scan of the metadata may have missed, and why", DOUBTFUL_IDS),
    Table("moved", "a ledger whose version differs between the scans", MOVED, LIVE),
    Table("marks", "an under-replication mark, a lock, or a directory in which no mark was seen", MARKS),
    Table("cookies", "a cookie in the store", COOKIES),
    Table("registrations", "a registered bookie", REGISTRATIONS),
    Table("cluster", "a fact of the cluster as a whole, such as its instance id", CLUSTER),
    Table("members", "a bookie that ensembles name", MEMBERS),
    Table("directories", "a bookie's directory", DIRECTORIES),
    Table("contents", "a directory and a bookie whose ledgers it seems to hold", CONTENTS),
    Table("starts", "a bookie's next start: whether it would succeed", STARTS),
    Table("identity_edges", "two bookie ids that may be one bookie, and why", EDGES),
    Table("identities", "a bookie id: the other ids of the same bookie", IDENTITIES),
    Table("bookies", "a bookie that anything names: how far it was read, how much depends on it", BOOKIES),
    Table("sources", "a source of the audit: its scope, the proved part of it, and its age", SOURCES),
    Table("bookie_locations", "a bookie: its location in the mapping", BOOKIE_LOCATIONS),
    Table("availability", "a ledger on a bookie: the entries that its index shows", AVAILABILITY),
    Table(
        "journal_tails",
        "a ledger in a bookie's journals after the mark; or a journal directory",
        JOURNAL_TAILS,
    ),
    Table(
        "answers",
        "as availability, but from the bookie's own answer; only for replicas that differed",
        AVAILABILITY,
        LISTING_RUNS,
    ),
    Table(
        "entry_logs", "an entry log, or a ledger in one: number of bytes, and its source", ENTRY_LOGS, LOGS
    ),
    Table("locations", "a ledger in an entry log, as the bookie's index has it", LOCATIONS, LOGS),
    Table(
        "disks",
        "a bookie's directory: bytes beside its entry logs, and how full its file system is",
        DISKS,
        LOGS,
    ),
    Table(
        "log_entries",
        "a ledger in an entry log that has entries which the bookie's index lacks and needs",
        LOG_ENTRIES,
        LOGS,
    ),
    Table(
        "gone_entries",
        "a ledger on a bookie whose index locates entries in a missing entry log",
        GONE_ENTRIES,
        LOGS,
    ),
    Table("space", "bytes of one class in an entry log: their ledger", SPACE, LOGS),
    Table("misplaced", "a ledger whose index entries point to wrong places of an entry log", MISPLACED, LOGS),
    Table("digests", "a sampled entry on a bookie: whether its digest is right", DIGESTS, DEEP),
    Table("unequal", "a ledger on a bookie where expected and held differ", UNEQUAL),
    Table("judged", "a ledger with such a difference: missing, unknown and surplus entries", JUDGED),
    Table("witness", "an entry that a bookie was asked for, and its answer", WITNESS, WITNESSED),
    Table("verdicts", "a ledger: its class", VERDICTS),
    Table(
        "reachability",
        "a ledger of which one registered member, or none, can serve an entry, as others are down",
        REACHABILITY,
    ),
    Table("orphans", "a ledger on a bookie that the metadata does not list", ORPHANS),
    Table(
        "placement",
        "a segment that breaks the placement policy, or is at risk; and its first such window",
        PLACEMENT,
        PLACED,
    ),
    Table("holdings", "a bookie: how many ledgers it holds", HOLDINGS),
    Table(
        "vanished_ranges", "a range of ten thousand ids of which a bookie holds only orphans", VANISHED_RANGES
    ),
    Table(
        "id_generators", "an id generator of the store: its next id, and ids in use beyond it", ID_GENERATORS
    ),
    Table("undrawn", "a bookie with orphans whose ids the store's generator has not given out", UNDRAWN),
    Table(
        "gc_foresight",
        "a ledger that a bookie's garbage collector deletes next, or meets and keeps, and why",
        GC_FORESIGHT,
    ),
    Table(
        "log_foresight",
        "an entry log: which collection or compaction deletes or rewrites it, since when",
        LOG_FORESIGHT,
        LOGS,
    ),
    Table(
        "deletion_candidates",
        "an entry log that is deleted or rewritten next: whether its map matches its entries",
        DELETION_CANDIDATES,
        LOGS,
        make=deletion_candidates,
        of=("entry_logs", "log_foresight"),
    ),
    Table(
        "unseen_entries",
        "a ledger of which an entry log has indexed entries that its collector does not see",
        UNSEEN_ENTRIES,
        LOGS,
        make=unseen_entries,
        of=("entry_logs", "locations", "deletion_candidates"),
    ),
    Table(
        "owners",
        "a reference to a ledger that an application keeps, or a value of its that cannot be read",
        OWNERS,
        OWNED,
    ),
    Table("ownership", "a reference with its ledger, or a ledger without one: its owner", OWNERSHIP, OWNED),
    Table("owner_stores", "a store of owners: its proof for ledgers without an owner", OWNER_STORES),
    Table(
        "offload_objects",
        "an offload context beside the bucket's inventory, or a copy there without a context",
        OFFLOAD_OBJECTS,
        LISTING,
    ),
    Table("stale_marks", "an under-replication mark of a ledger that has all its copies", STALE_MARKS),
    Table(
        "changes",
        "a finding beside the run before: new, same, worse, better, fixed, unseen; since when",
        CHANGES,
    ),
    Table(
        "holds",
        "actions that are forbidden on an object, the reason, and the facts that lift the hold",
        HOLDS,
    ),
)
TABLES = {table.name: table for table in _ALL}
"""All tables by name."""

OPTIONAL = frozenset(table.name for table in _ALL if table.only is not None)
"""Names of the tables that not every audit has."""


def to_json() -> str:
    """Return the published form, with types as Arrow names them.

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
