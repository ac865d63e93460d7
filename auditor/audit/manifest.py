"""What a run notes of itself in its manifest, so that a later one can tell what of it may be taken again.

    "reusable": {"version", "schemas",
                 "availability": {"began", "files": {name: size},
                                  "bookies": {id: {"index_time", "directories"}}},
                 "ledgers": {"scope", "history": [...], "notes": [...], "files": {name: size}}}

``began`` is when its scan of indexes began (ms), ``directories`` are the bookie's as the tasks were told of
them, ``files`` those of the table's directory, so that one that is lost or cut is noticed. ``ledgers`` is
there where they were read from a running etcd: ``history`` is a `History` with the revision of the table,
``notes`` say why ledgers were not taken from the run before. Bounded by the number of bookies and of tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyarrow import fs

from auditor.audit.landing import MANIFEST, Landing
from auditor.errors import RunError
from auditor.model.version import program_version
from auditor.sources.bookies.owners import AttributedBookie
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import run_files
from auditor.sources.metadata.store import History
from auditor.tables.published_schemas import to_json

REUSABLE = "reusable"


def writer() -> dict[str, Any]:
    """By what a table was written: the program's version, and a digest of its tables' columns."""
    return {
        "version": program_version(),
        "schemas": hashlib.sha256(to_json().encode()).hexdigest(),
    }


def note_indexes(landing: Landing, bookies: Mapping[str, AttributedBookie]) -> None:
    """Note of which bookies' directories the table availability is going to be read, unless it is there."""
    if not landing.run.exists("tables/availability/_SUCCESS"):
        read = {name: bookie_facts(each) for name, each in bookies.items() if each.index_directories}
        _note(landing, "availability", {"began": now_ms(), "bookies": read})


def note_ledgers(landing: Landing, scope: str, history: History | None, notes: Sequence[str]) -> None:
    """Note at which moment of which etcd the table ledgers is going to be read; None: that is not known."""
    said = None if history is None else list(history)
    _note(landing, "ledgers", {"scope": scope, "history": said, "notes": list(notes)})


def bookie_facts(bookie: AttributedBookie) -> dict[str, Any]:
    """What must not have changed of a bookie, but for ``index_time``, which may have gone on."""
    return {
        "index_time": bookie.index_time,
        "directories": [asdict(directory) for directory in bookie.index_directories],
    }


def note_files(landing: Landing, table: str = "availability") -> None:
    """Note the files of a table of which something was noted, and which has landed."""
    facts = reusable_facts(landing, table)
    if facts and "files" not in facts:
        _note(landing, table, {**facts, "files": files_of(f"{landing.run.path}/tables/{table}")})


def reusable_facts(landing: Landing, table: str) -> dict[str, Any]:
    """What this run has noted of a table; nothing where it has not."""
    facts: dict[str, Any] = (landing.run.read_json(MANIFEST) or {}).get(REUSABLE, {}).get(table, {})
    return facts


def files_of(table: str) -> dict[str, int]:
    """The Parquet files of a table by name, and their sizes.

    Raises:
        RunError: there is no such directory, or it cannot be listed.
    """
    files, base = run_files(table)
    try:
        found = files.get_file_info(fs.FileSelector(base))
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{table}: {error}") from error
    return {info.base_name: info.size for info in found if info.base_name.endswith(".parquet")}


def _note(landing: Landing, table: str, facts: dict[str, Any]) -> None:
    manifest = landing.run.read_json(MANIFEST) or {}
    kept = {**manifest.get(REUSABLE, {}), **writer(), table: facts}
    landing.run.write_json(MANIFEST, {**manifest, REUSABLE: kept})
