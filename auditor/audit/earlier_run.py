"""Reuse of unchanged rows of an earlier run of the same cluster (``--since``).

A row is reused if its source certainly has the same content now. All other data is read again. Two kinds of
sources qualify:

    - index files and databases with unchanged stamps (inode, size and times), on bookies with unchanged
      directories (`auditor.sources.bookies.earlier_rows`)
    - unchanged ledgers in a running etcd (`auditor.sources.metadata.etcd.pinned_etcd`)

If a run cannot reuse any row, it reports the reason.

For later runs, a run writes these facts to its manifest:

    "reusable": {"version", "schemas",
                 "availability": {"began", "files": {name: size},
                                  "bookies": {id: {"index_time", "directories"}}},
                 "ledgers": {"scope", "history": [...], "notes": [...], "files": {name: size}}}

``began`` is the start of the run's index scan, in ms. ``directories`` are the index directories of the
bookie. ``files`` are the files of the table. Their sizes show later whether a file is lost or truncated.
``ledgers`` exists if the ledgers were read from a running etcd. ``scope`` is the root of the cluster in etcd.
``history`` is a `History` with the revision of the table. ``notes`` say why this run reused no ledgers. The
number of bookies and tasks limits the size of these facts.
"""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import fs

from auditor.audit.run_store import RunStore
from auditor.errors import RunError, UsageError
from auditor.model.history import RunSummary
from auditor.model.options import LAST_RUN
from auditor.model.report import Cluster
from auditor.model.run_facts import DONE_FILE, Reuse, ReuseCount, program_version
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader
from auditor.runs.siblings import are_same_cluster, find_siblings
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.earlier_rows import EarlierTable
from auditor.sources.bookies.owners import AttributedBookie
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.bookies.reusable_parts import ReusablePart
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import absolute_path, open_earlier_file, run_files
from auditor.sources.metadata.earlier_ledgers import EarlierLedgers, find_ledgers
from auditor.sources.metadata.store import History
from auditor.tables.run_tables import to_json

REUSABLE_KEY = "reusable"


def writer_identity() -> dict[str, Any]:
    """Return the identity of the program that writes tables: its version, and a digest of all columns."""
    return {"version": program_version(), "schemas": hashlib.sha256(to_json().encode()).hexdigest()}


def save_index_facts(run_store: RunStore, bookies: Mapping[str, AttributedBookie]) -> None:
    """Save in the manifest which directories each bookie has, before table ``availability`` is written.

    Nothing is saved if the table already exists.
    """
    if not run_store.directory.exists(f"tables/availability/{DONE_FILE}"):
        read_bookies = {
            name: bookie_facts(bookie) for name, bookie in bookies.items() if bookie.index_directories
        }
        _save_facts(run_store, "availability", {"began": now_ms(), "bookies": read_bookies})


def save_ledger_facts(
    run_store: RunStore, store_root: str, history: History | None, notes: Sequence[str]
) -> None:
    """Save in the manifest the root and the history of an etcd, before the table ``ledgers`` is written.

    ``history`` is None if it is unknown. ``notes`` say why no ledgers were reused.
    """
    history_fields = None if history is None else list(history)
    _save_facts(run_store, "ledgers", {"scope": store_root, "history": history_fields, "notes": list(notes)})


def bookie_facts(bookie: AttributedBookie) -> dict[str, Any]:
    """Return facts about a bookie. While they are equal, or only index_time is later, rows are reusable."""
    return {
        "index_time": bookie.index_time,
        "directories": [asdict(directory) for directory in bookie.index_directories],
    }


def save_file_sizes(run_store: RunStore, table: str = "availability") -> None:
    """Save a written table's file sizes in the manifest, if the manifest has facts about the table."""
    facts = saved_facts(run_store, table)
    if facts and "files" not in facts:
        _save_facts(
            run_store,
            table,
            {**facts, "files": table_file_sizes(f"{run_store.directory.path}/tables/{table}")},
        )


def saved_facts(run_store: RunStore, table: str) -> dict[str, Any]:
    """Return the facts that this run saved about a table, or an empty dict."""
    facts: dict[str, Any] = run_store.directory.read_manifest().get(REUSABLE_KEY, {}).get(table, {})
    return facts


def table_file_sizes(table: str) -> dict[str, int]:
    """Return the Parquet files of a table by name, with their sizes in bytes.

    Raises:
        RunError: there is no such directory, or it cannot be listed.
    """
    files, table_path = run_files(table)
    try:
        file_infos = files.get_file_info(fs.FileSelector(table_path))
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{table}: {error}") from error
    return {
        file_info.base_name: file_info.size
        for file_info in file_infos
        if file_info.base_name.endswith(".parquet")
    }


def _save_facts(run_store: RunStore, table: str, facts: dict[str, Any]) -> None:
    manifest = run_store.directory.read_manifest()
    reusable_facts_by_table = {**manifest.get(REUSABLE_KEY, {}), **writer_identity(), table: facts}
    run_store.directory.add_to_manifest({REUSABLE_KEY: reusable_facts_by_table})


_REUSED_TABLES = ("availability", "ledgers")
"""Tables whose rows can be reused."""

_MAX_BOOKIES_NAMED = 5
_MAX_OPEN_FILES = 16


class _RangeFile(NamedTuple):
    """A file of the table ``availability``, and the lowest and highest bookie id in it.

    Both ids are None if the file has no rows. Such a file is treated as if it might have any bookie.
    """

    name: str
    lowest_id: str | None
    highest_id: str | None

    def may_contain(self, bookie_id: str) -> bool:
        first_id, last_id = self.lowest_id, self.highest_id
        return first_id is None or last_id is None or first_id <= bookie_id <= last_id


class ReusePlan(NamedTuple):
    """The parts of the indexes to read from disk, and the parts whose rows are taken from an earlier run.

    ``notes`` say why the rows of some bookies are not reused.
    """

    parts: Sequence[IndexPart]
    reusable_parts: Sequence[ReusablePart] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The earlier run whose rows may be reused, at ``path``. ``path`` is None if there is no such run.

    ``facts`` are the facts about reuse in the manifest of that run (`auditor.audit.earlier_run`).
    ``is_usable`` is whether the rows of that run may be reused. If it is False, ``notes`` give the reasons.
    """

    path: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_usable: bool = False

    @property
    def name(self) -> str:
        """Return the name of the run's directory."""
        return (self.path or "").rstrip("/").rpartition("/")[2]

    def plan(self, parts: Sequence[IndexPart], bookies: Mapping[str, AttributedBookie]) -> ReusePlan:
        """Choose the index parts whose rows are reused from this run. All other parts are read from disk."""
        if not self.is_usable:
            return ReusePlan(parts)
        table = f"{self.path}/tables/availability"
        try:
            facts = self.facts["availability"]
            earlier_facts, start_time = facts["bookies"], int(facts["began"])
            reasons_by_bookie = {
                name: reason
                for name, bookie in bookies.items()
                if (reason := _non_reuse_reason(earlier_facts.get(name), bookie))
            }
            files = _intact_files(table, facts["files"])
        except RunError as error:
            return self.plan_without_reuse(parts, str(error))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = (
                f"the manifest of that run does not say what the run read: {type(error).__name__}: {error}"
            )
            return self.plan_without_reuse(parts, reason)
        reusable_parts = [
            ReusablePart(part, _earlier_rows(table, files, part.bookie_id, start_time))
            for part in parts
            if part.bookie_id not in reasons_by_bookie
        ]
        changed_parts = [part for part in parts if part.bookie_id in reasons_by_bookie]
        return ReusePlan(changed_parts, reusable_parts, _reread_notes(reasons_by_bookie))

    def plan_without_reuse(self, parts: Sequence[IndexPart], reason: str) -> ReusePlan:
        """Return a plan that reads all ``parts`` and reuses no rows. The report shows the ``reason``."""
        return ReusePlan(parts, notes=(f"no index was reused from run {self.name}: {reason}",))

    def ledgers(self, store_root: str, history: History) -> EarlierLedgers | None:
        """Return the earlier ledger rows for an etcd with ``history``, or None if ``is_usable`` is False.

        Raises:
            RunError: no row can be reused. The message says why.
        """
        if not self.is_usable:
            return None
        return earlier_ledgers(f"{self.path}/tables/ledgers", self.facts.get("ledgers"), store_root, history)

    def report_reuse(self, indexes: ReuseCount, ledgers: ReuseCount, notes: Sequence[str]) -> Reuse | None:
        """Return the facts about reuse for the report, or None if there is no earlier run."""
        if self.path is None:
            return None
        return Reuse(run=self.name, indexes=indexes, ledgers=ledgers, notes=[*self.notes, *notes])


def _reread_notes(reasons_by_bookie: Mapping[str, str]) -> tuple[str, ...]:
    notes = [
        f"{name} was read again: {reason}"
        for name, reason in sorted(reasons_by_bookie.items())[:_MAX_BOOKIES_NAMED]
    ]
    if (further_count := len(reasons_by_bookie) - len(notes)) > 0:
        notes.append(f"{further_count:,} more bookies were read again for similar reasons")
    return tuple(notes)


def earlier_ledgers(table: str, facts: Any, store_root: str, history: History) -> EarlierLedgers:
    """Return the earlier rows of the table ledgers at the path ``table``. The etcd now has ``history``.

    ``facts`` are the facts that the earlier run saved about the table.

    Raises:
        RunError: no row can be reused. The message says why.
    """
    try:
        cluster, revision, log_leads = facts["history"]
        earlier_history = History(int(cluster), int(revision), (int(log_leads[0]), int(log_leads[1])))
        has_same_root, sizes = facts["scope"] == store_root, dict(facts["files"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = (
            f"the manifest of that run does not say when ledgers were read: {type(error).__name__}: {error}"
        )
        raise RunError(reason) from error
    if not has_same_root or earlier_history.cluster != history.cluster:
        raise RunError("that run read another etcd, or another root in this etcd")
    if not history.continues(earlier_history):
        raise RunError(f"etcd was restored after that run read it at revision {earlier_history.revision}")
    _check_sizes(table, sizes)
    return find_ledgers(table, list(sizes))


def check_since(since_option: str | None) -> None:
    """Raise an error if ``since_option`` is a path without a finished run. Call it before Spark starts.

    Raises:
        RunError: the errors of `auditor.runs.reader.RunReader`.
    """
    if since_option not in (None, LAST_RUN):
        RunReader(since_option)


def find_earlier_run(since_option: str | None, run_store: RunStore, cluster: Cluster) -> EarlierRun:
    """Return the earlier run that ``--since`` selects. A resumed run keeps the choice of its first attempt.

    Raises:
        UsageError: the selected run is of another cluster.
        RunError: the selected run is not finished, or cannot be read.
    """
    if since_option is None:
        return EarlierRun(None)
    path = run_store.pin_fact(
        "since", _newest_run(run_store.directory.path, cluster) if since_option == LAST_RUN else since_option
    )
    if path is None:
        reason = "all data was read: the parent directory has no complete run of this cluster"
        return EarlierRun(None, notes=(reason,))
    run = RunDirectory(absolute_path(path))
    report = RunReader(run.path).report
    if not are_same_cluster(report.cluster, cluster):
        raise UsageError(
            f"--since {since_option}: that is a run of another cluster, {report.cluster.name}; this "
            f"cluster is {cluster.name}"
        )
    try:
        facts = run.read_manifest().get(REUSABLE_KEY, {})
        is_same_version = {name: facts.get(name) for name in writer_identity()} == writer_identity()
    except RunError as error:
        return _unusable_run(run.path, f"the manifest of that run cannot be read: {error}")
    if not is_same_version:
        return _unusable_run(run.path, "another version of this program wrote it")
    return EarlierRun(run.path, facts, is_usable=True)


def _unusable_run(path: str, reason: str) -> EarlierRun:
    run = EarlierRun(path)
    return replace(run, notes=(f"nothing was reused from run {run.name}: {reason}",))


def _newest_run(out: str, cluster: Cluster) -> str | None:
    """Return the path of the newest run with intact tables in the directory that also contains ``out``.

    If there is none, return the newest complete run, or None. A run with intact tables may be incomplete: it
    has no rows for data that it could not read. The new run reads that data.
    """
    runs = sorted(
        (summary.finished, path, summary.complete)
        for path, summary in find_siblings(out, cluster, renew_index=True)
        if isinstance(summary, RunSummary) and path != out
    )
    intact_runs = (path for _, path, _ in reversed(runs) if _are_tables_intact(path))
    return next(intact_runs, next((path for _, path, is_complete in reversed(runs) if is_complete), None))


def _are_tables_intact(path: str) -> bool:
    """Return whether this program version wrote the run and its reusable tables are still unchanged."""
    try:
        facts = RunDirectory(path).read_manifest().get(REUSABLE_KEY, {})
        if {name: facts.get(name) for name in writer_identity()} != writer_identity():
            return False
        saved_sizes = {
            name: facts[name]["files"] for name in _REUSED_TABLES if "files" in facts.get(name, {})
        }
        return bool(saved_sizes) and all(
            table_file_sizes(f"{path}/tables/{name}") == saved_sizes[name] for name in saved_sizes
        )
    except (OSError, ValueError, AttributeError, TypeError, RunError):
        return False


def _non_reuse_reason(earlier_facts: Mapping[str, Any] | None, bookie: AttributedBookie) -> str | None:
    """Return why no index of a bookie may be reused. None if nothing forbids it."""
    if not bookie.index_directories:
        return None  # nothing to read
    if earlier_facts is None:
        return "that run did not read this bookie"
    facts = bookie_facts(bookie)
    if earlier_facts["directories"] != facts["directories"]:
        return "the bookie's index directories or their VERSION files changed"
    earlier_time, current_time = earlier_facts["index_time"], facts["index_time"]
    if earlier_time is not None and (current_time is None or current_time < earlier_time):
        return "the bookie's index is older than in that run: a disk was restored"
    return None


def _intact_files(table: str, saved_sizes: Mapping[str, int]) -> list[_RangeFile]:
    """Return the files of a table, each with its range of bookie ids.

    ``saved_sizes`` has the size of each file when it was written.

    Raises:
        RunError: files are missing or changed, or one of them cannot be opened.
    """
    _check_sizes(table, saved_sizes)
    with ThreadPoolExecutor(_MAX_OPEN_FILES) as pool:
        return list(pool.map(lambda name: _read_id_range(table, name), sorted(saved_sizes)))


def _check_sizes(table: str, saved_sizes: Mapping[str, int]) -> None:
    if table_file_sizes(table) != dict(saved_sizes):
        raise RunError(f"{table}: its files changed after the run wrote them")


def _read_id_range(table: str, name: str) -> _RangeFile:
    """Return a file with its lowest and highest bookie id.

    The function reads the whole column, because Arrow crashes on damaged column statistics.
    """
    lowest_ids: list[str] = []
    highest_ids: list[str] = []
    with open_earlier_file(table, name, SCHEMA) as file:
        for batch in file.iter_batches(columns=["bookie_id"], use_threads=False):
            bookie_id_range = pc.min_max(batch["bookie_id"]).as_py()
            if bookie_id_range["min"] is not None:
                lowest_ids.append(bookie_id_range["min"])
                highest_ids.append(bookie_id_range["max"])
    return _RangeFile(name, min(lowest_ids, default=None), max(highest_ids, default=None))


def _earlier_rows(table: str, files: Sequence[_RangeFile], bookie_id: str, start_time: int) -> EarlierTable:
    return EarlierTable(table, tuple(file.name for file in files if file.may_contain(bookie_id)), start_time)
