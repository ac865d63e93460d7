"""Whole audits against an earlier run beside full ones, in turns: none, or one ledger of a hundred changed.

A made-up cluster, a ZooKeeper snapshot and index files, one warm session; seconds are processor time of the
process tree. Of a hundred ledgers one changes: spread evenly (one of its index files is written to, and its
metadata are others), or as in life: the oldest are deleted, and as many new ones lie at the end. All findings
must be those of the full run. Directories count as quiet if they were dated before the earlier run ended.

The last line is what no run against another does without, whatever has changed: to ask for the state of every
file, to pass over the snapshot, and what the queries for large tables cost where a table has next to no rows.

``BKAUDIT_INCREMENTAL_LEDGERS`` sets the size (5 GB of index files for 200,000), and
``BKAUDIT_INCREMENTAL_ROUNDS`` how often each way is measured, of which the least counts. With
``BKAUDIT_ENTRIES=50000`` ledgers are as Pulsar fills them (1.3 MB of index files each). With
``BKAUDIT_INCREMENTAL_COLD=1`` seconds are those of the clock, and nothing of the files is in memory when an
audit begins, as on a machine where bookies are at work: root alone may see to that. With
``BKAUDIT_INCREMENTAL_SLICE_OF=1000000`` the ledgers are a slice of a cluster of a million: all of those whose
index files lie in some of its directories.
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
from auditor.audit.earlier_run import REUSABLE
from auditor.keys import index_path
from auditor.model.options import AuditOptions
from auditor.model.progress import Silent
from auditor.model.run_facts import MANIFEST
from auditor.sources.bookies.availability import RACY_NS
from auditor.sources.bookies.earlier_rows import QUIET_MS
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.session import build_session
from benchmarks.cluster import Alike, Cluster, Longs
from benchmarks.cluster_disks import add_index_files, write_bookies
from benchmarks.cluster_store import write_snapshot
from benchmarks.costs import measured_tree, tree_seconds
from benchmarks.measure import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGERS = int(os.environ.get("BKAUDIT_INCREMENTAL_LEDGERS", "20000"))
ROUNDS = int(os.environ.get("BKAUDIT_INCREMENTAL_ROUNDS", "2"))
SLICE_OF = int(os.environ.get("BKAUDIT_INCREMENTAL_SLICE_OF", "0"))
COLD = os.environ.get("BKAUDIT_INCREMENTAL_COLD") == "1"
CACHES = Path("/proc/sys/vm/drop_caches")
TARGET = 10
FEW = 1_000
STAGES_SHOWN = 8
ONE_OF = 100

UNIT = "seconds of the clock" if COLD else "processor time"
Costs = dict[str, float]
"""What each stage took: processor time, or with `COLD` seconds of the clock."""


@dataclass(frozen=True)
class Window(Cluster):
    """The ledgers of a cluster from ``first`` to before ``last``; ``moved``: one of a hundred is another."""

    first: int = 0
    last: int = 0
    moved: bool = False

    def groups_of_ledgers(self) -> Iterator[Alike]:
        """All ledgers of the window, those that are alike together."""
        first, last = self.ledger_ids(np.array([self.first, self.last])).tolist()
        hundredths = self.hundredths
        for group in super().groups_of_ledgers():
            ids = group.ids[(group.ids >= first) & (group.ids < last)]
            has_moved = self.moved & np.isin(ids, hundredths)
            for subset in (ids[~has_moved], ids[has_moved]):
                if len(subset):
                    yield group._replace(ids=subset)

    @property
    def hundredths(self) -> Longs:
        """The ids of every hundredth ledger."""
        return self.ledger_ids(np.arange(0, self.ledgers, ONE_OF))

    def metadata(self, group: Alike) -> bytes:
        """The metadata that ledgers which are alike have: of those that moved, as long as it was."""
        data = super().metadata(group)
        moved = self.moved and group.ids[0] in self.hundredths
        return data.replace(b"managed-ledger", b"schema-ledgers") if moved else data


def now() -> float:
    """What a stage is charged with, up to here."""
    return time.perf_counter() if COLD else tree_seconds()


class CostWatch(Silent):
    """A progress that sums up what each stage takes, of processor time in the whole process tree."""

    def __init__(self) -> None:
        self._name, self._begun = "begin", now()
        self.seconds: Costs = {}

    def stage(self, name: str, total: int | None = None) -> None:
        """The next stage begins."""
        ended = now()
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + ended - self._begun
        self._name, self._begun = name, ended


def lines() -> Iterator[Line]:
    """Nothing changed, one of a hundred all over, one of a hundred at both ends; and what is left of it."""
    share = LEDGERS // (2 * ONE_OF)
    spark = build_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        trial = _Trial(Path(folder, "cluster"), spark)
        cluster = Window(LEDGERS, slice_of=SLICE_OF, last=LEDGERS - share)
        directories = trial.begin(cluster)
        yield trial.line("nothing changed")
        _rewrite(directories, cluster.hundredths)
        cluster = replace(cluster, moved=True)
        trial.go_on(cluster)
        yield trial.line("1 % changed, all over")
        for directory in directories:
            for ledger in cluster.ledger_ids(np.arange(share)).tolist():
                (directory / "current" / index_path.to_path(ledger)).unlink(missing_ok=True)
        cluster = replace(cluster, first=share, last=LEDGERS)
        add_index_files(replace(cluster, first=LEDGERS - share), directories)
        trial.go_on(cluster)
        yield trial.line("1 % changed, oldest deleted and newest made")
        yield _floor(trial, Path(folder, "few"))
    spark.stop()


class _Trial:
    """Audits of one cluster, each in a directory of its own: side by side they would be compared."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._folder, self._spark = folder, spark
        self._audit_count = 0
        self._out, self._earlier, self.uri = "", "", ""
        self._ended = 0
        self.bookies = folder / "bookies"
        self.full = 0.0

    def begin(self, cluster: Cluster) -> list[Path]:
        """Write the cluster and make the first earlier run; returns the bookies' index directories."""
        directories = write_bookies(cluster, self.bookies)
        add_index_files(cluster, directories)
        self.uri = write_snapshot(cluster, self._folder / "store-0")
        time.sleep(RACY_NS / 1e9 + 0.1)  # younger files are read again
        self.audit(None)
        self._take_as_earlier()
        return directories

    def go_on(self, cluster: Cluster) -> None:
        """Write the metadata as they are now; the latest run of before is the earlier one from here on."""
        self._take_as_earlier()
        self.uri = write_snapshot(cluster, self._folder / f"store-{self._audit_count}")

    def audit(self, since: str | None) -> Costs:
        """What it took, by stage."""
        self._audit_count += 1
        self._out = str(self._folder / f"audit-{self._audit_count}" / "run")
        if COLD:
            os.sync()
            CACHES.write_text("3")
        watch = CostWatch()
        audit = Audit(self.uri, [str(self.bookies)], self._out, AuditOptions(since=since, samples=0))
        report = audit.run(self._spark, watch)
        watch.stage("end")
        self._ended = time.time_ns() // 1_000_000
        reused_counts = report.run.reused
        if since is not None and (reused_counts is None or reused_counts["indexes"]["reused"] < 2 * LEDGERS):
            sys.exit(f"incremental_audit: the audit took nothing: {reused_counts}")
        return watch.seconds

    def line(self, change: str) -> Line:
        """Both ways in turn, the least of each."""
        ways: dict[str | None, Costs] = {}
        findings = set()
        for _ in range(ROUNDS):
            for since in (self._earlier, None):
                costs = self.audit(since)
                ways[since] = min(costs, ways.get(since, costs), key=_total)
                findings.add(_findings(self._out))
        if len(findings) != 1:
            sys.exit(f"incremental_audit: {change}: other findings than those of a full run")
        ours, full = ways[self._earlier], ways[None]
        self.full = _total(full)
        note = f"{UNIT}; {_told(ours)}; full {_told(full)}"
        return _line(f"whole audits, {change}", _total(ours), "full", self.full, note)

    def _take_as_earlier(self) -> None:
        """From here on directories that are dated later than the latest run's end are no longer quiet."""
        self._earlier = self._out
        manifest = json.loads(Path(self._earlier, MANIFEST).read_text())
        manifest[REUSABLE]["availability"]["began"] = self._ended + QUIET_MS
        Path(self._earlier, MANIFEST).write_text(json.dumps(manifest))


def _floor(trial: _Trial, folder: Path) -> Line:
    paths = [str(path) for path in trial.bookies.rglob("*.idx")]
    stat, passed = (_taken(run) for run in (partial(_stat_all, paths), partial(_pass_over, trial.uri)))
    few = _Trial(folder, build_session("local[2]"))
    with (
        patch("auditor.spark.query_plans.SMALL_BYTES", -1),
        patch("auditor.spark.query_plans.TINY_BYTES", -1),
    ):
        few.begin(Cluster(FEW))
        fixed = min(_total(few.audit(None)) for _ in range(ROUNDS))
    note = f"{UNIT}; stat {stat:.1f} s, snapshot {passed:.1f} s, audit of {FEW:,} ledgers {fixed:.1f} s"
    return _line(
        "  what is left if only changes cost", stat + passed + fixed, "the last full run", trial.full, note
    )


def _line(stage: str, ours: float, rival: str, rival_seconds: float, note: str) -> Line:
    return Line(stage, LEDGERS, "ledgers", ours, rival, LEDGERS, rival_seconds, target=TARGET, note=note)


def _taken(run: Callable[[], None]) -> float:
    cost = measured_tree(run)[1]
    return cost.clock if COLD else cost.client


def _stat_all(paths: Sequence[str]) -> None:
    for path in paths:
        os.stat(path)  # noqa: PTH116 -- as the program does


def _pass_over(uri: str) -> None:
    with closing(open_store(parse_metadata_uri(uri), StoreOptions())) as store:
        store.cluster()


def _findings(out: str) -> str:
    batches = open_run(out).batches("findings")
    return "\n".join(sorted(json.dumps(row, default=str) for batch in batches for row in batch.to_pylist()))


def _total(seconds: Costs) -> float:
    return sum(seconds.values())


def _told(seconds: Costs) -> str:
    longest = sorted(seconds.items(), key=lambda stage: -stage[1])[:STAGES_SHOWN]
    stages = ", ".join(f"{name} {took:.1f}" for name, took in longest)
    return f"{_total(seconds):.1f} s: {stages}"


def _rewrite(directories: Sequence[Path], ledgers: Longs) -> None:
    """Write to one index file of each ledger: in one of ten an entry less, else what was there."""
    for number, ledger in enumerate(ledgers.tolist()):
        for directory in directories:
            file = directory / "current" / index_path.to_path(ledger)
            if file.exists():
                with file.open("r+b") as stream:
                    stream.seek(1024)
                    was = stream.read(8)
                    stream.seek(1024)
                    stream.write(was if number % 10 else bytes(8))
                break
