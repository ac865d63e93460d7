"""No two instructions of a run contradict each other, and no hold forbids one that is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor import Audit
from tests.corpora.shared import SOURCES
from tests.hazards.cases import CASES, Hazards, opened
from tests.hazards.generated import blind, generated_store
from tests.hazards.instructions import forbidden_by, instructions_of, problems_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.corpora.shared import Runs

GROUPS = 50
"""Clusters in one store: one audit judges all of them."""


@pytest.mark.parametrize("name", CASES)
def test_a_hazard_gives_no_instruction_that_destroys(name: str, hazards: Hazards) -> None:
    for number in (1, 2):
        assert problems_of(hazards.run(name, number)) == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_corpus_gives_no_instruction_that_destroys(name: str, runs: Runs) -> None:
    assert problems_of(opened(runs.of(name).out)) == []


@pytest.mark.parametrize("seed", range(2))
def test_generated_clusters_give_none(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    cluster, groups = generated_store(seed, GROUPS)
    cluster.write(tmp_path)
    for number in ("1", "2"):
        out = str(tmp_path / "runs" / number)
        Audit(f"dump://{tmp_path}/metadata.jsonl", [str(tmp_path / "bookies")], out).run(spark)
    run = opened(tmp_path / "runs" / "2")
    assert instructions_of(run)
    problems = problems_of(run)
    faults = {f"g{group.number}b": group.faults for group in groups}
    assert problems == [], faults


@pytest.mark.parametrize("seed", [7])
def test_a_run_that_can_read_less_permits_nothing_more(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing was mended between the two runs: each hold of the first one stands in the second."""
    cluster, groups = generated_store(seed, GROUPS)
    cluster.write(tmp_path)
    blind_spots = {group.number: blind(cluster, group) for group in groups}
    (tmp_path / "later").mkdir()
    cluster.write(tmp_path / "later")
    for number, place in (("1", tmp_path), ("2", tmp_path / "later")):
        out = str(tmp_path / "runs" / number)
        Audit(f"dump://{place}/metadata.jsonl", [str(place / "bookies")], out).run(spark)
    forbidden, later = (forbidden_by(opened(tmp_path / "runs" / number)) for number in ("1", "2"))
    assert forbidden
    faults = {f"g{group.number}b": (group.faults, blind_spots[group.number]) for group in groups}
    assert forbidden - later == set(), faults
