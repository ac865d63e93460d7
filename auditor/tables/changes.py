"""changes: every finding with its change since the run before, and findings that only that run has."""

import pyarrow as pa

from auditor.model.columns import schema_of

CHANGES = schema_of(
    ("fingerprint", pa.string(), "fingerprint of the finding, as in the table of findings"),
    (
        "trouble",
        pa.string(),
        "key that joins runs: the fingerprint, or that of the mildest stage of the same trouble",
    ),
    ("id", pa.string(), "the check that found it"),
    ("urgency", pa.string(), "as in the table of findings; the last known one if the finding is gone"),
    ("severity", pa.string(), "critical, error, warning or note; the last known one if the finding is gone"),
    ("confidence", pa.string(), "confirmed, suspect or unknown; the last known"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null if the finding is not about a ledger"),
    ("ledger_id", pa.int64(), "the ledger; null if the finding is not about a ledger"),
    ("bookie_id", pa.string(), "the bookie; null in findings with one row per ledger"),
    ("missing", pa.int64(), "entries confirmed absent, over all bookies; the last known"),
    ("previous_severity", pa.string(), "severity in the run before; null: that run did not know it"),
    (
        "change",
        pa.string(),
        "new, same, worse (or confirmed by now) or better; fixed; unseen: neither found nor ruled out, "
        "because it was not checked",
    ),
    (
        "known_severity",
        pa.string(),
        "severity for the next run's comparison: the present one, or a worse one not ruled out since",
    ),
    ("known_missing", pa.int64(), "missing for the next run's comparison, in the same way"),
    (
        "known_confidence",
        pa.string(),
        "confidence for the next run's comparison: confirmed if it once was and was not ruled out",
    ),
    ("first_seen", pa.int64(), "ms, UTC: the end of the first of an unbroken row of runs that know it"),
    ("last_seen", pa.int64(), "ms, UTC: the end of the last run that found it"),
    ("suppression", pa.int32(), "number of the suppressions entry that names it, from 1; null: none"),
    ("suppressed", pa.string(), "the reason of that entry"),
)
CHANGED = "tables/changes"
"""Path of the table ``changes`` in a run directory."""
