"""Znodes in the ledger tree at a path that no ledger can have."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.finding_rows import empty_if_null, finding_rows, suspect_if, with_samples, words
from auditor.model.columns import LEDGER
from auditor.tables.parts import filter_table_part


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="misplaced_ledgers",
    do_now="compare the LAYOUT znode with the ledger tree before a bookie starts",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),
        HoldRule(
            HoldTarget.METADATA_STORE, (ActionKind.COLLECT, ActionKind.COMPACT, ActionKind.DELETE_LEDGER)
        ),
    ),
)
def metadata_misplaced(tables: Tables) -> DataFrame:
    """A znode in the ledger tree is not at a path that a ledger can have.

    What it finds:
        Reports znodes whose name cannot be parsed, or whose path is not the path of their ledger id.
        `elsewhere` counts the znodes at paths of another layout. LAYOUT and the ledger tree disagree if this
        number is above 10,000, or at least the number of ledgers at paths of LAYOUT. The severity is then
        `critical`, unless bookies still find these ledgers in their listing.

    Why it matters:
        A bookie's garbage collector treats the ledger as deleted, and clients do not find it. With a wrong
        LAYOUT, the first garbage collection deletes every ledger, even with verifyMetadataOnGC (seen with
        4.17.2).

    How sure:
        Confirmed: the path was listed. Suspect if LAYOUT is absent and the path fits another layout.
        Suspect if the ledger changed between the two metadata scans.

    What to do:
        If LAYOUT and the tree disagree, stop every bookie first. If no ledger is at a path of LAYOUT, put
        back the LAYOUT that fits the tree. Only after that, start one bookie, and check that it lists its
        ledgers. If some ledgers are at LAYOUT's paths, find out to which ledger the misplaced znode
        belongs, perhaps from its content. Move the znode only while no bookie collects garbage, and first
        copy it under another name with ZooKeeper's client.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID -dumptofile FILE`
          Reads the path that LAYOUT gives the ledger.

    Limits:
        An orphan is suspect if such a znode may belong to its ledger (ids from `low` to `high`). It is
        also suspect if LAYOUT and the tree disagree. After a change of the layout, the old tree still
        lists ledgers that were deleted later.
    """
    is_unparsable = F.col("damage").isNotNull()  # where another layout keeps ledgers
    other_layout_text = tables.cluster.wrong_tree_reason
    has_ledger_id = F.col("ledger_id").isNotNull()
    has_certain_id = has_ledger_id if other_layout_text is None else has_ledger_id & ~is_unparsable
    misplaced_znodes = filter_table_part("misplaced_ledgers", tables.ledgers).select(
        F.when(has_certain_id, F.col("scope_id")).alias("scope_id"),
        F.when(has_certain_id, F.col("ledger_id")).alias("ledger_id"),
        *("path", "low", "high", "damage"),
        (is_unparsable & ~has_ledger_id).alias("unlisted"),
    )
    rows = with_samples(
        misplaced_znodes,
        LEDGER,
        "path",
        F.min("low").alias("low"),
        F.max("high").alias("high"),
        F.min_by("damage", "path").alias("reason"),
        F.count("damage").alias("elsewhere"),
        F.count_if(F.col("unlisted")).alias("unlisted"),
    )
    is_of_other_layout = (F.col("elsewhere") > 0) & F.lit(other_layout_text is not None)
    is_deleted = is_of_other_layout & (F.col("unlisted") > 0)
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        urgency=F.when(is_deleted, Urgency.DESTROYS_DATA.value),
        severity=F.when(is_deleted, Severity.CRITICAL.value),
        confidence=suspect_if((F.col("elsewhere") > 0) & F.lit(not tables.cluster.layout_known)),
        message=words(
            "{where}{total:znode is|znodes are} not at the path of a ledger: {sample:,}{deletes}",
            where=empty_if_null(F.when(is_of_other_layout, f"{other_layout_text}; ")),
            deletes=empty_if_null(
                F.when(is_deleted, "; bookies do not list these ledgers, and garbage collection deletes them")
            ),
        ),
        evidence="total AS count, sample AS paths, string(low) AS low, string(high) AS high, reason, "
        "elsewhere",
    )
