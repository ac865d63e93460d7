"""Rules for accepting findings of data loss.

A person must accept each finding separately. An acceptance is valid for a limited time. It covers only the
missing entries that were known when the finding was accepted.
"""

import hashlib
import struct
from collections.abc import Sequence
from datetime import date, timedelta

from auditor.model.finding import Missing, Urgency

DATA_LOSS = (Urgency.DESTROYS_DATA, Urgency.LOST)
"""Urgencies of findings about data that is lost, or about to be deleted.

Such findings are accepted one by one. While one of them is not accepted, the exit code is above 0.
"""

MAX_ACCEPTED_DAYS = 7
"""Largest number of days for which a finding of `DATA_LOSS` can be accepted.

A person has to decide again every week.
"""

_GROUP_STRUCT = struct.Struct(">qqii")  # a group as tables have it: first start, last start, size, period


def last_acceptance_day(today: date) -> date:
    """Return the last day until which a finding of `DATA_LOSS` stays accepted, if it is accepted today.

    >>> last_acceptance_day(date(2026, 11, 26))
    datetime.date(2026, 12, 3)
    """
    return today + timedelta(days=MAX_ACCEPTED_DAYS)


def missing_digest(missing_entries: Sequence[Missing]) -> str | None:
    """Return a digest (16 hexadecimal digits) of a finding's missing entries, or None if no entry is missing.

    `auditor.checks.finding_rows.MISSING_DIGEST_SQL` computes the same digest in Spark.

    >>> missing_digest([Missing("bk1:3181", ((4, 4, 1, 0),), 1)])
    '3be5380e0dd667e5'
    """
    if not missing_entries:
        return None
    bookie_texts = (
        f"{entries.bookie_id} {b''.join(_GROUP_STRUCT.pack(*group) for group in entries.groups).hex()}"
        for entries in missing_entries
    )
    return hashlib.sha256("|".join(bookie_texts).encode()).hexdigest()[:16]
