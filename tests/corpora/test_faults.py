"""The audit finds every fault of the corpora as expected, and nothing else."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq

from auditor.checks import ALL_CHECKS
from tests.corpora.audited import FinishedRun, assert_extra, extra_of, missing
from tests.corpora.brute_force import judge, ledger_coverage, past_end, stale, surplus
from tests.corpora.corpora import Corpus
from tests.corpora.faults import FAULTS, OF_CLUSTER, subject_of

REPLICATION = ("entry-lost", "below-ack-quorum", "below-write-quorum")


def test_every_fault_has_an_expectation_row_with_findings_or_a_reason(corpus: Corpus) -> None:
    rows = FAULTS[corpus.name]
    faults = [(fault["kind"], subject_of(fault)) for fault in corpus.oracle["faults"]]
    assert [(row.kind, row.subject) for row in rows] == faults
    assert all(row.finds or row.why for row in rows)


def test_expectation_rows_match_the_brute_force(corpus: Corpus) -> None:
    world = corpus.world()
    expected = {(row.id, row.ledger) for fault in FAULTS[corpus.name] for row in fault.finds}
    verdicts = {ledger: judge(world, ledger) for ledger in world.ledgers}
    assert {pair for pair in expected if pair[0] in REPLICATION} == {
        (verdict.name, ledger) for ledger, verdict in verdicts.items() if verdict.unhealthy
    }
    assert {ledger for id, ledger in expected if id == "copy-lagging"} == {
        ledger for ledger, verdict in verdicts.items() if verdict.lagging
    }


def test_findings_equal_the_expected_findings(corpus: Corpus, audited: FinishedRun) -> None:
    expected = {row for fault in FAULTS[corpus.name] for row in fault.finds}
    expected |= {*OF_CLUSTER[corpus.name]}
    assert Counter(audited.finding_keys()) == Counter(expected)


def test_missing_entries_equal_the_entries_left_out(corpus: Corpus, audited: FinishedRun) -> None:
    by_ledger = {row["ledger_id"]: missing(row) for row in audited.findings() if row["id"] in REPLICATION}
    for fault in corpus.oracle["faults"]:
        if left_out := fault.get("leftOut", fault.get("alsoMissing")):
            assert by_ledger[fault["ledger"]] == {b: frozenset(e) for b, e in left_out.items()}, fault
    world = corpus.world()
    for ledger, entries in by_ledger.items():
        assert entries == judge(world, ledger).missing


def test_surplus_entries_match_the_brute_force(corpus: Corpus, audited: FinishedRun) -> None:
    world = corpus.world()
    assert_extra(audited, "surplus-entries", "surplus", surplus(world))
    assert_extra(audited, "stale-segment", "stale", stale(world))
    past = past_end(world)
    assert extra_of(audited, "past_end") == past
    assert {row["ledger_id"] for row in audited.findings_of("entries-past-end")} == {
        ledger for ledger, _ in past
    }


def test_report_counts_match_the_findings_table(corpus: Corpus, audited: FinishedRun) -> None:
    report = json.loads((audited.out / "report.json").read_text())
    rows = audited.findings()
    assert report["schema"] == "bookkeeper-auditor/report/8"
    assert {id: n for id, n in report["counts"].items() if n} == Counter(row["id"] for row in rows)
    assert report["verdict"] == "not-healthy"
    assert report["cluster"]["instance_id"] == corpus.oracle["registration"]["instanceId"]
    assert len({row["fingerprint"] for row in rows}) == len(rows)


def test_coverage_counts_match_the_brute_force(corpus: Corpus, audited: FinishedRun) -> None:
    coverage = json.loads((audited.out / "report.json").read_text())["coverage"]
    world = corpus.world()
    unread = {
        "interleaved-hier": ["127.0.101.99:3181"],
        "flat-v1": ["bookie9.dc1.example:3181"],
        "dbledger-long": ["127.0.103.1:3181", "bk-z.rack9"],
    }[corpus.name]
    verdicts = [judge(world, ledger) for ledger in world.ledgers]
    assert coverage["bookies"] == {"expected": 4 + len(unread), "read": 4, "unread": unread}
    assert coverage["ledgers"] == ledger_coverage(world)
    replicas = coverage["replicas"]
    unknown = sum(len(verdict.unknown) for verdict in verdicts)
    assert replicas["expected"] - replicas["decided"] == unknown


def test_audit_output_has_no_secret_of_the_cluster(audited: FinishedRun) -> None:
    """The corpora's ledgers have the password ``golden``."""
    for path in audited.out.rglob("*"):
        if path.suffix == ".json":
            assert "golden" not in path.read_text(), path
        elif path.suffix == ".parquet":
            assert "golden" not in repr(pq.read_table(path).to_pylist()), path


def test_findings_are_sorted_in_report_order(audited: FinishedRun) -> None:
    urgency = ["destroys-data", "lost", "near-loss", "below-ack-quorum", "unseen", "rest"]
    severity = ["critical", "error", "warning", "note"]
    checks = [check.id for check in ALL_CHECKS]
    keys = [
        (
            urgency.index(row["urgency"]),
            severity.index(row["severity"]),
            checks.index(row["id"]),
            -1 if row["ledger_id"] is None else row["ledger_id"],
            row["bookie_id"] or "",
        )
        for row in audited.findings()
    ]
    assert keys == sorted(keys)
