"""changes: every finding with its change since the previous run, and findings that only that run has."""

import pyarrow as pa

from auditor.model.columns import make_schema

CHANGES = make_schema(
    ("fingerprint", pa.string(), "fingerprint of the finding, as in the findings table"),
    (
        "trouble",
        pa.string(),
        "key that matches findings across runs. It is the finding's fingerprint, except for checks that "
        "report successive stages of the same fault. These share the fingerprint of the mildest stage",
    ),
    ("id", pa.string(), "id of the check that made the finding"),
    (
        "urgency",
        pa.string(),
        "urgency, as in the findings table; the last known urgency if the finding is gone",
    ),
    (
        "severity",
        pa.string(),
        "critical, error, warning or note; the last known severity if the finding is gone",
    ),
    (
        "confidence",
        pa.string(),
        "confirmed, suspect or unknown; the last known confidence if the finding is gone",
    ),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null if the finding is not about a ledger"),
    ("ledger_id", pa.int64(), "the ledger; null if the finding is not about a ledger"),
    ("bookie_id", pa.string(), "the bookie; null if the finding is not about one bookie"),
    (
        "missing",
        pa.int64(),
        "number of entries confirmed missing, summed over all bookies; the last known number if the "
        "finding is gone",
    ),
    (
        "previous_severity",
        pa.string(),
        "severity in the previous run; null: that run did not have the finding",
    ),
    (
        "change",
        pa.string(),
        "new, same, worse (or newly confirmed), better, fixed or unseen. unseen: neither "
        "found nor ruled out, because the object was not checked",
    ),
    (
        "known_severity",
        pa.string(),
        "severity that the next run compares with. It is the severity in this run, or an earlier, worse "
        "severity that no run has ruled out since",
    ),
    (
        "known_missing",
        pa.int64(),
        "number of missing entries that the next run compares with. It is the number in this run, or an "
        "earlier, larger number that no run has ruled out since",
    ),
    (
        "known_confidence",
        pa.string(),
        "confidence that the next run compares with. confirmed: an earlier run confirmed the finding, and "
        "no later run has ruled it out",
    ),
    (
        "first_seen",
        pa.int64(),
        "end of the first run in the unbroken series of runs with the finding (ms since 1970, UTC)",
    ),
    ("last_seen", pa.int64(), "end of the last run that found the finding (ms since 1970, UTC)"),
    (
        "suppression",
        pa.int32(),
        "number (from 1) of the entry in the suppressions file that accepts the finding; null: no "
        "entry accepts it",
    ),
    ("suppressed", pa.string(), "reason given in the suppression; null: no suppression accepts the finding"),
)
CHANGED = "tables/changes"
"""Path of the table ``changes`` in a run directory."""
