"""Whole audits that reuse an earlier run, compared with full audits of the same cluster.

The cluster is generated, with a ZooKeeper snapshot and index files. The two kinds of audit run in turns,
and all audits use one warm session. Either nothing changes, or one ledger in a hundred changes. Evenly
spread changes write to one index file of each changed ledger and change its metadata. Changes at both ends,
as in practice, delete the oldest ledgers and add as many new ones. Both kinds of audit must report the same
findings. Seconds are processor time of the process tree. An audit may reuse a directory's listing if the
directory is older than the end of the earlier run (normally: an hour older).

The last line adds up the work that no audit with an earlier run can avoid: ``stat`` of every file, a pass
over the snapshot, and the queries for large tables on nearly empty tables.

These environment variables change the benchmark:

``BKAUDIT_INCREMENTAL_LEDGERS`` is the number of ledgers. 200,000 ledgers need 5 GB of index files.
``BKAUDIT_INCREMENTAL_ROUNDS`` is the number of rounds for each kind of audit. The least time counts.
``BKAUDIT_ENTRIES=50000`` gives ledgers the size that Pulsar gives them: 1.3 MB of index files each.
``BKAUDIT_INCREMENTAL_COLD=1`` measures elapsed time and empties the page cache before each audit, which
only root can do. It resembles a machine with busy bookies.
``BKAUDIT_INCREMENTAL_SLICE_OF=1000000`` audits a part of a cluster of a million ledgers: the ledgers whose
index files are in some of the cluster's directories.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from auditor import Audit, open_run
from auditor.audit.earlier_run import REUSABLE_KEY
from auditor.keys import index_path
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.model.run_facts import MANIFEST
from auditor.sources.bookies.availability import MIN_STAMP_AGE_NS
from auditor.sources.bookies.earlier_rows import UNCHANGED_DIR_MS
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.session import build_session
from benchmarks.cluster import Cluster, LedgerGroup, Longs
from benchmarks.cluster_disks import add_index_files, write_bookies
from benchmarks.cluster_store import write_snapshot
from benchmarks.costs import measure_tree, process_tree_seconds
from benchmarks.measure import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGERS = int(os.environ.get("BKAUDIT_INCREMENTAL_LEDGERS", "20000"))
ROUNDS = int(os.environ.get("BKAUDIT_INCREMENTAL_ROUNDS", "2"))
SLICE_COUNT = int(os.environ.get("BKAUDIT_INCREMENTAL_SLICE_OF", "0"))
HAS_COLD_CACHES = os.environ.get("BKAUDIT_INCREMENTAL_COLD") == "1"
DROP_CACHES_FILE = Path("/proc/sys/vm/drop_caches")
TARGET_RATIO = 10
FEW_LEDGER_COUNT = 1_000
STAGES_SHOWN = 8
LEDGERS_PER_CHANGE = 100

COST_UNIT_TEXT = "seconds of the clock" if HAS_COLD_CACHES else "processor time"
Costs = dict[str, float]
"""Seconds by stage: processor time, or elapsed time if `HAS_COLD_CACHES` is set."""


@dataclass(frozen=True)
class LedgerSlice(Cluster):
    """The ledgers of a cluster from number ``first`` to number ``last`` (exclusive).

    If ``has_changed_metadata`` is true, one ledger in a hundred has changed metadata.
    """

    first: int = 0
    last: int = 0
    has_changed_metadata: bool = False

    def groups_of_ledgers(self) -> Iterator[LedgerGroup]:
        """Yield the ledgers of the slice in groups of equal ledgers.

        Changed ledgers are in separate groups.
        """
        first, last = self.ledger_ids(np.array([self.first, self.last])).tolist()
        changed_ids = self.ids_of_hundredth_ledgers
        for group in super().groups_of_ledgers():
            ids = group.ids[(group.ids >= first) & (group.ids < last)]
            is_changed = self.has_changed_metadata & np.isin(ids, changed_ids)
            for ids_of_part in (ids[~is_changed], ids[is_changed]):
                if len(ids_of_part):
                    yield group._replace(ids=ids_of_part)

    @property
    def ids_of_hundredth_ledgers(self) -> Longs:
        """The ids of every hundredth ledger."""
        return self.ledger_ids(np.arange(0, self.ledgers, LEDGERS_PER_CHANGE))

    def metadata(self, group: LedgerGroup) -> bytes:
        """Return the metadata of a group's ledgers. Changed metadata have the same length as before."""
        snapshot_bytes = super().metadata(group)
        is_changed = self.has_changed_metadata and group.ids[0] in self.ids_of_hundredth_ledgers
        return snapshot_bytes.replace(b"managed-ledger", b"schema-ledgers") if is_changed else snapshot_bytes


def clock_seconds() -> float:
    """Return the current value of the clock in use: processor time of the process tree, or elapsed time."""
    return time.perf_counter() if HAS_COLD_CACHES else process_tree_seconds()


class CostWatch(SilentProgress):
    """An audit's progress listener that adds up the seconds (`clock_seconds`) of each stage and table."""

    def __init__(self) -> None:
        self._stage_name, self._stage_start = "begin", clock_seconds()
        self.seconds: Costs = {}

    def table(self, name: str, total: int | None = None) -> None:
        """End the current stage or table, and begin the next."""
        self.stage(name)

    def stage(self, name: str, file_number: int = 0, total: int = 0) -> None:
        """End the current stage or table, and begin the next."""
        stage_end = clock_seconds()
        self.seconds[self._stage_name] = (
            self.seconds.get(self._stage_name, 0.0) + stage_end - self._stage_start
        )
        self._stage_name, self._stage_start = name, stage_end


def lines() -> Iterator[Line]:
    """Yield lines for no change, evenly spread changes, changes at both ends, and the unavoidable work."""
    changed_count = LEDGERS // (2 * LEDGERS_PER_CHANGE)
    spark = build_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        cluster_audits = _ClusterAudits(Path(folder, "cluster"), spark)
        cluster = LedgerSlice(LEDGERS, full_cluster_size=SLICE_COUNT, last=LEDGERS - changed_count)
        directories = cluster_audits.begin(cluster)
        yield cluster_audits.line("nothing changed")
        _rewrite_ledgers(directories, cluster.ids_of_hundredth_ledgers)
        cluster = replace(cluster, has_changed_metadata=True)
        cluster_audits.update_cluster(cluster)
        yield cluster_audits.line("1 % changed, all over")
        for directory in directories:
            for ledger in cluster.ledger_ids(np.arange(changed_count)).tolist():
                (directory / "current" / index_path.to_path(ledger)).unlink(missing_ok=True)
        cluster = replace(cluster, first=changed_count, last=LEDGERS)
        add_index_files(replace(cluster, first=LEDGERS - changed_count), directories)
        cluster_audits.update_cluster(cluster)
        yield cluster_audits.line("1 % changed, oldest deleted and newest made")
        yield _measure_fixed_work(cluster_audits, Path(folder, "few"))
    spark.stop()


class _ClusterAudits:
    """Audits of one cluster.

    Each run has its own parent directory. Otherwise an audit would compare itself with the other runs.
    """

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._folder, self._spark = folder, spark
        self._audit_count = 0
        self._run_path, self._earlier_run, self.uri = "", "", ""
        self._ended_ms = 0
        self.bookies = folder / "bookies"
        self.full_seconds = 0.0

    def begin(self, cluster: Cluster) -> list[Path]:
        """Write the cluster and make the first earlier run; return the bookies' index directories."""
        directories = write_bookies(cluster, self.bookies)
        add_index_files(cluster, directories)
        self.uri = write_snapshot(cluster, self._folder / "store-0")
        time.sleep(MIN_STAMP_AGE_NS / 1e9 + 0.1)  # an audit reads younger files again
        self.audit(None)
        self._use_as_earlier()
        return directories

    def update_cluster(self, cluster: Cluster) -> None:
        """Write the cluster's changed metadata. The latest run becomes the earlier run of the next audits."""
        self._use_as_earlier()
        self.uri = write_snapshot(cluster, self._folder / f"store-{self._audit_count}")

    def audit(self, earlier_run: str | None) -> Costs:
        """Audit the cluster with the help of ``earlier_run``; return the costs by stage.

        If ``earlier_run`` is None, the audit is a full one.
        """
        self._audit_count += 1
        self._run_path = str(self._folder / f"audit-{self._audit_count}" / "run")
        if HAS_COLD_CACHES:
            os.sync()
            DROP_CACHES_FILE.write_text("3")
        watch = CostWatch()
        audit = Audit(
            self.uri, [str(self.bookies)], self._run_path, AuditOptions(since=earlier_run, samples=0)
        )
        report = audit.run(self._spark, watch)
        watch.stage("end")
        self._ended_ms = time.time_ns() // 1_000_000
        reused_counts = report.run.reused
        if earlier_run is not None and (
            reused_counts is None or reused_counts["indexes"]["reused"] < 2 * LEDGERS
        ):
            sys.exit(f"incremental_audit: the audit took nothing: {reused_counts}")
        return watch.seconds

    def line(self, change_text: str) -> Line:
        """Audit with and without the earlier run in turns; return a line with the least time of each.

        ``change_text`` says what changed since the earlier run.
        """
        costs_by_earlier: dict[str | None, Costs] = {}
        findings = set()
        for _ in range(ROUNDS):
            for earlier_run in (self._earlier_run, None):
                costs = self.audit(earlier_run)
                costs_by_earlier[earlier_run] = min(
                    costs, costs_by_earlier.get(earlier_run, costs), key=_total_seconds
                )
                findings.add(_read_findings(self._run_path))
        if len(findings) != 1:
            sys.exit(f"incremental_audit: {change_text}: other findings than those of a full run")
        incremental_costs, full_costs = costs_by_earlier[self._earlier_run], costs_by_earlier[None]
        self.full_seconds = _total_seconds(full_costs)
        note = f"{COST_UNIT_TEXT}; {_stages_text(incremental_costs)}; full {_stages_text(full_costs)}"
        return _make_line(
            f"whole audits, {change_text}", _total_seconds(incremental_costs), "full", self.full_seconds, note
        )

    def _use_as_earlier(self) -> None:
        """Make the latest run the earlier run, and date it so that older directories need no new listing."""
        self._earlier_run = self._run_path
        manifest = json.loads(Path(self._earlier_run, MANIFEST).read_text())
        manifest[REUSABLE_KEY]["availability"]["began"] = self._ended_ms + UNCHANGED_DIR_MS
        Path(self._earlier_run, MANIFEST).write_text(json.dumps(manifest))


def _measure_fixed_work(cluster_audits: _ClusterAudits, folder: Path) -> Line:
    paths = [str(path) for path in cluster_audits.bookies.rglob("*.idx")]
    stat_seconds, snapshot_seconds = (
        _elapsed_cost(run) for run in (partial(_stat_all, paths), partial(_read_snapshot, cluster_audits.uri))
    )
    small_cluster_audits = _ClusterAudits(folder, build_session("local[2]"))
    with (
        patch("auditor.spark.query_plans.SMALL_BYTES", -1),
        patch("auditor.spark.query_plans.TINY_BYTES", -1),
    ):
        small_cluster_audits.begin(Cluster(FEW_LEDGER_COUNT))
        fixed_seconds = min(_total_seconds(small_cluster_audits.audit(None)) for _ in range(ROUNDS))
    note = f"{COST_UNIT_TEXT}; stat {stat_seconds:.1f} s, snapshot {snapshot_seconds:.1f} s, "
    note += f"audit of {FEW_LEDGER_COUNT:,} ledgers {fixed_seconds:.1f} s"
    return _make_line(
        "  what is left if only changes cost",
        stat_seconds + snapshot_seconds + fixed_seconds,
        "the last full run",
        cluster_audits.full_seconds,
        note,
    )


def _make_line(stage: str, incremental_costs: float, rival: str, rival_seconds: float, note: str) -> Line:
    return Line(
        stage,
        LEDGERS,
        "ledgers",
        incremental_costs,
        rival,
        LEDGERS,
        rival_seconds,
        target=TARGET_RATIO,
        note=note,
    )


def _elapsed_cost(run: Callable[[], None]) -> float:
    audit_cost = measure_tree(run)[1]
    return audit_cost.clock if HAS_COLD_CACHES else audit_cost.client


def _stat_all(paths: Sequence[str]) -> None:
    for path in paths:
        os.stat(path)  # noqa: PTH116 -- the same call as in the program


def _read_snapshot(uri: str) -> None:
    with closing(open_store(parse_metadata_uri(uri), StoreOptions())) as store:
        store.cluster()


def _read_findings(run_path: str) -> str:
    batches = open_run(run_path).batches("findings")
    return "\n".join(
        sorted(json.dumps(finding_row, default=str) for batch in batches for finding_row in batch.to_pylist())
    )


def _total_seconds(seconds: Costs) -> float:
    return sum(seconds.values())


def _stages_text(seconds: Costs) -> str:
    longest_stages = sorted(seconds.items(), key=lambda stage: -stage[1])[:STAGES_SHOWN]
    stages = ", ".join(f"{name} {stage_seconds:.1f}" for name, stage_seconds in longest_stages)
    return f"{_total_seconds(seconds):.1f} s: {stages}"


def _rewrite_ledgers(directories: Sequence[Path], ledgers: Longs) -> None:
    """Write to one index file of each ledger.

    One file in ten loses an entry. All other files keep their bytes.
    """
    for file_number, ledger in enumerate(ledgers.tolist()):
        for directory in directories:
            file = directory / "current" / index_path.to_path(ledger)
            if file.exists():
                with file.open("r+b") as stream:
                    stream.seek(1024)
                    old_bytes = stream.read(8)
                    stream.seek(1024)
                    stream.write(old_bytes if file_number % 10 else bytes(8))
                break
