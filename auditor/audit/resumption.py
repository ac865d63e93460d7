"""Resuming an interrupted run: what it had read of a running store is not kept for long.

The tables of a run are one look at a cluster: metadata, then indexes, then metadata again. Where they are
resumed much later, what changed in between looks as if it had changed during the audit, and what broke in
between is not seen at all. All of it follows from the first scan, so that all of it is read again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from auditor.errors import RunError
from auditor.model.amounts import format_time
from auditor.model.options import AuditOptions
from auditor.model.run_layout import MANIFEST, REPORT
from auditor.model.version import program_version
from auditor.runs.directory import RunDirectory
from auditor.runs.siblings import directories_with
from auditor.sources.clock import now_ms
from auditor.sources.metadata.stores import is_live
from auditor.sources.metadata.uri import MetadataUri


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a run took of an interrupted one.

    ``since`` is when its oldest table was written, in ms, None where nothing was taken; ``notes`` say it to a
    reader.
    """

    since: int | None = None
    notes: tuple[str, ...] = ()


def resumption_of(run: RunDirectory, metadata: str | MetadataUri, options: AuditOptions) -> Resumption:
    """Look at what an unfinished run has left in its directory; what is too old is taken away.

    Saved metadata do not change: there is no limit to them.
    """
    oldest = run.oldest_table()
    if oldest is None:
        return Resumption()
    age = max(0, now_ms() - oldest) / 1000
    since = format_time(oldest)
    if is_live(metadata) and age > options.resume_within:
        run.forget()
        return Resumption(
            None,
            (f"an interrupted run was begun anew: its tables, from {since} on, were too old to resume from",),
        )
    return Resumption(
        oldest, (f"this run was resumed: it has tables of an interrupted run, from {since} on",)
    )


def run_identity(kind: str, metadata: str, bookies: Sequence[str], options: AuditOptions) -> dict[str, Any]:
    """What a run is asked, as its manifest keeps it: only the same question goes on with a run."""
    return {
        "kind": kind,
        "version": program_version(),
        "metadata": metadata,
        "bookies": list(bookies),
        "options": asdict(options),
    }


def unfinished_run(runs: str, identity: dict[str, Any], within: float) -> str | None:
    """The newest run right below ``runs`` that broke off and was asked the same; None where there is none.

    One of a running store whose oldest table is older than ``within`` seconds would be begun anew: it is left
    alone. What lies there and is not a run of this program is passed over.

    Raises:
        RunError: ``runs`` is there and cannot be listed.
    """
    asked = json.loads(json.dumps(identity))
    live = is_live(identity["metadata"])
    found: list[tuple[int, str]] = []
    for path in directories_with(MANIFEST, runs, missing=True):
        run = RunDirectory(path)
        try:
            if run.exists(REPORT):
                continue
            same = (run.read_json(MANIFEST) or {}).get("identity") == asked
            oldest = run.oldest_table()
            files, manifest = run.place(MANIFEST)
            begun = files.get_file_info(manifest).mtime_ns
        except (OSError, ValueError, AttributeError, RunError):
            continue
        if same and not (live and oldest is not None and time.time() - oldest / 1000 > within):
            found.append((begun, path))
    return max(found)[1] if found else None
