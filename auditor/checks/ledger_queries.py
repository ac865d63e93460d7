"""Queries that several checks share, on ledgers (class, broken rule, placement), marks and locks.

The class of a ledger is the state of its worst entry, such as below-ack-quorum. A ledger has one finding. If
a ledger is not closed, only its finished segments determine its class. Such a ledger is never entry-lost, and
its finding is never confirmed. Marks and locks are the under-replication marks and their locks.
"""

from auditor.checks.finding_rows import (
    MISSING_DIGEST_SQL,
    empty_if_null,
    finding_rows,
    list_entry_groups,
    suspect_if,
    words,
)
from auditor.checks.unlocated_entries import in_entry_logs, with_entry_logs
from auditor.model.columns import LEDGER, REPLICA
from auditor.model.finding import Urgency
from auditor.model.ledger_metadata import LedgerState
from auditor.model.placement import PlacementSettings, Policy
from auditor.model.states import DECODED, LedgerClass
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables, cached_query


def with_queue(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add a struct ``queue`` to rows about ledgers: the under-replication mark and the lock of the ledger.

    ``marked`` tells whether the ledger is marked. It is null if the store has no marks, or if a scan could
    not list all marks. ``since`` (ms) is the time of the mark, and ``replicas`` has the bookies that it
    names. ``held_by`` and ``held_since`` (ms) are the holder and the time of the lock.
    """
    marks = (
        tables.marks.where("not misplaced")
        .groupBy(*LEDGER)
        .agg(
            F.min(F.coalesce("ctime", "mtime")).alias("since"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("replicas")))).alias("replicas"),
        )
        .select(*LEDGER, F.expr("struct(true AS found, since, replicas) AS mark"))
    )
    locks = tables.locks.groupBy(*LEDGER).agg(
        F.expr("struct(min_by(owner, ctime) AS held_by, min(ctime) AS held_since) AS lock")
    )
    joined_rows = rows.join(marks, [*LEDGER], "left").join(locks, [*LEDGER], "left")
    unmarked_sql = "false" if tables.cluster.has_marks else "null"
    queue_sql = f"struct(coalesce(mark.found, {unmarked_sql}) AS marked, mark.since, mark.replicas, lock.*)"
    return joined_rows.withColumn("queue", F.expr(queue_sql)).drop("mark", "lock")


def queue_clause(tables: Tables) -> Column:
    """Return the last words of a message: whether the ledger is marked, and who locked it (`with_queue`)."""
    unknown_mark_reason = (
        "not all marks could be listed"
        if tables.cluster.keeps_marks
        else "this store keeps no under-replication marks"
    )
    lock_holder_text = words(", locked by {queue.held_by}")
    marked_text = words(
        "; marked for re-replication{held}",
        held=F.coalesce(lock_holder_text, F.lit(", not locked by any worker")),
    )
    return (
        F.when(
            F.col("queue.marked").isNull(),
            f"; it is unknown whether it is marked for re-replication: {unknown_mark_reason}",
        )
        .when(F.col("queue.marked"), marked_text)
        .otherwise(words("; not marked for re-replication{held}", held=empty_if_null(lock_holder_text)))
    )


@cached_query
def waiting_marks(tables: Tables) -> DataFrame:
    """Return under-replication marks that are older than ``stuck_hours`` and that no worker has locked.

    The result leaves out marks of deleted ledgers, and marks that are no longer needed (`stale_marks`).
    ``empty`` is true if the ledger is closed and has no entry.
    """

    from auditor.tables.marks import select_named_marks

    mark_age = F.lit(tables.cluster.scan_time) - F.col("since")
    marks = (
        select_named_marks(tables.marks)
        .where(mark_age > tables.cluster.settings.stuck_limit_ms)
        .join(tables.locks.select(*LEDGER), [*LEDGER], "left_anti")
        .join(tables.stale_marks.select(*LEDGER), [*LEDGER], "left_anti")
        .join(marks_of_deleted_ledgers(tables).select(*LEDGER), [*LEDGER], "left_anti")
    )
    empty_ledgers = (
        tables.ledgers_of_marks.where("status in ('ok', 'broken') and not undecidable")
        .where("state = 'CLOSED' and last_entry_id = -1")
        .join(marks.select(*LEDGER), [*LEDGER], "left_semi")
        .select(*LEDGER, F.lit(True).alias("empty"))
    )
    joined_rows = marks.join(empty_ledgers, [*LEDGER], "left")
    return joined_rows.withColumn("empty", F.coalesce("empty", F.lit(False)))


def marks_by_bookie(marks: DataFrame, moved_ledgers: DataFrame | None, *columns: str) -> DataFrame:
    """Return one row for each mark and each bookie that the mark names, as input of `count_per_bookie`.

    Args:
        marks: under-replication marks.
        moved_ledgers: ledgers that changed between the two metadata scans. None if there was one scan.
        columns: further columns to keep.

    Returns:
        The columns scope_id (upper half of the 128-bit ledger id), ledger_id, bookie_id, ``doubtful`` and
        ``columns``. ``doubtful`` is true if the ledger changed between the scans.
    """

    from auditor.tables.scans import drop_deleted_ledgers

    return drop_deleted_ledgers(marks, moved_ledgers).select(
        *LEDGER, F.explode("replicas").alias("bookie_id"), F.col("moved").alias("doubtful"), *columns
    )


@cached_query
def marks_of_deleted_ledgers(tables: Tables) -> DataFrame:
    """Return under-replication marks of ledgers surely not in the ledger tree, nor in its damaged parts."""

    from auditor.tables.marks import select_named_marks

    marks = select_named_marks(tables.marks)
    if tables.cluster.wrong_tree_reason is not None:
        return marks.limit(0)  # ledgers at paths of another layout may have any of these ids
    # Keep only ledgers with a mark, so that the join is as small as the marks.
    listed_ledgers = (
        tables.ledgers_of_marks.where("ledger_id is not null")
        .select(*LEDGER)
        .join(marks.select(*LEDGER), [*LEDGER], "left_semi")
    )
    # Marks have scope 0; a gap without a scope may be in any scope.
    unclear_id_ranges = tables.ledgers.where(
        "status in ('misplaced', 'gap') and low is not null and coalesce(scope_id, 0) = 0"
    ).select("low", "high")
    return marks.join(listed_ledgers, [*LEDGER], "left_anti").join(
        F.broadcast(unclear_id_ranges), F.col("ledger_id").between(F.col("low"), F.col("high")), "left_anti"
    )


def classified_ledgers(tables: Tables) -> DataFrame:
    """Return the rows of the table ``judged``, with the columns ``class`` and ``potential_class``.

    ``class`` is the state of the ledger's worst entry, such as entry-lost. ``potential_class`` is the class
    that the ledger has if all unknown copies are missing.
    """
    verdicts = tables.verdicts.select(*LEDGER, "class", "potential_class")
    return tables.judged.join(verdicts, [*LEDGER])


def rows_of_members(rows: DataFrame, tables: Tables) -> DataFrame:
    """Return only the rows in which the ledger's metadata names the row's bookie."""
    ensemble_members = (
        tables.ledgers.where(F.col("status").isin(*DECODED))
        .join(rows, [*LEDGER], "left_semi")
        .select(*LEDGER, F.explode("replicas.bookie_id").alias("bookie_id"))
    )
    return rows.join(ensemble_members, [*REPLICA], "left_semi")


def class_findings(tables: Tables, ledger_class: str) -> DataFrame:
    """Return one finding for each ledger of a class such as entry-lost, with its entries of that class."""
    entry_groups = list_entry_groups(F.col("class_entries.groups"), max_groups=None)
    return finding_rows(
        _classified_with_queue(tables)
        .where(F.col("class") == ledger_class)
        .withColumn("groups", entry_groups),
        ledger_id="ledger_id",
        urgency=F.when(_remaining_copies() == 1, Urgency.NEAR_LOSS.value),
        confidence=suspect_if((F.col("state") != LedgerState.CLOSED) | (F.size("doubts") > 0)),
        missing=F.array_sort("missing"),
        unknown=unknown_copy_bookies(),
        message=words(
            "ledger {ledger}{state}: {entries}{in_logs}{could_become}{queue}",
            state=F.when(F.col("state") == LedgerState.CLOSED, "").otherwise(words(" ({state})")),
            entries=_entries_of_class(ledger_class),
            in_logs=in_entry_logs(F.lit(ledger_class == LedgerClass.ENTRY_LOST)),
            could_become=_potential_class_clause(),
            queue=queue_clause(tables),
        ),
        evidence="IF(class_entries IS NULL, null, struct(groups, class_entries.count)) AS class_entries, "
        "state, write_quorum, ack_quorum, m AS copies_missing, mu AS copies_missing_or_unknown, "
        "potential_class, unknown AS unknown_copies, doubts, lasting_doubts, version AS metadata_version, "
        "witness, queue, in_entry_logs"
        # Operators accept only losses together with their digest.
        + (f", {MISSING_DIGEST_SQL} AS missing_digest" if ledger_class == LedgerClass.ENTRY_LOST else ""),
    )


@cached_query
def _classified_with_queue(tables: Tables) -> DataFrame:
    return with_queue(with_entry_logs(classified_ledgers(tables), tables), tables)


def unknown_copy_bookies() -> Column:
    """Return the bookies whose copies of a judged ledger are unknown, ascending."""
    return F.array_sort(F.array_distinct(F.col("unknown.bookie_id")))


def _remaining_copies() -> Column:
    return F.greatest(F.col("write_quorum") - F.col("m"), F.lit(0))


def _entries_of_class(ledger_class: str) -> Column:
    """Return a text such as "2 of 10 entries have no copy left (write quorum 3)".

    The text about a ledger that is not closed leaves out "of 10". If an entry log still has lost entries, the
    text is "no index has 2 of 10 entries (write quorum 3)".
    """
    count_of_all_text = words("{class_entries.count} of {last_entry_id + 1} entries")
    entry_count_text = F.when(F.col("state") == LedgerState.CLOSED, count_of_all_text).otherwise(
        words("{class_entries.count:entry|entries}")
    )
    entries_text = words("{listed} {if(class_entries.count = 1, 'has', 'have')}", listed=entry_count_text)
    if ledger_class == LedgerClass.ENTRY_LOST:
        remaining_copies_text = words(" no copy left (write quorum {write_quorum})")
        is_in_entry_log = F.coalesce(
            F.exists("in_entry_logs", lambda log: log["lost_entries"] > 0), F.lit(False)
        )
        entries_text = F.when(
            is_in_entry_log, words("no index has {listed}", listed=entry_count_text)
        ).otherwise(entries_text)
        remaining_copies_text = F.when(is_in_entry_log, words(" (write quorum {write_quorum})")).otherwise(
            remaining_copies_text
        )
    else:
        quorum_name = "ack" if ledger_class == LedgerClass.BELOW_ACK_QUORUM else "write"
        quorum_text = f" fewer copies than the {quorum_name} quorum of {{{quorum_name}_quorum}}"
        remaining_copies_text = words(
            quorum_text + ", at worst {left} of {write_quorum} copies", left=_remaining_copies()
        )
    irregular_entries_text = F.lit("some entries (too irregular to list) have")
    return words(
        "{some}{worst}",
        some=F.when(F.col("class_entries").isNull(), irregular_entries_text).otherwise(entries_text),
        worst=remaining_copies_text,
    )


def _potential_class_clause() -> Column:
    potential_class_text = words(
        "; at worst {potential_class}: copies on {bookies:,} are unknown", bookies=unknown_copy_bookies()
    )
    return F.when(F.col("class") != F.col("potential_class"), potential_class_text).otherwise("")


def broken_rule_findings(tables: Tables, *rules: str) -> DataFrame:
    """Return one finding for each ledger that breaks any of ``rules``. The evidence has every reason."""
    broken_rules = F.filter("rules", lambda rule: rule["rule"].isin(*rules))
    rows = tables.ledgers.withColumn("reasons", F.transform(broken_rules, lambda rule: rule["reason"]))
    return finding_rows(
        rows.where("ledger_id is not null and size(reasons) > 0"),
        ledger_id="ledger_id",
        message="ledger {ledger}: {array_join(reasons, '; ')}",
        evidence="path, reasons, state, ensemble_size, write_quorum, ack_quorum",
    )


_SEGMENT_COLUMNS = (
    "first_entry_id, windows, bookies, locations, unwritable, domain, state, write_quorum, ack_quorum"
)

PLACEMENT_COLUMNS = "state, segments, first_entry_id, windows, bookies, locations, write_quorum, ack_quorum"
"""SQL for the evidence of the checks of placement."""


def group_by_ledger(segments: DataFrame) -> DataFrame:
    """Return one row per ledger, from rows of the table ``placement``. Each row is about one segment.

    A row has the columns of the ledger's first segment, and two more. ``segments`` is the number of the
    ledger's rows. ``excused`` is true if only unwritable bookies break the policy.
    """
    first_segment = F.expr(f"min(struct({_SEGMENT_COLUMNS})) AS first")
    rows = segments.groupBy(*LEDGER).agg(
        F.expr("count(*) AS segments"), F.expr("bool_and(excused) AS excused"), first_segment
    )
    return rows.selectExpr(*LEDGER, "segments", "excused", "first.*")


def bookie_locations_text() -> Column:
    """Return the bookies of a row with their locations, as text."""
    return F.expr(
        "array_join(transform(arrays_zip(bookies, locations), each -> concat(each.bookies, ' ', "
        "coalesce(concat('in ', each.locations), 'without a location'))), ', ')"
    )


def policy_sentence(placement_settings: PlacementSettings | None) -> str:
    """Return the placement policy and its relevant settings, by their names in the server.

    >>> policy_sentence(PlacementSettings(Policy.RACK, enforce_min_racks=True))
    'rack, minNumRacksPerWriteQuorum 2, enforced'
    """
    assert placement_settings is not None  # the table placement exists only with settings
    match placement_settings.policy:
        case Policy.RACK:
            enforced_clause = ", enforced" if placement_settings.enforce_min_racks else ""
            return f"rack, minNumRacksPerWriteQuorum {placement_settings.min_racks}{enforced_clause}"
        case Policy.ZONE:
            return f"zone, minNumZonesPerWriteQuorum {placement_settings.min_zones}"
        case Policy.REGION if placement_settings.regions_to_write:
            return f"region, reppMinimumRegionsForDurability {placement_settings.min_regions}"
    return str(placement_settings.policy)
