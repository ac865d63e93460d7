"""Taking up a run that broke off: what it had read of a running store is not kept for long.

The tables of a run are one look at a cluster: metadata, then indexes, then metadata again. Where they are
taken up much later, what changed in between looks as if it had changed during the audit, and what broke in
between is not seen at all. All of it follows from the first scan, so that all of it is read again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from auditor.audit.landing import RunDirectory
from auditor.model.amounts import moment
from auditor.model.options import AuditOptions
from auditor.sources.metadata.stores import STORES
from auditor.sources.metadata.uri import parse_metadata_uri


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a run took of one that broke off.

    ``since`` is when its oldest table was written, in ms, None where nothing was taken; ``notes`` say it to a
    reader.
    """

    since: int | None = None
    notes: tuple[str, ...] = ()


def taken_up(run: RunDirectory, metadata: str, options: AuditOptions) -> Resumption:
    """Look at what an unfinished run has left in its directory; what is too old is taken away.

    Saved metadata do not change: there is no limit to them.
    """
    oldest = run.oldest_table()
    if oldest is None:
        return Resumption()
    age = max(0, time.time_ns() // 1_000_000 - oldest) / 1000
    since = moment(oldest)
    if STORES[parse_metadata_uri(metadata).scheme].live and age > options.resume_within:
        run.forget()
        return Resumption(
            None,
            (f"a run that broke off was begun anew: its tables, from {since} on, were too old to take up",),
        )
    return Resumption(
        oldest, (f"this run was resumed: it has tables of a run that broke off, from {since} on",)
    )
