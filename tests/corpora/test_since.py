"""Audits against an earlier run: the findings of a full one, and a word on what was not read again."""

from __future__ import annotations

import os
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from auditor.sources.bookies.availability import MIN_STAMP_AGE_NS
from tests.corpora.audited import Audited, Row, audit
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
    made = Cluster()
    for bookie in (A, B, C):
        made.bookie(bookie)
    for ledger in LEDGERS:
        lost = {B: [4]} if ledger % 10 == 0 else {A: [4], B: [4]} if ledger == 15 else {}
        made.ledger(ledger, {0: [A, B, C]}, (3, 2), 9, without=lost)
    made.hold(90, C, range(10))
    return made


def changed_metadata() -> Cluster:
    made = cluster()
    made.ledger(SHORTER, {0: [A, B, C]}, (3, 2), 6)
    made.ledger(NEW, {0: [A, B, C]}, (3, 2), 9)
    del made.znodes[f"/ledgers/{ledger_path(made.layout, DELETED)}"]
    return made


def index(root: Path, bookie: str, ledger: int) -> Path:
    (path,) = (root / "bookies" / bookie.replace(":", "_")).rglob(f"{ledger:x}.idx")
    return path


class Runs(NamedTuple):
    first: Audited
    since: Audited
    full: Audited
    home: Path

    def again(self, spark: SparkSession, name: str, **options: Any) -> Audited:
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
    made = Runs(None, None, None, home)  # type: ignore[arg-type]  # filled below
    first = made.again(spark, "runs/1")
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
    since = made.again(spark, "runs/2", since="last")
    return Runs(first, since, made.again(spark, "full/1"), home)


def rows(run: Audited, table: str) -> list[str]:
    return sorted(repr(_without(row)) for row in run.table(table))


def _without(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in BOOKKEEPING}


def same(one: Audited, other: Audited) -> None:
    """Findings, what is said of the cluster, and the tables that findings are made from."""
    assert one.findings() == other.findings()
    assert (one.report.verdict, one.report.counts) == (other.report.verdict, other.report.counts)
    assert (one.report.coverage, one.report.findings) == (other.report.coverage, other.report.findings)
    for table in ("availability", "unequal", "judged", "verdicts", "orphans", "bookies", "contents"):
        assert rows(one, table) == rows(other, table), table


def test_the_findings_are_those_of_a_full_run(runs: Runs) -> None:
    same(runs.since, runs.full)
    assert runs.since.findings() != runs.first.findings()


def test_what_only_the_metadata_say_otherwise_is_found(runs: Runs) -> None:
    """Of these ledgers every index is taken from the earlier run."""
    found = {(row["id"], row["ledger_id"], row["bookie_id"]) for row in runs.since.findings()}
    assert {("orphan-ledger", DELETED, bookie) for bookie in (A, B, C)} <= found
    assert {("entry-lost", NEW, None), ("entries-past-end", SHORTER, None)} <= found
    assert runs.since.verdicts()[SHORTER]["class"] == "healthy"
    assert all(row["reused"] for row in runs.since.table("availability") if row["ledger_id"] == SHORTER)


def test_a_bookie_that_is_gone_and_other_options_change_no_finding(spark: SparkSession, runs: Runs) -> None:
    """The disks of one bookie are gone; the others' are cut into other tasks, and read with threads."""
    disks = runs.home / "cluster/bookies" / C.replace(":", "_")
    away = disks.rename(runs.home / "away")
    options = {"grace": 0.0, "parts_per_core": 1, "threads": 3}
    try:
        since = runs.again(spark, "gone/since", since=str(runs.first.out), **options)
        full = runs.again(spark, "gone/full/1", **options)
    finally:
        away.rename(disks)
    same(since, full)
    assert since.report.verdict == "not-healthy"
    assert since.report.coverage.bookies.unread == (C,)
    assert since.report.run.reused["indexes"]["reused"] == 2 * len(LEDGERS) - 2


def test_the_report_says_what_was_not_read_again(runs: Runs) -> None:
    indexes = len(LEDGERS) * 3 + 1
    taken = runs.since.report.run.reused
    assert taken["run"] == "1"
    assert (taken["ledgers"], taken["notes"]) == ({"reused": 0, "read": len(LEDGERS)}, [])
    # All but the files that changed: that one of them is gone leaves one less.
    assert taken["indexes"] == {"reused": indexes - 5, "read": 4}
    assert runs.since.report.run.operations["indexes read"] == 4
    assert runs.full.report.run.reused is None
    assert runs.full.report.run.operations["indexes read"] == indexes - 1
    ours = [row for row in runs.since.table("availability") if not row["reused"]]
    assert {row["ledger_id"] for row in ours} == {7, 20, 8, 91}


def test_journals_are_read_again_beside_indexes_that_are_not(spark: SparkSession, tmp_path: Path) -> None:
    """Real bookies that were killed while idle: all is in their journals, and a little in an index of one."""
    with tarfile.open(IDLE) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / "idle-interleaved"
    place = root / "bookies/bk-eps"
    own = place / "ledgers0/current" / index_path(11)
    own.parent.mkdir(parents=True)
    own.write_bytes(index_bytes(range(5)))
    os.utime(own, (LONG_AGO, LONG_AGO))
    time.sleep(MIN_STAMP_AGE_NS / 1e9 + 0.1)

    def again(name: str, **options: Any) -> Audited:
        metadata = f"zk-snapshot://{root}/zookeeper/version-2"
        return audit(spark, metadata, root / "bookies", tmp_path / name, **options)

    assert again("runs/1").report.verdict == "healthy"
    [journal] = place.rglob("*.txn")
    os.truncate(journal, 300_000)  # of 600,000 bytes with records
    since, full = again("runs/2", since="last"), again("full/1")
    same(since, full)
    taken = since.report.run.reused
    assert (taken["indexes"], taken["notes"]) == ({"reused": 1, "read": 0}, [])
    short = [row for row in since.of("below-write-quorum") if row["ledger_id"] == 11]
    [missing] = short[0]["missing"]
    assert missing["bookie_id"] == "bk-eps"
    assert 0 < missing["count"] < 1025 - 5  # what the index shows is held, and what is left of the journal
