"""Swapped disks: the audit finds them by their ledgers where cookies do not show the swap."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.corpora.audited import FinishedRun, audit
from tests.corpora.corpora import unpack
from tests.corpora.shared import Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B = "bk-a.rack1", "bk-b.rack1"


def test_swapped_disks_are_found_by_content_without_cookie_evidence(
    tmp_path: Path, spark: SparkSession
) -> None:
    """One disk has the VERSION of the disk beside it, so that the bookie starts; the other disk has none."""
    corpus = unpack("dbledger-long", tmp_path / "corpus")
    (corpus.bookies / A / "ledgers1/current/VERSION").unlink()
    disks = corpus.bookies / B
    shutil.copy2(disks / "ledgers0/current/VERSION", disks / "ledgers1/current/VERSION")
    audited = audit(spark, f"dump://{corpus.dump}", corpus.bookies, tmp_path / "run")
    findings = {row["bookie_id"]: row for row in audited.findings_of("disk-content-mismatch")}
    assert {name: row["confidence"] for name, row in findings.items()} == {A: "suspect", B: "suspect"}
    assert not audited.findings_of("disk-id-mismatch")
    swaps = {
        (row["owner"], Path(row["directory"]).name, row["candidate"])
        for row in audited.table("contents")
        if row["rank"] == 1 and row["candidate"] != row["owner"]
    }
    assert swaps == {(A, "ledgers1", B), (B, "ledgers1", A)}


def test_every_directory_of_a_corpus_has_the_ledgers_of_its_owner(audited: FinishedRun) -> None:
    best = [row for row in audited.table("contents") if row["rank"] == 1]
    assert best
    assert all(row["candidate"] == row["owner"] for row in best)


def test_etcd_corpus_has_no_misplaced_disk(runs: Runs) -> None:
    audited = runs.get("etcd-snapshot")
    assert {row["candidate"] == row["owner"] for row in audited.table("contents") if row["rank"] == 1} == {
        True
    }
    assert not audited.findings_of("disk-content-mismatch")
    assert not audited.findings_of("alias-gc-danger")
