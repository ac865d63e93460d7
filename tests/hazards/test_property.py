"""No two instructions of a run contradict each other, and no hold forbids one that is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor import Audit
from auditor.model.holds import ActionKind
from tests.corpora.shared import SOURCES
from tests.hazards.cases import CASES, Hazards, open_after_scan
from tests.hazards.generated import generated_store, hold_by_records, make_unreadable
from tests.hazards.instructions import forbidden_by, instructions_of, problems_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.corpora.shared import Runs

GROUPS = 60
"""Clusters in one store: one audit judges all of them. 1,000 of six other stores gave no such instruction."""
SEED = 3
"""Seed of the random clusters and their faults."""


@pytest.mark.parametrize("name", CASES)
def test_hazard_case_gives_no_forbidden_or_contradicting_instruction(name: str, hazards: Hazards) -> None:
    for number in (1, 2):
        assert problems_of(hazards.run(name, number)) == []


@pytest.mark.parametrize("name", SOURCES)
def test_corpus_gives_no_forbidden_or_contradicting_instruction(name: str, runs: Runs) -> None:
    assert problems_of(open_after_scan(runs.get(name).out)) == []


def test_generated_clusters_give_no_conflicting_instruction(spark: SparkSession, tmp_path: Path) -> None:
    cluster, groups = generated_store(SEED, GROUPS)
    held_by_records = hold_by_records(cluster, GROUPS)
    cluster.write(tmp_path)
    faults = {f"g{group.number}b": group.faults for group in groups}
    for number in ("1", "2"):
        audit(spark, tmp_path, tmp_path / "runs" / number)
    run = open_after_scan(tmp_path / "runs" / "2")
    assert instructions_of(run)
    forbidden = forbidden_by(run)
    for name in held_by_records.values():
        assert ("bookie", name, ActionKind.REBUILD_INDEX) in forbidden
    assert problems_of(run) == [], faults
    # Nothing was mended, and less can be read: what was forbidden stays forbidden.
    blind_spots = [make_unreadable(cluster, group) for group in groups]
    for ledger in held_by_records:
        cluster.record(ledger, b"JUNK")
    audit(spark, cluster.write(tmp_path / "later"), tmp_path / "runs" / "3")
    later = open_after_scan(tmp_path / "runs" / "3")
    assert forbidden - forbidden_by(later) == set(), (faults, blind_spots)
    assert problems_of(later) == [], (faults, blind_spots)


def audit(spark: SparkSession, store: Path, run: Path) -> None:
    Audit(f"dump://{store}/metadata.jsonl", [str(store / "bookies")], str(run)).run(spark)
