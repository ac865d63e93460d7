"""Znodes of the ledger tree that are no ledger's path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import comma_list, finding_rows, quantity, words
from auditor.checks.samples import with_samples
from auditor.model.columns import LEDGER
from auditor.model.finding import Severity
from auditor.tables.parts import only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="metadata", rests_on=Basis.METADATA, asks="misplaced_ledgers")
def metadata_misplaced(tables: Tables) -> DataFrame:
    """A znode below the ledger tree is not at the path of a ledger.

    What it finds:
        Znodes whose name cannot be parsed, or whose path is not the one that their ledger id has in this
        layout. One finding per ledger id that the server's listing reads out of them; those of which it
        reads none are one finding together, with their number and the first ten paths.

    Why it matters:
        A bookie that lists the tree skips what it cannot parse, and its garbage collector then takes the
        ledger for deleted. A client that opens the ledger looks at the right path and finds nothing.

    How sure:
        Confirmed: the path was listed. Suspect where the ledger's metadata changed between the two scans of a
        running store.

    What to do:
        Find out which ledger the znode is of; its content may tell. Move it to its path only while no bookie
        collects garbage: copy it with ZooKeeper's own client, under another name first; deleting one cannot
        be undone.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID -dumptofile FILE`
          It reads the right path, if there is one.

    Limits:
        Of an id that such a znode could be the record of (`low` to `high`), orphans are only suspected, and
        no mark is called a deleted ledger's. A name that no ledger can have stands for none, and hides none.
    """
    from pyspark.sql import functions as F

    rows = with_samples(
        # What stands for no ledger is told once, of whatever scope it is.
        only("misplaced_ledgers", tables.ledgers).withColumn(
            "scope_id", F.when(F.col("ledger_id").isNotNull(), F.col("scope_id"))
        ),
        LEDGER,
        "path",
        F.min("low").alias("low"),
        F.max("high").alias("high"),
        F.min_by("damage", "path").alias("reason"),
    )
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        message=words(
            quantity(F.col("total"), "znode is", "znodes are"),
            " not at the path of a ledger: ",
            comma_list(F.col("sample")),
        ),
        evidence={
            "count": "total",
            "paths": "sample",
            "low": F.col("low").cast("string"),
            "high": F.col("high").cast("string"),
            "reason": "reason",
        },
    )
