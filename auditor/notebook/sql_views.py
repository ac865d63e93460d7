"""A finished run as SQL views: a view of every table, and three further views for common questions.

    run.views(spark)
    spark.sql("SELECT bookie_id, sum(entries) FROM missing GROUP BY bookie_id ORDER BY 2 DESC").show()

`views` returns the meaning of a row of each view. ``DESCRIBE ledgers`` lists the columns of a view with
their meaning. With a prefix, two runs can be open at the same time and be joined.
"""

import re
from collections.abc import Mapping
from typing import Any

from auditor.errors import UsageError
from auditor.runs.reader import RunReader
from auditor.spark.types import SparkSession, StructType

_TIME_SQL = "CASE WHEN {0} BETWEEN -62135596800000 AND 253402300799999 THEN timestamp_millis({0}) END"
"""SQL expression that converts milliseconds to a time. It gives null outside the years 1 to 9999."""

_CREATION_TIME_SQL = "coalesce(if(l.metadata_ctime > 0, l.metadata_ctime, null), l.ctime)"

_VIEWS: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, str]], str]] = {
    "ledger_classes": (
        "a ledger, with its class, times, quorums and bookies",
        ("ledgers", "verdicts"),
        {
            "scope_id": ("l.scope_id", "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
            "ledger_id": ("l.ledger_id", "the ledger"),
            "class": ("v.class", "class of the ledger, as in the view verdicts"),
            "potential_class": ("v.potential_class", "the class if all unknown copies were missing"),
            "confidence": ("v.confidence", "confirmed, suspect or unknown"),
            "state": ("l.state", "OPEN, IN_RECOVERY or CLOSED; null if unreadable"),
            "created": (_TIME_SQL.format(_CREATION_TIME_SQL), "time of its creation; null: not known"),
            "changed": (_TIME_SQL.format("l.mtime"), "time of the last change to its metadata; null on etcd"),
            "ensemble_size": ("l.ensemble_size", "number of bookies in each ensemble"),
            "write_quorum": (
                "l.write_quorum",
                "write quorum: number of bookies to which the writer sends each entry",
            ),
            "ack_quorum": (
                "l.ack_quorum",
                "ack quorum: number of bookies that must confirm an entry before it is acknowledged to the "
                "writer",
            ),
            "last_entry_id": ("l.last_entry_id", "last entry of a closed ledger, else -1"),
            "length": ("l.length", "length of a closed ledger in payload bytes"),
            "bookies": ("l.replicas.bookie_id", "all bookies of the ledger's ensembles"),
        },
        "{p}ledgers l JOIN {p}verdicts v ON l.scope_id = v.scope_id AND l.ledger_id = v.ledger_id "
        "AND l.status IN ('ok', 'broken', 'unreadable')",
    ),
    "missing": (
        "a ledger on a bookie that certainly lacks some of its entries",
        ("judged",),
        {
            "scope_id": ("j.scope_id", "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
            "ledger_id": ("j.ledger_id", "the ledger"),
            "bookie_id": ("part.bookie_id", "a bookie that was read and lacks entries that it should hold"),
            "entries": ("part.count", "number of entries that the bookie lacks"),
            "copies": ("j.m", "largest number of missing copies of any single entry of the ledger"),
            "write_quorum": (
                "j.write_quorum",
                "write quorum: number of bookies to which the writer sends each entry",
            ),
            "ack_quorum": (
                "j.ack_quorum",
                "ack quorum: number of bookies that must confirm an entry before it is acknowledged to the "
                "writer",
            ),
        },
        "{p}judged j LATERAL VIEW explode(j.missing) exploded AS part",
    ),
    "findings_since": (
        "a finding, with the end of the first run that has it, and its suppression",
        ("findings", "changes"),
        {
            "id": ("f.id", "id of the check that made the finding"),
            "severity": ("f.severity", "critical, error, warning or note"),
            "confidence": ("f.confidence", "confirmed, suspect or unknown"),
            "scope_id": ("f.scope_id", "BP-35 scope; null if the finding is not about a ledger"),
            "ledger_id": ("f.ledger_id", "the ledger; null if the finding is not about a ledger"),
            "bookie_id": ("f.bookie_id", "the bookie; null if the finding is not about one bookie"),
            "entries": (
                "aggregate(f.missing, 0L, (total, each) -> total + each.count)",
                "number of entries confirmed missing, summed over all bookies",
            ),
            "change": ("c.change", "new, same, worse or better than in the previous run"),
            "first_seen": (_TIME_SQL.format("c.first_seen"), "end of the first run that has the finding"),
            "suppressed": (
                "c.suppressed",
                "reason given in the suppression that accepts the finding; null: not suppressed",
            ),
            "message": ("f.message", "the finding as a sentence"),
            "fingerprint": (
                "f.fingerprint",
                "fingerprint of the finding, the same in every run as long as the fault lasts",
            ),
        },
        "{p}findings f LEFT JOIN {p}changes c ON f.fingerprint = c.fingerprint "
        "AND c.change NOT IN ('fixed', 'unseen')",
    ),
}
"""Views other than those of tables, by name.

Each value has the meaning of a row, the tables that the view needs, its columns with expression and meaning,
and the SQL text after FROM.
"""


def views() -> dict[str, str]:
    """Return what a row of each possible view means, by view. A run has only the views of its own tables."""
    from auditor.tables.run_tables import TABLES

    tables = {name: table.row_meaning for name, table in TABLES.items()}
    return {"findings": "a finding"} | tables | {name: view[0] for name, view in _VIEWS.items()}


def register(run: RunReader, spark: SparkSession, prefix: str = "") -> Mapping[str, str]:
    """Register the run's tables as temporary views of a session. Return what a row of each view means.

    Every name begins with ``prefix``: ``old_`` makes ``old_ledgers``. An existing view of the same name is
    replaced.

    Raises:
        UsageError: no SQL name can begin with the prefix.
        RunError: the run's directory cannot be listed.
    """
    if not re.fullmatch("([A-Za-z_][A-Za-z0-9_]*)?", prefix):
        raise UsageError(f"prefix {prefix!r}: use only letters, digits and _, and do not begin with a digit")
    from auditor.tables.run_tables import TABLES

    tables = [*(name for name in run.table_names() if name in TABLES), "findings"]
    for name in tables:
        part_path = name if name == "findings" else f"tables/{name}"
        frame = spark.read.schema(_read_schema(name)).parquet(f"{run.path}/{part_path}")
        frame.createOrReplaceTempView(f"{prefix}{name}")
    available_views = [
        name for name, (_, needed_tables, _, _) in _VIEWS.items() if set(needed_tables) <= set(tables)
    ]
    for name in available_views:
        _, _, columns, from_sql = _VIEWS[name]
        column_list = ", ".join(
            f"{column} COMMENT '{_escape_quotes(column_meaning)}'"
            for column, (_, column_meaning) in columns.items()
        )
        select_list = ", ".join(f"{expression} AS {column}" for column, (expression, _) in columns.items())
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW {prefix}{name} ({column_list}) "
            f"AS SELECT {select_list} FROM {from_sql.format(p=prefix)}"
        )
    return {
        f"{prefix}{name}": row_meaning
        for name, row_meaning in views().items()
        if name in (*tables, *available_views)
    }


def _read_schema(name: str) -> StructType:
    """Return a table's published schema, with comments as Spark stores them. No file is opened."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    from auditor.findings.table import FINDINGS_SCHEMA
    from auditor.tables.run_tables import TABLES

    arrow_schema: Any = FINDINGS_SCHEMA if name == "findings" else TABLES[name].columns
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                True,
                {"comment": arrow_schema.field(field.name).metadata[b"comment"].decode()},
            )
            for field in from_arrow_schema(arrow_schema)
        ]
    )


def _escape_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
