"""Whether a run can be written where it should go: looked at, and nothing written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from auditor.audit.lock import holder
from auditor.errors import RunError
from auditor.model.amounts import size
from auditor.model.report import USAGE
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.reports.doctor import Line, State
from auditor.runs.directory import RunDirectory
from auditor.sources.file_systems import absolute

ROOM = 1 << 30
"""Bytes free below which a run of a cluster of any size is tight."""


def look_at_out(out: str, metadata: str | None) -> Iterator[Line]:
    """Look at the run directory ``out``; with a metadata URI, at who is writing beside it too."""
    try:
        run = RunDirectory(absolute(out))
        finished, begun = run.exists(REPORT), run.exists(MANIFEST) or run.exists("tables")
    except (RunError, OSError, pa.ArrowException) as error:
        yield Line("out", "place", State.FAIL, str(error), "name a directory that can be seen", USAGE)
        return
    if finished:
        said = f"{run.path} holds a finished run, which is never written over"
        yield Line("out", "place", State.FAIL, said, "name a new directory", USAGE)
    elif begun:
        said = f"{run.path} holds an unfinished run; the same command goes on from its tables"
        yield Line("out", "place", State.OK, said)
    else:
        yield Line("out", "place", State.OK, f"{run.path} is free")
    if "://" in run.path:
        said = "whether it can be written is not known: trying would write"
        yield Line("out", "rights", State.NOT_ASKED, said)
        said = "overlapping runs are not kept apart on another file system"
        yield Line("out", "lock", State.WARN, said, "let the scheduler do it: Forbid, or max_active_runs=1")
        return
    yield from _local(Path(run.path))
    if metadata is not None:
        who = holder(metadata, run.path)
        if who is None:
            yield Line("out", "lock", State.OK, "no other run of this cluster is already running")
        else:
            said = f"another run of this cluster is already running: {who}"
            yield Line("out", "lock", State.FAIL, said, "wait for it, or end it", USAGE)


def _local(path: Path) -> Iterator[Line]:
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        yield Line("out", "rights", State.FAIL, f"{there} is not a directory", "name another place", USAGE)
        return
    system = _file_system(there.resolve())
    effective = os.access in os.supports_effective_ids
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=effective):
        said = f"user {os.geteuid()} may not write to {there} ({system})"
        yield Line("out", "rights", State.FAIL, said, "name another place, or run as another user", USAGE)
        return
    made = "" if there == path else "; the directories below are made"
    yield Line("out", "rights", State.OK, f"{there} can be written ({system}){made}")
    free = shutil.disk_usage(there).free
    state = State.OK if free >= ROOM else State.WARN
    way_out = None if state is State.OK else "name a place with more room"
    yield Line("out", "room", state, f"{size(free)} free", way_out)


def _file_system(path: Path) -> str:
    """The kind of file system that a path lies on, as the kernel names it."""
    kinds = {}
    mounts = Path("/proc/self/mounts")
    for line in mounts.read_text("utf-8", "replace").splitlines() if mounts.exists() else []:
        _, where, kind, *_ = line.split(" ")
        kinds[where.replace("\\040", " ")] = kind
    found = [str(each) for each in (path, *path.parents) if str(each) in kinds]
    return kinds[found[0]] if found else "file system not known"
