"""Metadata values of owners, such as topics, that cannot be read."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, ownership_with_fault


@check(
    Severity.ERROR,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="restore the unreadable owners from a snapshot",
    holds=(HoldRule(HoldTarget.OWNER_STORES, (ActionKind.DELETE_LEDGER,)),),
)
def owner_unreadable(tables: Tables) -> DataFrame:
    """An application's record of its ledgers cannot be read.

    What it finds:
        Reports values of topics, subscriptions, schemas and logs that break their format. Also reports
        paths of owners that could not be listed.

    Why it matters:
        The topic does not load. A ledger whose custom metadata names this owner is not reported as unowned.

    How sure:
        Confirmed: the bytes break the format.

    What to do:
        Restore the znode from a snapshot of the store.

    Commands:
        - `bkaudit decode pulsar-managed-ledger FILE`
          shows where a topic's saved value breaks its format. Risk: none; it reads the file.
        - `bkaudit decode pulsar-cursor FILE`
          does the same for a subscription. Risk: none; it reads the file.

    Limits:
        Damage is not noticed if the value still follows its format. Other clients may have permission to
        list a path that the audit cannot list.
    """
    from auditor.sources.owners.applications import APPLICATIONS  # imported late: `explain` does not need it

    rows = ownership_with_fault(tables, "owner-unreadable")
    for application in APPLICATIONS.values():
        rows = _without_repeated_gaps(rows, *application.trees)
    return finding_rows(
        rows,
        message="{path}: {damage}",
        evidence="application, path, damage, damage_offset",
    )


def _without_repeated_gaps(rows: DataFrame, first_tree: str, *later_trees: str) -> DataFrame:
    """Drop an unreadable part of a later tree's root if the first tree of the saved store also reports it.

    A record without a readable path may belong to any tree of the store. The reader of each tree therefore
    reports the record as a gap, even if the tree never existed.
    """
    from auditor.sources.metadata.uri import SAVED_SCHEMES

    first_tree_rows = rows.where(F.col("path").endswith(f"/{first_tree}")).select(
        F.col("store").alias("first_store"),
        F.col("damage").alias("first_damage"),
        F.col("path").alias("first_path"),
    )
    first_tree_path = F.regexp_replace("path", f"/({'|'.join(later_trees)})$", f"/{first_tree}")
    is_repeated = (
        F.col("store").rlike(f":({'|'.join(SAVED_SCHEMES)})://")
        & (F.col("store") == F.col("first_store"))
        & (F.col("damage") == F.col("first_damage"))
        & (first_tree_path == F.col("first_path"))
        & (F.col("path") != F.col("first_path"))
    )
    return rows.join(first_tree_rows, is_repeated, "left_anti")
