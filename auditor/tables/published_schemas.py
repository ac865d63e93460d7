"""Every table of a run, column by column: what ``schemas/tables.json`` publishes.

python -m auditor.tables.published_schemas > schemas/tables.json
"""

from __future__ import annotations

import json

import pyarrow as pa

from auditor.model.columns import schema_of
from auditor.sources.bookies.entry_logs.locations import LOCATIONS
from auditor.sources.bookies.entry_logs.parts import ENTRY_LOGS
from auditor.sources.bookies.entry_logs.rows import DISKS
from auditor.sources.bookies.journal.tails import SCHEMA as JOURNAL_TAILS
from auditor.sources.bookies.part_rows import SCHEMA as AVAILABILITY
from auditor.sources.bookies.rpc.reads import WITNESS
from auditor.sources.metadata.ledger_rows import LEDGERS, LEDGERS_AGAIN
from auditor.sources.metadata.mark_rows import MARKS
from auditor.sources.owners.applications import OWNERS
from auditor.tables.bookie_locations import BOOKIE_LOCATIONS
from auditor.tables.changes import CHANGES
from auditor.tables.cluster_state import CLUSTER
from auditor.tables.contents import CONTENTS
from auditor.tables.deletion_candidates import DELETION_CANDIDATES
from auditor.tables.digests import DIGESTS
from auditor.tables.doubtful_ids import DOUBTFUL_IDS
from auditor.tables.gc_foresight import GC_FORESIGHT
from auditor.tables.id_generator import UNDRAWN
from auditor.tables.identities import EDGES, IDENTITIES
from auditor.tables.judged import JUDGED
from auditor.tables.log_foresight import LOG_FORESIGHT
from auditor.tables.marks import STALE_MARKS
from auditor.tables.misplaced import MISPLACED
from auditor.tables.moved import MOVED
from auditor.tables.offload_objects import OFFLOAD_OBJECTS
from auditor.tables.orphans import VANISHED_RANGES
from auditor.tables.ownership import OWNERSHIP
from auditor.tables.placement import PLACEMENT
from auditor.tables.registry import BOOKIES, COOKIES, DIRECTORIES, REGISTRATIONS
from auditor.tables.space import SPACE
from auditor.tables.starts import STARTS
from auditor.tables.verdicts import VERDICTS

TABLES: dict[str, pa.Schema] = {
    "ledgers": LEDGERS,
    "ledgers_again": LEDGERS_AGAIN,
    "doubtful_ids": DOUBTFUL_IDS,
    "moved": MOVED,
    "marks": MARKS,
    "cookies": COOKIES,
    "registrations": REGISTRATIONS,
    "cluster": CLUSTER,
    "members": schema_of(
        ("bookie_id", pa.string(), "an id that ensembles name"),
        ("ledgers", pa.int64(), "ledgers whose ensembles name it"),
        ("depending", pa.int64(), "of these, ledgers with entries on it, or with an open end there"),
        ("replicas", pa.int64(), "of these, ledgers of which it should hold judged entries"),
    ),
    "directories": DIRECTORIES,
    "contents": CONTENTS,
    "starts": STARTS,
    "identity_edges": EDGES,
    "identities": IDENTITIES,
    "bookies": BOOKIES,
    "bookie_locations": BOOKIE_LOCATIONS,
    "availability": AVAILABILITY,
    "journal_tails": JOURNAL_TAILS,
    "answers": AVAILABILITY,
    "entry_logs": ENTRY_LOGS,
    "locations": LOCATIONS,
    "disks": DISKS,
    "space": SPACE,
    "misplaced": MISPLACED,
    "digests": DIGESTS,
    "unequal": schema_of(
        ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
        ("ledger_id", pa.int64(), "the ledger"),
        ("bookie_id", pa.string(), "the bookie"),
        (
            "expected",
            pa.binary(),
            "the entries it should hold, 24 bytes a group; null: none are judged there",
        ),
        ("held", pa.binary(), "the entries its index shows; null: no index"),
        (
            "index_state",
            pa.string(),
            "ok, cut, unreadable, limbo, not-indexed, misplaced, wrong-directory or absent",
        ),
        ("answered", pa.int64(), "when the bookie itself said what it holds (rpc), ms"),
        (
            "listed",
            pa.binary(),
            "of these what the bookie listed (rpc) and its disk, read completely, lacks; null: none",
        ),
    ),
    "judged": JUDGED,
    "witness": WITNESS,
    "verdicts": VERDICTS,
    "orphans": schema_of(
        ("bookie_id", pa.string(), "the bookie that holds it"),
        ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
        ("ledger_id", pa.int64(), "a ledger that the last scan of the metadata does not list"),
        ("groups", pa.binary(), "the entries held, 24 bytes a group"),
        ("in_m0", pa.bool_(), "the first scan listed it"),
        ("in_m1", pa.bool_(), "the last scan listed it"),
        (
            "newer_than_scan",
            pa.bool_(),
            "its index file is newer than a saved scan, or its id above all that one lists (RocksDB)",
        ),
        (
            "doubt",
            pa.string(),
            "why the store may have it all the same, where it was not seen; null: nothing says so",
        ),
    ),
    "placement": PLACEMENT,
    "holdings": schema_of(
        ("bookie_id", pa.string(), "a bookie with an index"),
        ("ledgers", pa.int64(), "ledgers that it has an index of"),
        ("orphans", pa.int64(), "of these, ledgers that the metadata does not list"),
        ("in_doubt", pa.int64(), "of the orphans, those with a doubt (orphans)"),
        (
            "lasting",
            pa.int64(),
            "of the others, those that a run which ended an hour or more before had already; 0: or none did",
        ),
        (
            "recent",
            pa.int64(),
            "of these others, those that were in the metadata within a collector's interval before the scan",
        ),
    ),
    "vanished_ranges": VANISHED_RANGES,
    "undrawn": UNDRAWN,
    "gc_foresight": GC_FORESIGHT,
    "log_foresight": LOG_FORESIGHT,
    "deletion_candidates": DELETION_CANDIDATES,
    "owners": OWNERS,
    "ownership": OWNERSHIP,
    "offload_objects": OFFLOAD_OBJECTS,
    "stale_marks": STALE_MARKS,
    "changes": CHANGES,
}


def to_json() -> str:
    """The published form: types as Arrow names them.

    >>> json.loads(to_json())["holdings"]["orphans"]["type"]
    'int64'
    """
    tables = {
        name: {
            column.name: {"type": str(column.type), "comment": column.metadata[b"comment"].decode()}
            for column in schema
        }
        for name, schema in TABLES.items()
    }
    return json.dumps(tables, indent=2) + "\n"


if __name__ == "__main__":
    print(to_json(), end="")
