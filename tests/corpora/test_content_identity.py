"""Swapped disks are found by their ledgers, where cookies say nothing of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.corpora.audited import Audited, audit
from tests.corpora.corpora import unpack
from tests.corpora.shared import Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B = "bk-a.rack1", "bk-b.rack1"


def test_a_swapped_pair_is_found_whatever_its_cookies_say(tmp_path: Path, spark: SparkSession) -> None:
    """Of one the disk's VERSION is that of the disk beside, so that the bookie starts; the other has none."""
    corpus = unpack("dbledger-long", tmp_path / "corpus")
    (corpus.bookies / A / "ledgers1/current/VERSION").unlink()
    disks = corpus.bookies / B
    shutil.copy2(disks / "ledgers0/current/VERSION", disks / "ledgers1/current/VERSION")
    audited = audit(spark, f"dump://{corpus.dump}", corpus.bookies, tmp_path / "run")
    found = {row["bookie_id"]: row for row in audited.of("disk-content-mismatch")}
    assert {name: row["confidence"] for name, row in found.items()} == {A: "suspect", B: "suspect"}
    assert not audited.of("disk-id-mismatch")
    said = {
        (row["owner"], Path(row["directory"]).name, row["candidate"])
        for row in audited.table("contents")
        if row["rank"] == 1 and row["candidate"] != row["owner"]
    }
    assert said == {(A, "ledgers1", B), (B, "ledgers1", A)}


def test_every_directory_of_a_corpus_holds_its_owners_ledgers(audited: Audited) -> None:
    best = [row for row in audited.table("contents") if row["rank"] == 1]
    assert best
    assert all(row["candidate"] == row["owner"] for row in best)


def test_the_etcd_corpus_has_no_disk_out_of_place(runs: Runs) -> None:
    audited = runs.of("etcd-snapshot")
    assert {row["candidate"] == row["owner"] for row in audited.table("contents") if row["rank"] == 1} == {
        True
    }
    assert not audited.of("disk-content-mismatch")
    assert not audited.of("alias-gc-danger")
