"""A cluster on etcd: what its Java code, a brute force over single entries and the list of its faults say.

It is read from a running etcd, from the snapshot that etcdctl saved, and from a dump, with equal findings.
etcd keeps neither times nor marks, so nothing may rest on them. The server's own checks do not run there: the
brute force stands for them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor.model.run_facts import sentence_of
from auditor.notebook.run import open_run
from auditor.reports.ledger import render
from tests.corpora.audited import Audited, audit, entries, missing
from tests.corpora.brute_force import foreign, hold_classes, judge, orphans, surplus
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
    live: Audited
    saved: Audited
    dump: Audited


@pytest.fixture(scope="module")
def corpus(corpora: Corpora) -> Corpus:
    return corpora.of("etcd")


@pytest.fixture(scope="module")
def audited(runs: Runs) -> Audited:
    return runs.of("etcd")


@pytest.fixture(scope="module")
def three_ways(
    corpus: Corpus,
    audited: Audited,
    runs: Runs,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> ThreeWays:
    out = tmp_path_factory.mktemp("runs") / "live"
    with running(tmp_path_factory.mktemp("server"), saved=True) as server:
        uri = f"etcd://{server.host}{SCOPE}"
        # It names bookies as registered that do not run: as of saved data, nobody is asked.
        live = audit(spark, uri, corpus.bookies, out, index_time=AFTER_ANY_READING, witness="no")
    return ThreeWays(live, runs.of("etcd-snapshot"), audited)


def test_the_brute_force_reads_what_java_read(corpus: Corpus) -> None:
    world = corpus.world()
    # Java's own listing ends before the longest id.
    assert sorted(world.ledgers) == [*corpus.oracle["ledgersListed"], LONGEST]
    served = {
        (int(ledger), bookie): read_availability(bytes.fromhex(answer["bytes"]))
        for ledger, said in corpus.oracle["ledgers"].items()
        for bookie, answer in said.get("availability", {}).items()
        if "bytes" in answer
    }
    assert {pair: index.entries for pair, index in world.indexes.items()} == served


def test_every_fault_has_one_row_that_finds_it_or_says_why_not(corpus: Corpus) -> None:
    rows = FAULTS["etcd"]
    made = [(fault["kind"], subject_of(fault)) for fault in corpus.oracle["faults"]]
    assert [(row.kind, row.subject) for row in rows] == made
    assert all(row.finds or row.why for row in rows)


def test_the_findings_are_what_the_rows_say_and_no_more(audited: Audited) -> None:
    expected = {*OF_CLUSTER["etcd"], *(row for fault in FAULTS["etcd"] for row in fault.finds)}
    assert Counter(audited.seen()) == Counter(expected)


def test_every_ledger_has_the_class_that_brute_force_gives(corpus: Corpus, audited: Audited) -> None:
    world = corpus.world()
    rows = audited.verdicts()
    assert LONGEST in rows
    hold_classes(world, rows)


def test_what_is_lost_is_missing_entry_by_entry(corpus: Corpus, audited: Audited) -> None:
    world = corpus.world()
    found = {row["ledger_id"]: missing(row) for row in audited.of("entry-lost")}
    assert found == {ledger: judge(world, ledger).missing for ledger in (1001, 1002, 1003)}


def test_availability_is_what_the_bookies_hold(corpus: Corpus, audited: Audited) -> None:
    rows = {(row["ledger_id"], row["bookie_id"]): row for row in audited.table("availability")}
    indexes = corpus.world().indexes
    assert {pair: entries(row["groups"]) for pair, row in rows.items()} == {
        pair: index.entries for pair, index in indexes.items()
    }
    assert {row["state"] for row in rows.values()} == {"ok"}


def test_orphans_are_what_the_collector_of_each_bookie_would_delete(corpus: Corpus, audited: Audited) -> None:
    ours: dict[str, list[int]] = {bookie: [] for bookie in corpus.oracle["garbageCollector"]}
    for row in audited.of("orphan-ledger"):
        ours[row["bookie_id"]].append(row["ledger_id"])
    assert ours == corpus.oracle["garbageCollector"]
    world = corpus.world()
    assert {(ledger, bookie) for bookie, ledgers in ours.items() for ledger in ledgers} == orphans(world)
    assert (foreign(world), surplus(world)) == (set(), {})


def test_a_collector_deletes_what_its_listing_lacks_and_spares_the_longest_id(
    corpus: Corpus, audited: Audited
) -> None:
    """The driver's listing ends before the id 2^63 - 1; these bookies' storage does not count it either."""
    ours: dict[str, list[int]] = {bookie: [] for bookie in corpus.oracle["garbageCollector"]}
    for row in audited.table("gc_foresight"):
        assert (row["action"], row["cause"], row["verdict"]) == ("delete", "not-listed", "right")
        ours[row["bookie_id"]].append(row["ledger_id"])
    assert {bookie: sorted(ledgers) for bookie, ledgers in ours.items()} == corpus.oracle["garbageCollector"]
    [note] = [note for note in map(sentence_of, audited.report.run.remarks) if "forecast" in note]
    assert note.endswith(
        "on etcd, a bookie deletes nothing once it has run longer than gcOverreplicatedLedgerWaitTime"
    )


def test_what_etcd_does_not_keep_is_null_or_nothing(audited: Audited) -> None:
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


def test_versions_are_revisions(corpus: Corpus, audited: Audited) -> None:
    there = {ledger: each for ledger, each in corpus.oracle["ledgers"].items() if "version" in each}
    rows = {row["ledger_id"]: row["version"] for row in audited.table("ledgers")}
    assert rows.keys() == {int(ledger) for ledger in there}
    assert rows == {int(ledger): int(each["version"]) for ledger, each in there.items()}


def test_the_findings_are_the_same_in_all_three_ways(three_ways: ThreeWays) -> None:
    live, saved, dump = (run.findings() for run in three_ways)
    assert saved == dump
    assert live == dump


def test_both_scans_of_the_live_server_saw_the_same(three_ways: ThreeWays) -> None:
    first = {(row["ledger_id"], row["version"]) for row in three_ways.live.table("ledgers")}
    assert first == {(row["ledger_id"], row["version"]) for row in three_ways.live.table("ledgers_again")}
    assert first == {(row["ledger_id"], row["version"]) for row in three_ways.dump.table("ledgers")}


def test_every_ledger_can_be_drawn(audited: Audited) -> None:
    run = open_run(audited.out)
    for row in audited.table("ledgers"):
        view = run.ledger(row["ledger_id"])
        first = " ".join(render(view).split("\n  at  ")[0].split())
        assert first.startswith(f"ledger {row['ledger_id']}: ")
        assert view.judged_class == "healthy" or str(view.judged_class) in first


def test_no_secret_of_the_cluster_is_in_what_the_audit_wrote(audited: Audited) -> None:
    """The corpus's ledgers have the password ``golden``."""
    for path in Path(audited.out).rglob("*.json"):
        assert "golden" not in path.read_text(), path
    for name in ("ledgers", "cluster", "cookies"):
        assert "golden" not in repr(audited.table(name)), name
