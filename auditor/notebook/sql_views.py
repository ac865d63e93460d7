"""A finished run as SQL views: every table as it lies there, and three that answer the usual questions.

    run.views(spark)
    spark.sql("SELECT bookie_id, sum(entries) FROM missing GROUP BY bookie_id ORDER BY 2 DESC").show()

`VIEWS` says what a row of each is; ``DESCRIBE ledgers`` lists its columns with their meaning. With a prefix
two runs can be open at once, and joined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from auditor.errors import UsageError
from auditor.runs.reader import RunReader
from auditor.spark.types import SparkSession, StructType

VIEWS = {
    "findings": "a finding",
    "ledgers": "a ledger's metadata, or a znode that is none's, in the first scan",
    "ledgers_again": "the same in the last scan, in short",
    "moved": "a ledger that did not stand at one version in both scans",
    "marks": "an under-replication mark, a lock, or a directory in which no mark was seen",
    "cookies": "a cookie in the store",
    "registrations": "a registered bookie",
    "cluster": "a fact of the cluster as a whole, such as its instance id",
    "members": "a bookie that ensembles name",
    "directories": "a bookie's directory",
    "contents": "a directory and a bookie whose ledgers it seems to hold",
    "doubtful_ids": "ids that a scan of the metadata may have missed, and why",
    "starts": "a bookie's next start: would it come up",
    "identity_edges": "two bookie ids that may be one bookie, and why",
    "identities": "a bookie id, and the bookie that it is",
    "bookies": "a bookie that anything names: how far it was read, how much depends on it",
    "bookie_locations": "a bookie: where it stands, as a mapping says",
    "placement": "a segment that breaks the placement policy, or is at risk; and its first such window",
    "availability": "a ledger on a bookie: the entries that its index shows",
    "journal_tails": "a ledger in a bookie's journals after the mark; or a journal directory",
    "answers": "as availability, as the bookie itself answered; only of what differed",
    "unequal": "a ledger on a bookie where expected and held differ",
    "judged": "a ledger with such a difference: what is missing, unknown, surplus",
    "witness": "an entry that a bookie was asked for, and what it said",
    "verdicts": "a ledger: its class",
    "orphans": "a ledger on a bookie that the metadata does not list",
    "holdings": "a bookie: how many ledgers it holds",
    "vanished_ranges": "ten thousand ids of which a bookie holds orphans only",
    "undrawn": "a bookie with orphans whose ids the store's generator has not given out",
    "gc_foresight": "a ledger that a bookie's garbage collector deletes next, or meets and keeps, and why",
    "log_foresight": "an entry log: which collection or compaction deletes or rewrites it, since when",
    "deletion_candidates": "an entry log that the next collection deletes, its map held to its entries",
    "stale_marks": "an under-replication mark of a ledger that has all its copies",
    "owners": "a reference to a ledger that an application keeps, or a value of its that cannot be read",
    "ownership": "a reference beside its ledger, or a ledger without one: whose it is",
    "offload_objects": "an offload context beside the bucket's inventory, or a copy there without a context",
    "entry_logs": "an entry log, or a ledger in one: how many bytes, and what says so",
    "locations": "a ledger in an entry log, as the bookie's index has it",
    "disks": "a bookie's directory: bytes beside its entry logs, and how full its file system is",
    "space": "bytes of one class in an entry log: whose they are",
    "misplaced": "a ledger of which the index points at what an entry log does not have",
    "digests": "a sampled entry on a bookie: whether it is what its digest says",
    "changes": "a finding beside the run before: new, same, worse, better, fixed, unseen; since when",
    "ledger_classes": "a ledger: class, times, quorums and bookies side by side",
    "missing": "a ledger on a bookie that surely lacks entries of it",
    "findings_since": "a finding in short: since when it is known, whether it is suppressed",
}
"""What a row is, by view. The last three are made of the others; a run has the tables that it wrote."""

_TIME = "CASE WHEN {0} BETWEEN -62135596800000 AND 253402300799999 THEN timestamp_millis({0}) END"
"""Milliseconds as a time; null where no calendar reaches."""

_CREATED = "coalesce(if(l.metadata_ctime > 0, l.metadata_ctime, null), l.ctime)"

_MADE: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, str]], str]] = {
    "ledger_classes": (
        ("ledgers", "verdicts"),
        {
            "scope_id": ("l.scope_id", "BP-35 scope; 0 for every stock ledger"),
            "ledger_id": ("l.ledger_id", "the ledger"),
            "class": ("v.class", "as in verdicts"),
            "potential_class": ("v.potential_class", "the class if all unknown copies were gone"),
            "confidence": ("v.confidence", "confirmed, suspect or unknown"),
            "state": ("l.state", "OPEN, IN_RECOVERY or CLOSED; null if unreadable"),
            "created": (_TIME.format(_CREATED), "when it was made; null where nothing says"),
            "changed": (_TIME.format("l.mtime"), "when its metadata last changed; null on etcd"),
            "ensemble_size": ("l.ensemble_size", "bookies in each ensemble"),
            "write_quorum": ("l.write_quorum", "copies asked for"),
            "ack_quorum": ("l.ack_quorum", "copies acknowledged to the writer"),
            "last_entry_id": ("l.last_entry_id", "last entry of a closed ledger, else -1"),
            "length": ("l.length", "payload bytes of a closed ledger"),
            "bookies": ("l.replicas.bookie_id", "every bookie that any of its ensembles names"),
        },
        "{p}ledgers l JOIN {p}verdicts v ON l.scope_id = v.scope_id AND l.ledger_id = v.ledger_id "
        "AND l.status IN ('ok', 'broken', 'unreadable')",
    ),
    "missing": (
        ("judged",),
        {
            "scope_id": ("j.scope_id", "BP-35 scope; 0 for every stock ledger"),
            "ledger_id": ("j.ledger_id", "the ledger"),
            "bookie_id": ("part.bookie_id", "a bookie that was read and lacks entries that it should hold"),
            "entries": ("part.count", "how many"),
            "copies": ("j.m", "the most copies that one entry of the ledger is missing"),
            "write_quorum": ("j.write_quorum", "copies asked for"),
            "ack_quorum": ("j.ack_quorum", "copies acknowledged to the writer"),
        },
        "{p}judged j LATERAL VIEW explode(j.missing) exploded AS part",
    ),
    "findings_since": (
        ("findings", "changes"),
        {
            "id": ("f.id", "the check that found it"),
            "severity": ("f.severity", "critical, error, warning or note"),
            "confidence": ("f.confidence", "confirmed, suspect or unknown"),
            "scope_id": ("f.scope_id", "BP-35 scope; null where no ledger is meant"),
            "ledger_id": ("f.ledger_id", "null where no ledger is meant"),
            "bookie_id": ("f.bookie_id", "null in findings that are one per ledger"),
            "entries": (
                "aggregate(f.missing, 0L, (total, each) -> total + each.count)",
                "striped entries confirmed absent, over all bookies",
            ),
            "change": ("c.change", "new, same, worse or better than in the run before"),
            "first_seen": (_TIME.format("c.first_seen"), "the end of the first run that knows it"),
            "suppressed": ("c.suppressed", "the reason of the suppression that names it; null: none"),
            "message": ("f.message", "one sentence for a person"),
            "fingerprint": ("f.fingerprint", "the same in every run while the trouble lasts"),
        },
        "{p}findings f LEFT JOIN {p}changes c ON f.fingerprint = c.fingerprint "
        "AND c.change NOT IN ('fixed', 'unseen')",
    ),
}
"""Of each made view: the tables it needs, its columns (what, and what it means), and where they come from."""


def register(run: RunReader, spark: SparkSession, prefix: str = "") -> Mapping[str, str]:
    """Make the run's tables temporary views of a session; returns the name of each with what a row of it is.

    ``prefix`` stands before every name: ``old_`` makes ``old_ledgers``. A view of the same name is replaced.

    Raises:
        UsageError: the prefix is no beginning of an SQL name.
        RunError: the run's directory cannot be listed.
    """
    if not re.fullmatch("([A-Za-z_][A-Za-z0-9_]*)?", prefix):
        raise UsageError(f"prefix {prefix!r}: letters, digits and _ only, no digit first")
    from auditor.tables.published_schemas import TABLES

    tables = [*(name for name in run.table_names() if name in TABLES), "findings"]
    for name in tables:
        below = name if name == "findings" else f"tables/{name}"
        frame = spark.read.schema(_schema(name)).parquet(f"{run.path}/{below}")
        frame.createOrReplaceTempView(f"{prefix}{name}")
    made = [name for name, (needed, _, _) in _MADE.items() if set(needed) <= set(tables)]
    for name in made:
        _, columns, source = _MADE[name]
        named = ", ".join(f"{column} COMMENT '{_quote(said)}'" for column, (_, said) in columns.items())
        chosen = ", ".join(f"{what} AS {column}" for column, (what, _) in columns.items())
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW {prefix}{name} ({named}) "
            f"AS SELECT {chosen} FROM {source.format(p=prefix)}"
        )
    return {f"{prefix}{name}": VIEWS[name] for name in VIEWS if name in (*tables, *made)}


def _schema(name: str) -> StructType:
    """A table's published schema, its comments in Spark's place for them; no file is opened to learn it."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    from auditor.findings.table import FINDINGS
    from auditor.tables.published_schemas import TABLES

    arrow: Any = FINDINGS if name == "findings" else TABLES[name]
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                True,
                {"comment": arrow.field(field.name).metadata[b"comment"].decode()},
            )
            for field in from_arrow_schema(arrow)
        ]
    )


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
