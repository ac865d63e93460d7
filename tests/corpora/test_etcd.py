"""A cluster on etcd: the audit agrees with its Java code, a brute force over entries, and the fault list.

The audit reads a running etcd, the snapshot that etcdctl saved, and a dump, with equal findings. etcd keeps
neither times nor marks, so no result may depend on them. The server's own checks do not run there: the brute
force replaces them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor.model.run_facts import sentence_of
from auditor.notebook.run import open_run
from auditor.reports.ledger import render
from tests.corpora.audited import FinishedRun, audit, entries, missing
from tests.corpora.brute_force import assert_classes, foreign, judge, orphans, surplus
from tests.corpora.corpora import Corpus
from tests.corpora.faults import FAULTS, OF_CLUSTER, subject_of
from tests.corpora.plain_readers import read_availability
from tests.corpora.shared import Corpora, Runs
from tests.servers.etcd import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCOPE = "/bk/cluster1"
LONGEST = 2**63 - 1
# Every ledger of a live etcd may have changed up to the moment at which it is read.
AFTER_ANY_READING = "2200-01-01T00:00:00Z"


class ThreeWays(NamedTuple):
    live: FinishedRun
    saved: FinishedRun
    dump: FinishedRun


@pytest.fixture(scope="module")
def corpus(corpora: Corpora) -> Corpus:
    return corpora.get("etcd")


@pytest.fixture(scope="module")
def audited(runs: Runs) -> FinishedRun:
    return runs.get("etcd")


@pytest.fixture(scope="module")
def three_ways(
    corpus: Corpus,
    audited: FinishedRun,
    runs: Runs,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> ThreeWays:
    out = tmp_path_factory.mktemp("runs") / "live"
    with running(tmp_path_factory.mktemp("server"), saved=True) as server:
        uri = f"etcd://{server.host}{SCOPE}"
        # It names bookies as registered that do not run: as of saved data, nobody is asked.
        live = audit(spark, uri, corpus.bookies, out, index_time=AFTER_ANY_READING, witness="no")
    return ThreeWays(live, runs.get("etcd-snapshot"), audited)


def test_brute_force_reads_the_same_as_java(corpus: Corpus) -> None:
    world = corpus.world()
    # Java's own listing ends before the longest id.
    assert sorted(world.ledgers) == [*corpus.oracle["ledgersListed"], LONGEST]
    served = {
        (int(ledger), bookie): read_availability(bytes.fromhex(answer["bytes"]))
        for ledger, oracle_ledger in corpus.oracle["ledgers"].items()
        for bookie, answer in oracle_ledger.get("availability", {}).items()
        if "bytes" in answer
    }
    assert {pair: index.entries for pair, index in world.indexes.items()} == served


def test_every_fault_has_an_expectation_row_with_findings_or_a_reason(corpus: Corpus) -> None:
    rows = FAULTS["etcd"]
    faults = [(fault["kind"], subject_of(fault)) for fault in corpus.oracle["faults"]]
    assert [(row.kind, row.subject) for row in rows] == faults
    assert all(row.finds or row.why for row in rows)


def test_findings_equal_the_expected_findings(audited: FinishedRun) -> None:
    expected = {*OF_CLUSTER["etcd"], *(row for fault in FAULTS["etcd"] for row in fault.finds)}
    assert Counter(audited.finding_keys()) == Counter(expected)


def test_every_ledger_has_the_class_of_the_brute_force(corpus: Corpus, audited: FinishedRun) -> None:
    world = corpus.world()
    rows = audited.verdicts()
    assert LONGEST in rows
    assert_classes(world, rows)


def test_missing_entries_of_lost_ledgers_match_the_brute_force(corpus: Corpus, audited: FinishedRun) -> None:
    world = corpus.world()
    missing_by_ledger = {row["ledger_id"]: missing(row) for row in audited.findings_of("entry-lost")}
    assert missing_by_ledger == {ledger: judge(world, ledger).missing for ledger in (1001, 1002, 1003)}


def test_availability_matches_the_bookie_indexes(corpus: Corpus, audited: FinishedRun) -> None:
    rows = {(row["ledger_id"], row["bookie_id"]): row for row in audited.table("availability")}
    indexes = corpus.world().indexes
    assert {pair: entries(row["groups"]) for pair, row in rows.items()} == {
        pair: index.entries for pair, index in indexes.items()
    }
    assert {row["state"] for row in rows.values()} == {"ok"}


def test_orphans_equal_the_deletions_of_each_collector(corpus: Corpus, audited: FinishedRun) -> None:
    actual: dict[str, list[int]] = {bookie: [] for bookie in corpus.oracle["garbageCollector"]}
    for row in audited.findings_of("orphan-ledger"):
        actual[row["bookie_id"]].append(row["ledger_id"])
    assert actual == corpus.oracle["garbageCollector"]
    world = corpus.world()
    assert {(ledger, bookie) for bookie, ledgers in actual.items() for ledger in ledgers} == orphans(world)
    assert (foreign(world), surplus(world)) == (set(), {})


def test_collector_forecast_matches_the_collectors_of_the_server(
    corpus: Corpus, audited: FinishedRun
) -> None:
    """The driver's listing ends before the id 2^63 - 1; these bookies' storage omits that id too."""
    actual: dict[str, list[int]] = {bookie: [] for bookie in corpus.oracle["garbageCollector"]}
    for row in audited.table("gc_foresight"):
        assert (row["action"], row["cause"], row["verdict"]) == ("delete", "not-listed", "right")
        actual[row["bookie_id"]].append(row["ledger_id"])
    assert {bookie: sorted(ledgers) for bookie, ledgers in actual.items()} == corpus.oracle[
        "garbageCollector"
    ]
    [note] = [note for note in map(sentence_of, audited.report.run.remarks) if "forecast" in note]
    assert note.endswith(
        "on etcd, a bookie deletes nothing once it has run longer than gcOverreplicatedLedgerWaitTime"
    )


def test_times_and_marks_that_etcd_lacks_are_null_or_empty(audited: FinishedRun) -> None:
    assert {(row["ctime"], row["mtime"]) for row in audited.table("ledgers")} == {(None, None)}
    assert {(row["scope_id"], row["status"]) for row in audited.table("ledgers")} == {(0, "ok")}
    assert {row["mtime"] for row in audited.table("cluster")} == {None}
    assert {row["ctime"] for row in audited.table("registrations")} == {None}
    assert audited.table("marks") == []
    assert all(row["doubts"] == [] for row in audited.table("judged"))
    run = audited.report.run
    assert any("no under-replication marks" in note for note in map(sentence_of, run.remarks))
    assert (run.keeps_marks, run.keeps_times, run.witness_asked) == (False, False, False)
    assert {"mark-stuck", "recovery-stuck", "index-incomplete"} <= {*(run.blind or ())}


def test_ledger_versions_are_etcd_revisions(corpus: Corpus, audited: FinishedRun) -> None:
    versioned = {ledger: answer for ledger, answer in corpus.oracle["ledgers"].items() if "version" in answer}
    rows = {row["ledger_id"]: row["version"] for row in audited.table("ledgers")}
    assert rows.keys() == {int(ledger) for ledger in versioned}
    assert rows == {int(ledger): int(answer["version"]) for ledger, answer in versioned.items()}


def test_findings_from_live_etcd_snapshot_and_dump_are_equal(three_ways: ThreeWays) -> None:
    live, saved, dump = (run.findings() for run in three_ways)
    assert saved == dump
    assert live == dump


def test_both_scans_of_the_live_server_read_the_same_versions(three_ways: ThreeWays) -> None:
    first = {(row["ledger_id"], row["version"]) for row in three_ways.live.table("ledgers")}
    assert first == {(row["ledger_id"], row["version"]) for row in three_ways.live.table("ledgers_again")}
    assert first == {(row["ledger_id"], row["version"]) for row in three_ways.dump.table("ledgers")}


def test_every_ledger_is_rendered_with_its_class(audited: FinishedRun) -> None:
    run = open_run(audited.out)
    for row in audited.table("ledgers"):
        view = run.ledger(row["ledger_id"])
        first = " ".join(render(view).split("\n  at  ")[0].split())
        assert first.startswith(f"ledger {row['ledger_id']}: ")
        assert view.judged_class == "healthy" or str(view.judged_class) in first


def test_audit_output_has_no_secret_of_the_cluster(audited: FinishedRun) -> None:
    """The corpus's ledgers have the password ``golden``."""
    for path in Path(audited.out).rglob("*.json"):
        assert "golden" not in path.read_text(), path
    for name in ("ledgers", "cluster", "cookies"):
        assert "golden" not in repr(audited.table(name)), name
