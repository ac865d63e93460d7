"""stale_marks, empty_directories: under-replication marks and mark directories that are no longer needed.

An under-replication mark tells a replication worker to look at a ledger, and names the bookies that were
missing. Only a worker removes a mark. So when bookies come back and ledgers have all their copies again,
the marks stay.

A mark has its own directory, below three directories that it shares with other marks. The worker that
removes a mark also tries to remove these four directories. It stops at the first that has other children.
If the worker dies meanwhile, or two workers run at the same time, directories without a mark remain.
"""

import pyarrow as pa

from auditor.model.columns import LEDGER, make_schema
from auditor.model.states import DECODED
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.scans import new_ids

STALE_MARKS = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope; always 0"),
    ("ledger_id", pa.int64(), "a ledger that is marked although the audit found all its copies"),
    ("path", pa.string(), "the mark's znode"),
    ("replicas", pa.list_(pa.string()), "bookies that lack copies according to the mark"),
    ("since", pa.int64(), "time when the ledger was last marked (ms since 1970, UTC)"),
    (
        "why",
        pa.string(),
        "reason why the mark is stale. returned: all bookies in replicas are registered again. repaired: "
        "none of them is in an ensemble of the ledger any more",
    ),
)

MARK_DEPTH = 4
"""Number of directories from the root of all marks to a mark, without the root."""


def select_named_marks(marks: DataFrame) -> DataFrame:
    """Return the readable under-replication marks that name a bookie.

    The columns are scope_id, ledger_id, path, replicas and since (ms). Marks that name no bookie are left
    out. Such a mark asks for a different placement, and no bookie is missing.
    """
    return marks.where("damage is null and not misplaced and size(replicas) > 0").select(
        *LEDGER, "path", "replicas", F.coalesce("ctime", "mtime").alias("since")
    )


def stale_marks(marks: DataFrame, verdicts: DataFrame, ledgers: DataFrame, bookies: DataFrame) -> DataFrame:
    """Return the rows of `STALE_MARKS`: under-replication marks that are no longer needed.

    The arguments are the tables of a run.
    """
    ledger_marks = select_named_marks(marks)
    healthy_ledgers = (
        verdicts.where("class = 'healthy' and potential_class = 'healthy'")
        .join(ledger_marks, [*LEDGER], "left_semi")
        .select(*LEDGER)
    )
    members = (
        ledgers.where(F.col("status").isin(*DECODED))
        .join(ledger_marks, [*LEDGER], "left_semi")
        .select(*LEDGER, F.col("replicas.bookie_id").alias("members"))
    )
    # A mark is stale only if no copy can be missing, so the potential class must be healthy too.
    rows = (
        ledger_marks.join(healthy_ledgers, [*LEDGER])
        .join(members, [*LEDGER])
        .crossJoin(find_registered_ids(bookies))
    )
    # A mark is done only if all its bookies are back, or if no ensemble names any of them.
    has_returned = F.size(F.array_except("replicas", "registered")) == 0
    is_repaired = ~F.arrays_overlap("replicas", "members")
    mark_state = F.when(has_returned, "returned").when(is_repaired, "repaired")
    return rows.withColumn("why", mark_state).where("why is not null").select(*STALE_MARKS.names)


def find_registered_ids(bookies: DataFrame) -> DataFrame:
    """Return one row with a single array: the ids of all registered bookies."""
    bookie_ids = F.collect_set("bookie_id").alias("registered")
    return F.broadcast(bookies.where("registered is not null").agg(bookie_ids))


def add_scope_to_marks(marks: DataFrame) -> DataFrame:
    """Return under-replication marks and locks with the column ``scope_id``.

    It is 0, because ledgers of other scopes (BP-35) have no marks or locks.
    """
    return marks.withColumn("scope_id", F.lit(0).cast("long"))


def marks_of_first_scan(marks: DataFrame, moved_ledgers: DataFrame | None) -> DataFrame:
    """Return under-replication marks, without marks of ledgers that were created after the first scan.

    The audit did not check these new ledgers. ``moved_ledgers`` has the differences between two scans of a
    live store. It is None for a saved store.
    """
    if moved_ledgers is None:
        return marks
    join_keys = [*LEDGER]
    return marks.join(new_ids(moved_ledgers), join_keys, "left_anti").select(*marks.columns)


def find_empty_directories(marks: DataFrame) -> DataFrame:
    """Return the directories without an under-replication mark: path, ctime (creation time, ms).

    The table ``marks`` lists a directory if any of several reads found no mark in it. A directory is left
    out here if another read found something below it, or if it could not be listed.
    """
    slash_count = "length(path) - length(replace(path, '/', ''))"
    parent_path = F.expr(
        f"explode(transform(sequence(1, {MARK_DEPTH}), "
        f"level -> substring_index(path, '/', {slash_count} - level + 1)))"
    )
    nonempty_directories = marks.where("kind != 'lock'").select(parent_path.alias("path"))
    unreadable_directories = marks.where("kind = 'gap'").select("path")
    directories = marks.where("kind = 'directory'").select("path", "ctime")
    return directories.join(nonempty_directories.unionByName(unreadable_directories), "path", "left_anti")
