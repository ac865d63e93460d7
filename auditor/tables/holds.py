"""holds: which kinds of action are forbidden on an object of the cluster, why, and what lifts the ban."""

import pyarrow as pa

from auditor.model.columns import make_schema

HOLDS = make_schema(
    ("object", pa.string(), "kind of the object: bookie, ledger, entry-log or source"),
    (
        "key",
        pa.string(),
        "id of the object. bookie: its id. ledger: scope/ledger id. entry-log: bookie id and log id. "
        "source: metadata, owners, or the word bookie and the bookie's id",
    ),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null: the object is not a ledger"),
    ("ledger_id", pa.int64(), "the ledger; null: the object is not a ledger"),
    ("forbids", pa.list_(pa.string()), "kinds of action that are forbidden on the object (docs/safety.md)"),
    (
        "reason",
        pa.string(),
        "the check whose findings forbid the actions, or the name of a fact (docs/safety.md)",
    ),
    ("certain", pa.bool_(), "true: a proven fact forbids the actions. false: only a doubt forbids them"),
    (
        "urgency",
        pa.string(),
        "highest urgency of the findings behind the hold; rest if a fact is behind it",
    ),
    ("count", pa.int64(), "number of objects behind the hold, such as findings, ledgers or directories"),
    (
        "accepted",
        pa.bool_(),
        "whether suppressions accept all findings behind the hold; this does not lift the hold",
    ),
    (
        "first_seen",
        pa.int64(),
        "end of the first run in the unbroken series of runs with the hold (ms since 1970, UTC)",
    ),
    (
        "lift",
        pa.string(),
        "condition under which a later run lifts the hold: finding-gone, fact-gone or data-elsewhere",
    ),
    (
        "carried",
        pa.bool_(),
        "true: an earlier run placed the hold, and this run did not see the facts that would lift it",
    ),
    ("message", pa.string(), "the reason as a sentence"),
)
"""The table ``holds``: one row for each object and reason."""
