"""The directory of a run in progress: its facts, its report, and how an interrupted run is resumed.

A table is complete once its _SUCCESS file is written. A resumed run does not read the source of a complete
table again. The exception is a table that is too old and comes from a live store. A run reads metadata, then
indexes, then metadata again, within a short time. If a run were resumed much later, all changes since the
first attempt would look like changes during the audit.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from auditor.checks.configuration import read_check_configuration
from auditor.errors import RunError
from auditor.model.amounts import format_time
from auditor.model.options import AuditOptions
from auditor.model.report import Report
from auditor.model.run_facts import MANIFEST, REPORT, program_version
from auditor.runs.directory import RunDirectory
from auditor.runs.run_index import directories_with
from auditor.sources.clock import now_ms
from auditor.sources.metadata.stores import is_live
from auditor.sources.metadata.uri import MetadataUri
from auditor.tables.run_tables import TABLES


@dataclass(frozen=True, slots=True)
class Resumption:
    """The tables that a run took over from an interrupted run.

    ``oldest_table_time`` is the time when the oldest of these tables was written, in ms. It is None if
    there are no such tables. ``notes`` are texts for the report that say how the run was resumed.
    """

    oldest_table_time: int | None = None
    notes: tuple[str, ...] = ()


class RunStore:
    """A run's directory, and the facts that the run keeps in its manifest."""

    def __init__(self, directory: RunDirectory, resumption: Resumption | None = None) -> None:
        resumption = resumption or Resumption()
        self.directory = directory
        self.oldest_table_ms = resumption.oldest_table_time
        """Time of the oldest table that an interrupted run had left, in ms. None if there is none."""
        self.notes = resumption.notes
        """Notes for the report on how the run was resumed."""

    def pin_fact(self, key: str, value: Any) -> Any:
        """Return a fact from the run's manifest. If the manifest has no such fact, save ``value`` first.

        A resumed run therefore keeps the value of its first attempt.
        """
        manifest = self.directory.read_manifest()
        if key not in manifest:
            manifest[key] = value
            self.directory.add_to_manifest({key: value})
        return manifest[key]

    def finish(self, report: Report) -> None:
        """Write the report. This is the last step, because a run that has a report counts as complete."""
        self.directory.add_to_manifest(
            {
                "run": asdict(report.run),
                "coverage": asdict(report.coverage),
                "findings": self.directory.sizes("findings"),
                "tables": [name for name in self.directory.names("tables") if name in TABLES],
            }
        )
        self.directory.write_json(REPORT, json.loads(report.to_json()))


def resumption_of(run: RunDirectory, metadata: str | MetadataUri, options: AuditOptions) -> Resumption:
    """Return facts about the tables that an unfinished run left. Delete these tables if they are too old.

    Tables of saved metadata are never too old, because saved metadata does not change.
    """
    oldest_time = run.oldest_table_ms()
    if oldest_time is None:
        return Resumption()
    age_seconds = max(0, now_ms() - oldest_time) / 1000
    since_text = format_time(oldest_time)
    if is_live(metadata) and age_seconds > options.resume_within:
        run.delete_tables()
        return Resumption(
            None,
            (
                f"an interrupted run was restarted from the beginning: its oldest table, from {since_text}, "
                "was too old to resume",
            ),
        )
    return Resumption(
        oldest_time,
        (f"this run was resumed: it reuses tables of an interrupted run, the oldest from {since_text}",),
    )


def run_identity(
    run_kind: str, metadata: str, bookies: Sequence[str], options: AuditOptions
) -> dict[str, Any]:
    """Return the identity of a run for its manifest.

    A run can be resumed only by a run with the same identity.

    Raises:
        UsageError: the settings of the checks are wrong (`read_check_configuration`).
    """
    identity = {
        "kind": run_kind,
        "version": program_version(),
        "metadata": metadata,
        "bookies": list(bookies),
        "options": asdict(options),
        "checks": read_check_configuration(options).identity,
    }
    # As read from a manifest, where a tuple becomes a list: the two must compare equal.
    json_identity: dict[str, Any] = json.loads(json.dumps(identity))
    return json_identity


def unfinished_run(runs: str, identity: dict[str, Any], max_age_seconds: float) -> str | None:
    """Return the newest interrupted run directly below ``runs`` with this identity, or None.

    A run of a live store is skipped if its oldest table is older than ``max_age_seconds``. If resumed, it
    would read everything again. Directories that are not runs of this program are skipped too.

    Raises:
        RunError: ``runs`` exists and cannot be listed.
    """
    is_live_store = is_live(identity["metadata"])
    unfinished_runs: list[tuple[int, str]] = []
    for path in directories_with(MANIFEST, runs, may_be_missing=True):
        run = RunDirectory(path)
        try:
            if run.exists(REPORT):
                continue
            has_same_identity = run.read_manifest().get("identity") == identity
            oldest_time = run.oldest_table_ms()
            files, manifest = run.locate(MANIFEST)
            start_time = files.get_file_info(manifest).mtime_ns
        except (OSError, ValueError, AttributeError, RunError):
            continue
        if has_same_identity and not (
            is_live_store and oldest_time is not None and time.time() - oldest_time / 1000 > max_age_seconds
        ):
            unfinished_runs.append((start_time, path))
    return max(unfinished_runs)[1] if unfinished_runs else None
