"""changes: every finding with its change since the previous run, and findings that only that run has."""

import pyarrow as pa

from auditor.model.columns import schema_of

CHANGES = schema_of(
    ("fingerprint", pa.string(), "fingerprint of the finding, as in the table of findings"),
    (
        "trouble",
        pa.string(),
        "key that joins findings of different runs: the fingerprint, or the fingerprint of the "
        "mildest stage of the same fault",
    ),
    ("id", pa.string(), "id of the check that made the finding"),
    (
        "urgency",
        pa.string(),
        "urgency, as in the table of findings; the last known one if the finding is gone",
    ),
    ("severity", pa.string(), "critical, error, warning or note; the last known one if the finding is gone"),
    ("confidence", pa.string(), "confirmed, suspect or unknown; the last known one if the finding is gone"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null if the finding is not about a ledger"),
    ("ledger_id", pa.int64(), "the ledger; null if the finding is not about a ledger"),
    ("bookie_id", pa.string(), "the bookie; null if the finding is not about one bookie"),
    ("missing", pa.int64(), "number of entries confirmed missing, over all bookies; the last known number"),
    ("previous_severity", pa.string(), "severity in the run before; null: that run did not have the finding"),
    (
        "change",
        pa.string(),
        "new, same, worse (or newly confirmed), better, fixed or unseen. unseen: neither "
        "found nor ruled out, because the object was not checked",
    ),
    (
        "known_severity",
        pa.string(),
        "severity that the next run compares with: the present one, or an earlier, worse one "
        "that was not ruled out since",
    ),
    (
        "known_missing",
        pa.int64(),
        "number of missing entries that the next run compares with: "
        "the present one, or an earlier, larger one that was not ruled "
        "out since",
    ),
    (
        "known_confidence",
        pa.string(),
        "confidence that the next run compares with: confirmed if an earlier run confirmed the "
        "finding and no later run ruled it out",
    ),
    ("first_seen", pa.int64(), "end of the first of the consecutive runs that have the finding, ms, UTC"),
    ("last_seen", pa.int64(), "end of the last run that found it, ms, UTC"),
    (
        "suppression",
        pa.int32(),
        "number, from 1, of the suppressions entry that accepts the finding; null: no entry accepts it",
    ),
    ("suppressed", pa.string(), "reason in that suppressions entry"),
)
CHANGED = "tables/changes"
"""Path of the table ``changes`` in a run directory."""
