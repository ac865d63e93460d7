"""holds: actions that are forbidden on an object of the cluster, the reason, and what lifts the hold."""

import pyarrow as pa

from auditor.model.columns import schema_of

HOLDS = schema_of(
    ("object", pa.string(), "bookie, ledger, entry-log or source"),
    (
        "key",
        pa.string(),
        "bookie id; scope/ledger id; bookie id and entry log; metadata, owners, or bookie and id",
    ),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null where the object is no ledger"),
    ("ledger_id", pa.int64(), "the ledger; null where the object is no ledger"),
    ("forbids", pa.list_(pa.string()), "kinds of action (docs/safety.md)"),
    ("reason", pa.string(), "the check whose findings forbid it, or a fact (docs/safety.md)"),
    ("certain", pa.bool_(), "whether a certain fact is the reason; false: only a doubt"),
    ("urgency", pa.string(), "the highest urgency of these findings; rest for a fact"),
    ("count", pa.int64(), "number of findings, ledgers or directories that are the reason"),
    ("accepted", pa.bool_(), "suppressions accept all of these findings; the hold stands all the same"),
    ("first_seen", pa.int64(), "ms, UTC: the end of the first of an unbroken row of runs that have the hold"),
    (
        "lift",
        pa.string(),
        "condition that lifts the hold in a later run: finding-gone, fact-gone or data-elsewhere",
    ),
    ("carried", pa.bool_(), "an earlier run found it, and this run has not seen the facts that lift it"),
    ("message", pa.string(), "sentence for a reader"),
)
"""The table ``holds``: one row for each object and reason."""
