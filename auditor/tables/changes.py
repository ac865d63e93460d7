"""changes: every finding with its change since the run before, and findings of that run that are gone."""

import pyarrow as pa

from auditor.model.columns import schema_of

CHANGES = schema_of(
    ("fingerprint", pa.string(), "the finding, as the table of findings names it"),
    (
        "trouble",
        pa.string(),
        "what runs are joined by: the fingerprint, or that of the mildest stage of one trouble",
    ),
    ("id", pa.string(), "the check that found it"),
    ("urgency", pa.string(), "as in the table of findings; of what is not found now, the last known"),
    ("severity", pa.string(), "critical, error, warning or note; of what is not found now, the last known"),
    ("confidence", pa.string(), "confirmed, suspect or unknown; the last known"),
    ("scope_id", pa.int64(), "BP-35 scope; null where no ledger is meant"),
    ("ledger_id", pa.int64(), "null where no ledger is meant"),
    ("bookie_id", pa.string(), "null in findings that are one per ledger"),
    ("missing", pa.int64(), "entries confirmed absent, over all bookies; the last known"),
    ("previous_severity", pa.string(), "its severity in the run before; null: it was not known there"),
    (
        "change",
        pa.string(),
        "new, same, worse (or confirmed by now) or better; fixed; unseen: neither found nor ruled out, as "
        "it was not looked at",
    ),
    (
        "known_severity",
        pa.string(),
        "what the next run compares with: severity, or a worse one that was known and is not ruled out since",
    ),
    ("known_missing", pa.int64(), "the same of missing"),
    (
        "known_confidence",
        pa.string(),
        "the same of confidence: confirmed, if it once was and is not ruled out since",
    ),
    ("first_seen", pa.int64(), "ms, UTC: the end of the first of an unbroken row of runs that know it"),
    ("last_seen", pa.int64(), "ms, UTC: the end of the last run that found it"),
    ("suppression", pa.int32(), "which entry of the suppressions file names it, from 1; null: none"),
    ("suppressed", pa.string(), "the reason of that entry"),
)
CHANGED = "tables/changes"
"""Path of the table in a run directory."""
