"""Audits against an earlier run: the findings of a full audit, and a notice about data not read again."""

from __future__ import annotations

import os
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from auditor.sources.bookies.availability import MIN_STAMP_AGE_NS
from tests.corpora.audited import FinishedRun, Row, audit
from tests.corpora.cluster import Cluster, index_bytes, index_path, ledger_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = (f"bk{letter}.example:3181" for letter in "abc")
LEDGERS = range(1, 31)
SHORTER, DELETED, NEW = 12, 22, 31
BOOKKEEPING = {"stamp", "reused"}
LONG_AGO = 1_700_000_000
IDLE = Path(__file__).parents[1] / "data" / "idle-journal" / "bookies.tar.gz"


def cluster() -> Cluster:
    new_cluster = Cluster()
    for bookie in (A, B, C):
        new_cluster.bookie(bookie)
    for ledger in LEDGERS:
        lost = {B: [4]} if ledger % 10 == 0 else {A: [4], B: [4]} if ledger == 15 else {}
        new_cluster.ledger(ledger, {0: [A, B, C]}, (3, 2), 9, without=lost)
    new_cluster.hold(90, C, range(10))
    return new_cluster


def changed_metadata() -> Cluster:
    new_cluster = cluster()
    new_cluster.ledger(SHORTER, {0: [A, B, C]}, (3, 2), 6)
    new_cluster.ledger(NEW, {0: [A, B, C]}, (3, 2), 9)
    del new_cluster.znodes[f"/ledgers/{ledger_path(new_cluster.layout, DELETED)}"]
    return new_cluster


def index(root: Path, bookie: str, ledger: int) -> Path:
    (path,) = (root / "bookies" / bookie.replace(":", "_")).rglob(f"{ledger:x}.idx")
    return path


class Runs(NamedTuple):
    first: FinishedRun
    since: FinishedRun
    full: FinishedRun
    home: Path

    def audit_as(self, spark: SparkSession, name: str, **options: Any) -> FinishedRun:
        return audit(spark, self.metadata, self.home / "cluster/bookies", self.home / name, **options)

    @property
    def metadata(self) -> str:
        return f"dump://{self.home}/cluster/metadata.jsonl"


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    home = tmp_path_factory.mktemp("since")
    root = cluster().write(home / "cluster")
    for file in root.rglob("*.idx"):
        os.utime(file, (LONG_AGO, LONG_AGO))  # the cluster's own time is in the future
    time.sleep(MIN_STAMP_AGE_NS / 1e9 + 0.1)  # younger files are not known again
    partial_runs = Runs(None, None, None, home)  # type: ignore[arg-type]  # filled below
    first = partial_runs.audit_as(spark, "runs/1")
    # One loses an entry, one gains what it lacked, one is cut, one is gone; one ledger is only made now.
    index(root, A, 7).write_bytes(index_bytes([0, 3, 6, 9, 2, 5]))
    before = index(root, B, 20).stat()
    index(root, B, 20).write_bytes(index(root, B, 21).read_bytes())
    os.utime(index(root, B, 20), ns=(before.st_atime_ns, before.st_mtime_ns))
    os.truncate(index(root, C, 8), 1030)
    index(root, C, 9).unlink()
    index(root, C, 90).rename(index(root, C, 90).with_name("5b.idx"))
    # Metadata alone: one ledger is shorter, one is gone, and of a new one nobody has anything.
    changed_metadata().write_dump(root / "metadata.jsonl")
    since = partial_runs.audit_as(spark, "runs/2", since="last")
    return Runs(first, since, partial_runs.audit_as(spark, "full/1"), home)


def rows(run: FinishedRun, table: str) -> list[str]:
    return sorted(repr(_drop_bookkeeping(row)) for row in run.table(table))


def _drop_bookkeeping(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in BOOKKEEPING}


def assert_same(first: FinishedRun, second: FinishedRun) -> None:
    """Assert equal findings, equal cluster results, and equal tables that findings are made from."""
    assert first.findings() == second.findings()
    assert (first.report.verdict, first.report.counts) == (second.report.verdict, second.report.counts)
    assert (first.report.coverage, first.report.findings) == (second.report.coverage, second.report.findings)
    for table in ("availability", "unequal", "judged", "verdicts", "orphans", "bookies", "contents"):
        assert rows(first, table) == rows(second, table), table


def test_audit_since_an_earlier_run_equals_a_full_run(runs: Runs) -> None:
    assert_same(runs.since, runs.full)
    assert runs.since.findings() != runs.first.findings()


def test_metadata_changes_are_found_with_reused_indexes(runs: Runs) -> None:
    """The audit takes every index of these ledgers from the earlier run."""
    findings = {(row["id"], row["ledger_id"], row["bookie_id"]) for row in runs.since.findings()}
    assert {("orphan-ledger", DELETED, bookie) for bookie in (A, B, C)} <= findings
    assert {("entry-lost", NEW, None), ("entries-past-end", SHORTER, None)} <= findings
    assert runs.since.verdicts()[SHORTER]["class"] == "healthy"
    assert all(row["reused"] for row in runs.since.table("availability") if row["ledger_id"] == SHORTER)


def test_lost_bookie_and_other_options_still_equal_a_full_run(spark: SparkSession, runs: Runs) -> None:
    """One bookie's disks are gone; the others are split into other tasks, and read with threads."""
    disks = runs.home / "cluster/bookies" / C.replace(":", "_")
    away = disks.rename(runs.home / "away")
    options = {"grace": 0.0, "parts_per_core": 1, "threads": 3}
    try:
        since = runs.audit_as(spark, "gone/since", since=str(runs.first.out), **options)
        full = runs.audit_as(spark, "gone/full/1", **options)
    finally:
        away.rename(disks)
    assert_same(since, full)
    assert since.report.verdict == "not-healthy"
    assert since.report.coverage.bookies.unread == (C,)
    assert since.report.run.reused["indexes"]["reused"] == 2 * len(LEDGERS) - 2


def test_report_counts_reused_and_reread_indexes(runs: Runs) -> None:
    indexes = len(LEDGERS) * 3 + 1
    reuse = runs.since.report.run.reused
    assert reuse["run"] == "1"
    assert (reuse["ledgers"], reuse["notes"]) == ({"reused": 0, "read": len(LEDGERS)}, [])
    # All but the files that changed: that one of them is gone leaves one less.
    assert reuse["indexes"] == {"reused": indexes - 5, "read": 4}
    assert runs.since.report.run.operations["indexes read"] == 4
    assert runs.full.report.run.reused is None
    assert runs.full.report.run.operations["indexes read"] == indexes - 1
    ours = [row for row in runs.since.table("availability") if not row["reused"]]
    assert {row["ledger_id"] for row in ours} == {7, 20, 8, 91}


def test_journals_are_reread_while_unchanged_indexes_are_reused(spark: SparkSession, tmp_path: Path) -> None:
    """Real bookies that were killed while idle: their journals have everything, one index has a little."""
    with tarfile.open(IDLE) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / "idle-interleaved"
    place = root / "bookies/bk-eps"
    own = place / "ledgers0/current" / index_path(11)
    own.parent.mkdir(parents=True)
    own.write_bytes(index_bytes(range(5)))
    os.utime(own, (LONG_AGO, LONG_AGO))
    time.sleep(MIN_STAMP_AGE_NS / 1e9 + 0.1)

    def audit_as(name: str, **options: Any) -> FinishedRun:
        metadata = f"zk-snapshot://{root}/zookeeper/version-2"
        return audit(spark, metadata, root / "bookies", tmp_path / name, **options)

    assert audit_as("runs/1").report.verdict == "healthy"
    [journal] = place.rglob("*.txn")
    os.truncate(journal, 300_000)  # of 600,000 bytes with records
    since, full = audit_as("runs/2", since="last"), audit_as("full/1")
    assert_same(since, full)
    reuse = since.report.run.reused
    assert (reuse["indexes"], reuse["notes"]) == ({"reused": 1, "read": 0}, [])
    short = [row for row in since.findings_of("below-write-quorum") if row["ledger_id"] == 11]
    [missing] = short[0]["missing"]
    assert missing["bookie_id"] == "bk-eps"
    assert 0 < missing["count"] < 1025 - 5  # what the index shows is held, and what is left of the journal
