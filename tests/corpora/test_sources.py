"""The coverage of each source of an audit: the table sources, and data of another time or cluster."""

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
from tests.corpora.audited import FinishedRun, audit
from tests.corpora.cluster import DAY, HOUR, INSTANCE, NOW_MS, Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = BOOKIES = tuple(f"bk{letter}.example:3181" for letter in "abc")
ANOTHER = "99999999-2222-3333-4444-555555555555"


def cluster_of(instance: str = INSTANCE) -> Cluster:
    cluster = Cluster(instance=instance)
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    return cluster


def audited(spark: SparkSession, root: Path, metadata: Cluster, disks: Cluster, age: int = 0) -> FinishedRun:
    """Audit the metadata of one cluster with the directories of another, last written ``age`` ms ago."""
    root.mkdir(exist_ok=True)
    metadata.write_dump(root / "metadata.jsonl")
    disks.write_indexes(root / "bookies")
    for path in (root / "bookies").rglob("*"):
        if path.is_file():
            time = (NOW_MS - age) / 1000
            os.utime(path, (time, time))
    return audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run")


def codes(run: FinishedRun) -> tuple[str, int]:
    return run.report.verdict, exit_code(run.report, Severity.ERROR)


def test_directories_30_days_old_give_source_suspect_and_no_metadata_suspect(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata, disks = cluster_of(), cluster_of()
    for ledger in range(120):  # deleted and collected since the copy was made
        for bookie in BOOKIES:
            disks.hold(ledger, bookie, range(10))
    for ledger in range(120, 125):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9, time=NOW_MS - DAY)
    run = audited(spark, tmp_path, metadata, disks, age=30 * DAY)
    findings = {(row["id"], row["bookie_id"], row["confidence"]) for row in run.findings()}
    assert {name for id, name, _ in findings if id == "source-suspect"} == {*BOOKIES}
    assert not {id for id, *_ in findings} & {"metadata-suspect", "entry-lost", "below-ack-quorum"}
    assert {confidence for id, _, confidence in findings if id == "orphan-ledger"} == {"suspect"}
    assert codes(run) == ("not-healthy", EXIT_NOT_COVERED)
    sources = {scope.source: scope for scope in read_sources(RunReader(run.out))}
    assert {sources[name].as_of for name in BOOKIES} == {NOW_MS - 30 * DAY}
    assert not any(sources[name].is_proved for name in BOOKIES)
    assert oldest_as_of(sources.values()) == NOW_MS - 30 * DAY
    on_sources = {row["key"] for row in run.table("holds") if row["object"] == "source"}
    assert {bookie_source(name) for name in BOOKIES} <= on_sources
    assert RunReader(run.out).holds.data_time == NOW_MS - 30 * DAY
    assert json.loads((run.out / "manifest.json").read_text())["data_as_of"] == NOW_MS - 30 * DAY


def test_idle_bookie_directories_are_dated_like_the_metadata(spark: SparkSession, tmp_path: Path) -> None:
    metadata = cluster_of()
    for ledger in range(3):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9, time=NOW_MS - 40 * DAY)
    run = audited(spark, tmp_path, metadata, metadata, age=30 * DAY)
    assert codes(run) == ("healthy", EXIT_CLEAN)
    sources = {scope.source: scope for scope in read_sources(RunReader(run.out))}
    assert {scope.as_of for scope in sources.values()} == {NOW_MS}
    assert all(sources[name].is_proved for name in (*BOOKIES, "cookies", "registrations", "ensembles"))


def test_index_with_recent_ledgers_is_not_suspect_despite_old_file_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata = cluster_of()
    metadata.ledger(1, {0: BOOKIES}, (3, 2), 9, time=NOW_MS - DAY)
    metadata.ledger(2, {0: BOOKIES}, (3, 2), 9, time=NOW_MS - DAY, without={A: range(10)})
    run = audited(spark, tmp_path, metadata, metadata, age=30 * DAY)
    assert run.findings_of("source-suspect") == []
    assert [row["ledger_id"] for row in run.findings_of("below-write-quorum")] == [2]


def test_directories_1_hour_older_than_metadata_are_not_suspect(spark: SparkSession, tmp_path: Path) -> None:
    metadata, disks = cluster_of(), cluster_of()
    metadata.ledger(1, {0: BOOKIES}, (3, 2), 9, time=NOW_MS - HOUR // 2)
    run = audited(spark, tmp_path, metadata, disks, age=HOUR)
    assert run.findings_of("source-suspect") == []


def test_directories_of_another_cluster_give_source_suspect_and_no_confirmed_loss(
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
    assert [row["bookie_id"] for row in run.findings_of("source-suspect")] == [*BOOKIES]
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
    assert {row["confidence"] for row in run.findings_of("metadata-suspect")} <= {"suspect"}


def test_a_store_without_ledgers_is_not_healthy_if_a_bookie_holds_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    metadata = cluster_of()
    metadata.hold(7, A, range(10))
    run = audited(spark, tmp_path, metadata, metadata)
    [finding] = run.findings_of("metadata-suspect")
    assert (finding["bookie_id"], json.loads(finding["evidence"])["rules"]) == (A, ["store-empty"])
    assert codes(run) == ("not-healthy", EXIT_NOT_COVERED)


def test_id_generator_behind_ids_in_use_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    metadata = cluster_of()
    for ledger in range(10, 13):
        metadata.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
    metadata.node("/ledgers/idgen")
    metadata.znodes["/ledgers/idgen"]["cversion"] = 2 * 11  # gave out ids 0 to 10
    run = audited(spark, tmp_path, metadata, metadata)
    [finding] = run.findings_of("id-generator-behind")
    assert (finding["severity"], finding["confidence"]) == ("error", "suspect")
    assert "the next ledger gets id 11" in finding["message"]
    [metadata_row] = [scope for scope in read_sources(RunReader(run.out)) if scope.kind == "metadata"]
    assert metadata_row.reason == "the id generator is behind an id in use"


def test_metadata_source_reports_a_tree_part_that_shrank_since_the_last_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole, shrunk_cluster = cluster_of(), cluster_of()
    for ledger in range(20):
        whole.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
        if ledger >= 5:
            shrunk_cluster.ledger(ledger, {0: BOOKIES}, (3, 2), 9)
    reasons = []
    for number, metadata in enumerate((whole, whole, shrunk_cluster), 1):
        metadata.write_dump(tmp_path / "metadata.jsonl")
        metadata.write_indexes(tmp_path / f"bookies{number}")
        out = tmp_path / "runs" / str(number)
        audit(spark, f"dump://{tmp_path}/metadata.jsonl", tmp_path / f"bookies{number}", out)
        [row] = [scope for scope in read_sources(RunReader(out)) if scope.kind == "metadata"]
        reasons.append(str(row.reason))
    assert ["lost more than 20 %" in reason for reason in reasons] == [False, False, True]
    assert "1 part of the ledger tree lost more than 20 % of their ledgers since the run of" in reasons[2]
