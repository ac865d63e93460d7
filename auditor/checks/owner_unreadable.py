"""Values of owners that cannot be read."""

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
from auditor.checks.finding_rows import finding_rows, with_fault


@check(
    Severity.ERROR,
    rests_on=Basis.OWNERS,
    asks="ownership",
    do_now="restore the owners that cannot be read from a snapshot",
    holds=(HoldRule(HoldTarget.OWNERS, (ActionKind.DELETE_LEDGER,)),),
)
def owner_unreadable(tables: Tables) -> DataFrame:
    """What an application keeps of its ledgers cannot be read.

    What it finds:
        Values of topics, subscriptions, schemas and logs that break their format, and places of the owners'
        trees that could not be listed. One finding per znode. A damaged record of a saved store that may be
        of any tree is one finding, at the tree that every such application has.

    Why it matters:
        The application cannot read it either: the topic does not load. Its ledgers are unknown, so none that
        claims it is called unowned.

    How sure:
        Confirmed: the bytes are what they are. What could not be listed may be readable to others.

    What to do:
        Restore the znode from a snapshot of the store. `bkaudit decode` shows at which byte it goes wrong.

    Commands:
        - `bkaudit decode pulsar-managed-ledger FILE`
          says at which byte a topic's value goes wrong that was saved to a file. Risk: none; it reads the
          file.
        - `bkaudit decode pulsar-cursor FILE`
          the same of a subscription's. Risk: none; it reads the file.

    Limits:
        A value that is damaged and still follows its format is taken as it is.
    """
    from auditor.sources.owners.applications import APPLICATIONS  # which explain does without

    rows = with_fault(tables, "owner-unreadable")
    for application in APPLICATIONS.values():
        rows = _without_repeated_gaps(rows, *application.trees)
    return finding_rows(
        rows,
        message="{path}: {damage}",
        evidence="application, path, damage, damage_offset",
    )


def _without_repeated_gaps(rows: DataFrame, first_tree: str, *later_trees: str) -> DataFrame:
    """Drop a gap at the top of a later tree if the first tree of its saved store has the same.

    A record whose path cannot be read may be of any tree, and the reader of each tree reports it, also of a
    tree that never existed.
    """
    from auditor.sources.metadata.uri import SAVED

    first = rows.where(F.col("path").endswith(f"/{first_tree}")).select(
        F.col("store").alias("first_store"),
        F.col("damage").alias("first_damage"),
        F.col("path").alias("first_path"),
    )
    top = F.regexp_replace("path", f"/({'|'.join(later_trees)})$", f"/{first_tree}")
    is_repeated = (
        F.col("store").rlike(f":({'|'.join(SAVED)})://")
        & (F.col("store") == F.col("first_store"))
        & (F.col("damage") == F.col("first_damage"))
        & (top == F.col("first_path"))
        & (F.col("path") != F.col("first_path"))
    )
    return rows.join(first, is_repeated, "left_anti")
