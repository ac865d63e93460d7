"""A corpus audited from tables that were collected beside its bookies, instead of from their directories."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet as pq

from auditor import Audit, AuditOptions
from auditor.collect.collect import collect
from auditor.model.run_facts import sentence_of
from tests.corpora.audited import FinishedRun, Row, audit
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def collect_each_bookie(corpus: Corpus, root: Path) -> Path:
    """Write one collection per bookie, as each bookie would make its own."""
    for bookie in sorted(corpus.bookies.iterdir()):
        host_directory = root / "hosts" / bookie.name
        host_directory.mkdir(parents=True)
        (host_directory / bookie.name).symlink_to(bookie)
        collect([str(host_directory)], str(root / "tables" / bookie.name))
    return root / "tables"


def _without_paths(rows: list[Row]) -> list[Row]:
    """Return findings without evidence and message, in which disk paths differ between the ways."""
    return [{**row, "evidence": None, "message": None} for row in rows]


def _by_ledger(rows: list[Row]) -> list[Row]:
    """Return the rows of verdicts, which have no fixed order, sorted by ledger."""
    return sorted(rows, key=lambda row: (row["scope_id"], row["ledger_id"]))


def assert_equal_to_disks(
    collected: FinishedRun, audited: FinishedRun, but: Collection[str] = (), ledgers: Collection[int] = ()
) -> None:
    """Assert that an audit of collections has the results of the audit of the disks.

    ``but`` excludes findings of these checks, and ``ledgers`` all results for these ledgers of scope 0.
    """
    runs = (collected, audited)
    collected_rows, disk_rows = (
        [row for row in run.findings() if row["id"] not in but and row["ledger_id"] not in ledgers]
        for run in runs
    )
    assert _without_paths(collected_rows) == _without_paths(disk_rows)
    verdicts = [
        _by_ledger([row for row in run.table("verdicts") if row["ledger_id"] not in ledgers]) for run in runs
    ]
    assert verdicts[0] == verdicts[1]
    if not ledgers:
        assert collected.report.coverage == audited.report.coverage


@pytest.mark.parametrize("name", ["interleaved-hier", "dbledger-long"])
def test_collected_tables_give_the_findings_of_the_disks(
    name: str, runs: Runs, corpora: Corpora, spark: SparkSession, tmp_path: Path
) -> None:
    """One corpus for each kind of index; `tests.corpora.test_space` covers flat-v1 with its entry logs."""
    corpus = corpora.get(name)
    collections = collect_each_bookie(corpus, tmp_path)
    collected = audit(spark, f"dump://{corpus.dump}", collections, tmp_path / "run")
    assert_equal_to_disks(collected, runs.get(name))


def test_damaged_collection_makes_its_bookie_unknown_and_adds_no_missing_copy(
    runs: Runs, corpora: Corpora, spark: SparkSession, tmp_path: Path
) -> None:
    """The corpus is dbledger-long, in which two bookies have swapped disks."""
    audited, corpus = runs.get("dbledger-long"), corpora.get("dbledger-long")
    collections = collect_each_bookie(corpus, tmp_path)
    directories = sorted(collections.iterdir())
    damaged = max(directories, key=lambda path: (path / "availability/part-00000.parquet").stat().st_size)
    file = damaged / "availability/part-00000.parquet"
    # The last byte of a page: the file is as long as it was, and its footer as good.
    groups = pq.read_metadata(file).row_group(0).column(3)
    changed = bytearray(file.read_bytes())
    changed[
        (groups.dictionary_page_offset or groups.data_page_offset) + groups.total_compressed_size - 1
    ] ^= 1
    file.write_bytes(changed)
    sources = [str(path) for path in directories]
    report = Audit(f"dump://{corpus.dump}", sources, str(tmp_path / "run"), AuditOptions()).run(spark)
    run = FinishedRun(report, tmp_path / "run")
    notices = [note for note in map(sentence_of, report.run.remarks) if str(damaged) in note]
    assert notices == [
        f"collection {damaged} was not used: its availability table is damaged and cannot be read completely"
    ]
    unread = {
        row["bookie_id"]
        for row in run.table("bookies")
        if "availability table is damaged" in (row["reason"] or "")
    }
    assert unread
    assert unread <= set(report.coverage.bookies.unread)
    # What the others lack stays missing; of these nothing is.
    missing_copies = {
        (finding["ledger_id"], part["bookie_id"]) for finding in run.findings() for part in finding["missing"]
    }
    expected_copies = {
        (finding["ledger_id"], part["bookie_id"])
        for finding in audited.findings()
        for part in finding["missing"]
    }
    assert missing_copies <= {pair for pair in expected_copies if pair[1] not in unread}
