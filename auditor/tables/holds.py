"""holds: which kinds of action are forbidden on an object of the cluster, why, and what lifts the ban."""

import pyarrow as pa

from auditor.model.columns import schema_of

HOLDS = schema_of(
    ("object", pa.string(), "kind of the object: bookie, ledger, entry-log or source"),
    (
        "key",
        pa.string(),
        "id of the object: bookie id; scope/ledger id; bookie id and entry log; or, for a source, "
        "metadata, owners, or bookie and its id",
    ),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null if the object is no ledger"),
    ("ledger_id", pa.int64(), "the ledger; null if the object is no ledger"),
    ("forbids", pa.list_(pa.string()), "kinds of action that are forbidden on the object (docs/safety.md)"),
    (
        "reason",
        pa.string(),
        "the check whose findings forbid these actions, or the name of a fact (docs/safety.md)",
    ),
    ("certain", pa.bool_(), "true: a certain fact forbids these actions; false: only a doubt"),
    (
        "urgency",
        pa.string(),
        "highest urgency of the findings that are the reason; rest if the reason is a fact",
    ),
    ("count", pa.int64(), "number of findings, ledgers or directories that are the reason"),
    (
        "accepted",
        pa.bool_(),
        "whether suppressions accept all findings that are the reason; they do not lift the hold",
    ),
    ("first_seen", pa.int64(), "end of the first of the consecutive runs that have the hold, ms, UTC"),
    (
        "lift",
        pa.string(),
        "condition under which a later run lifts the hold: finding-gone, fact-gone or data-elsewhere",
    ),
    (
        "carried",
        pa.bool_(),
        "true: an earlier run made the hold, and this run did not see the facts that would lift it",
    ),
    ("message", pa.string(), "the reason as a sentence"),
)
"""The table ``holds``: one row for each object and reason."""
