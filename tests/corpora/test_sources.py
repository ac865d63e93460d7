"""What each source of an audit covers: the table sources, and data of another time or cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.finding import Severity
from auditor.model.holds import bookie_source
from auditor.model.report import EXIT_CLEAN, EXIT_NOT_COVERED, exit_code
from auditor.model.source_scope import oldest_as_of
from auditor.runs.reader import RunReader, read_sources
from tests.corpora.audited import Audited, audit
from tests.corpora.cluster import DAY, HOUR, INSTANCE, NOW, Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = BOOKIES = tuple(f"bk{letter}.example:3181" for letter in "abc")
ANOTHER = "99999999-2222-3333-4444-555555555555"


def cluster_of(instance: str = INSTANCE) -> Cluster:
    cluster = Cluster(instance=instance)
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    return cluster


def audited(spark: SparkSession, root: Path, metadata: Cluster, disks: Cluster, age: int = 0) -> Audited:
    """Audit the metadata of one cluster with the directories of another, last written ``age`` ms ago."""
    root.mkdir(exist_ok=True)
    metadata.write_dump(root / "metadata.jsonl")
    disks.write_indexes(root / "bookies")
    for path in (root / "bookies").rglob("*"):
        if path.is_file():
            time = (NOW - age) / 1000
            os.utime(path, (time, time))
    return audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run")


def codes(run: Audited) -> tuple[str, int]:
    return run.report.verdict, exit_code(run.report, Severity.ERROR)


def test_directories_of_30_days_ago_put_the_source_in_doubt_and_no_bookie(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata, disks = cluster_of(), cluster_of()
    for ledger in range(120):  # deleted and collected since the copy was made
        for bookie in BOOKIES:
            disks.hold(ledger, bookie, range(10))
    for ledger in range(120, 125):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9, time=NOW - DAY)
    run = audited(spark, tmp_path, metadata, disks, age=30 * DAY)
    found = {(row["id"], row["bookie_id"], row["confidence"]) for row in run.findings()}
    assert {name for id, name, _ in found if id == "source-suspect"} == {*BOOKIES}
    assert not {id for id, *_ in found} & {"metadata-suspect", "entry-lost", "below-ack-quorum"}
    assert {confidence for id, _, confidence in found if id == "orphan-ledger"} == {"suspect"}
    assert codes(run) == ("not-healthy", EXIT_NOT_COVERED)
    sources = {scope.source: scope for scope in read_sources(RunReader(run.out))}
    assert {sources[name].as_of for name in BOOKIES} == {NOW - 30 * DAY}
    assert not any(sources[name].is_proved for name in BOOKIES)
    assert oldest_as_of(sources.values()) == NOW - 30 * DAY
    on_sources = {row["key"] for row in run.table("holds") if row["object"] == "source"}
    assert {bookie_source(name) for name in BOOKIES} <= on_sources
    assert RunReader(run.out).holds.data_time == NOW - 30 * DAY
    assert json.loads((run.out / "manifest.json").read_text())["data_as_of"] == NOW - 30 * DAY


def test_an_idle_bookie_is_as_new_as_the_metadata(spark: SparkSession, tmp_path: Path) -> None:
    metadata = cluster_of()
    for ledger in range(3):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9, time=NOW - 40 * DAY)
    run = audited(spark, tmp_path, metadata, metadata, age=30 * DAY)
    assert codes(run) == ("healthy", EXIT_CLEAN)
    sources = {scope.source: scope for scope in read_sources(RunReader(run.out))}
    assert {scope.as_of for scope in sources.values()} == {NOW}
    assert all(sources[name].is_proved for name in (*BOOKIES, "cookies", "registrations", "ensembles"))


def test_an_index_with_later_ledgers_is_not_old_whatever_its_times_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata = cluster_of()
    metadata.ledger(1, {0: BOOKIES}, (3, 2), 9, time=NOW - DAY)
    metadata.ledger(2, {0: BOOKIES}, (3, 2), 9, time=NOW - DAY, without={A: range(10)})
    run = audited(spark, tmp_path, metadata, metadata, age=30 * DAY)
    assert run.of("source-suspect") == []
    assert [row["ledger_id"] for row in run.of("below-write-quorum")] == [2]


def test_directories_an_hour_older_are_not_old(spark: SparkSession, tmp_path: Path) -> None:
    metadata, disks = cluster_of(), cluster_of()
    metadata.ledger(1, {0: BOOKIES}, (3, 2), 9, time=NOW - HOUR // 2)
    run = audited(spark, tmp_path, metadata, disks, age=HOUR)
    assert run.of("source-suspect") == []


def test_directories_of_another_cluster_put_the_source_in_doubt_and_no_bookie(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata, disks = cluster_of(), cluster_of(ANOTHER)
    for ledger in range(3):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
    for ledger in range(120):
        for bookie in BOOKIES:
            disks.hold(ledger, bookie, range(10))
    run = audited(spark, tmp_path, metadata, disks)
    ids = {row["id"] for row in run.findings() if row["confidence"] == "confirmed"}
    assert not ids & {"metadata-suspect", "instance-mismatch", "start-refused", "entry-lost"}
    assert [row["bookie_id"] for row in run.of("source-suspect")] == [*BOOKIES]
    assert codes(run) == ("not-healthy", EXIT_NOT_COVERED)
    [metadata_row] = [scope for scope in read_sources(RunReader(run.out)) if scope.kind == "metadata"]
    assert f"bookies have another instance id: {ANOTHER}" in str(metadata_row.reason)


@pytest.mark.parametrize(("orphans", "verdict"), [(90, "not-healthy"), (3, "healthy")])
def test_90_of_91_ledgers_without_metadata_are_not_healthy_and_3_deleted_ones_are(
    spark: SparkSession, tmp_path: Path, orphans: int, verdict: str
) -> None:
    metadata = cluster_of()
    metadata.ledger(200, {0: BOOKIES}, (3, 2), 9)
    for ledger in range(orphans):
        for bookie in BOOKIES:
            metadata.hold(ledger, bookie, range(10))
    run = audited(spark, tmp_path, metadata, metadata)
    assert codes(run) == (verdict, EXIT_NOT_COVERED if orphans == 90 else EXIT_CLEAN)
    assert {row["confidence"] for row in run.of("metadata-suspect")} <= {"suspect"}


def test_a_store_without_ledgers_is_not_healthy_if_a_bookie_holds_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata = cluster_of()
    metadata.hold(7, A, range(10))
    run = audited(spark, tmp_path, metadata, metadata)
    [found] = run.of("metadata-suspect")
    assert (found["bookie_id"], json.loads(found["evidence"])["rules"]) == (A, ["store-empty"])
    assert codes(run) == ("not-healthy", EXIT_NOT_COVERED)


def test_the_id_generator_is_behind_ids_in_use(spark: SparkSession, tmp_path: Path) -> None:
    metadata = cluster_of()
    for ledger in range(10, 13):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
    metadata.node("/ledgers/idgen")
    metadata.znodes["/ledgers/idgen"]["cversion"] = 2 * 11  # gave out ids 0 to 10
    run = audited(spark, tmp_path, metadata, metadata)
    [found] = run.of("id-generator-behind")
    assert (found["severity"], found["confidence"]) == ("error", "suspect")
    assert "the next ledger gets id 11" in found["message"]
    [metadata_row] = [scope for scope in read_sources(RunReader(run.out)) if scope.kind == "metadata"]
    assert metadata_row.reason == "the id generator is behind an id in use"


def test_a_part_of_the_tree_that_shrank_since_the_last_run_is_not_proved(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole, rest = cluster_of(), cluster_of()
    for ledger in range(20):
        whole.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
        if ledger >= 5:
            rest.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
    reasons = []
    for number, metadata in enumerate((whole, whole, rest), 1):
        metadata.write_dump(tmp_path / "metadata.jsonl")
        metadata.write_indexes(tmp_path / f"bookies{number}")
        out = tmp_path / "runs" / str(number)
        audit(spark, f"dump://{tmp_path}/metadata.jsonl", tmp_path / f"bookies{number}", out)
        [row] = [scope for scope in read_sources(RunReader(out)) if scope.kind == "metadata"]
        reasons.append(str(row.reason))
    assert ["lost more than 20 %" in reason for reason in reasons] == [False, False, True]
    assert "1 part of the ledger tree lost more than 20 % of their ledgers since the run of" in reasons[2]
