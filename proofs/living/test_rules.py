"""The rules for findings can return true and false, and return open if the cluster changed."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from proofs.living.faults import Fault
from proofs.living.matrix import Matrix
from proofs.living.rules import AuditContext, Finding, Outage, Verdict, verdict
from proofs.living.truth import Look
from tests.clusters.store import Snapshot
from tests.corpora.plain_readers import PlainLedger

A, B, C = "a:1", "b:1", "c:1"
LEDGER = 7
CLOSED = PlainLedger("CLOSED", 2, 2, 2, 3, ((0, (A, B)),))
WHOLE, NOTHING, NOT_SAID, HALF = "1111000", "-------", "???????", "1100000"


def look(a: str, b: str, c: str = NOTHING, *, version: int = 1, ledger: PlainLedger | None = CLOSED) -> Look:
    store = Snapshot(
        {LEDGER: (1, version)} if ledger else {},
        {LEDGER: ledger} if ledger else {},
        frozenset(),
        frozenset({A, B, C}),
    )
    return Look(0.0, 1.0, store, {LEDGER: {A: a, B: b, C: c}} if ledger else {})


def around(before: Look, after: Look, **facts: Any) -> AuditContext:
    return AuditContext(before, replace(after, began=10.0, ended=11.0), **facts)


def finding(id: str, bookie: str | None = None, ledger: int | None = LEDGER, **entries: range) -> Finding:
    missing = [
        {"bookie_id": f"{name}:1", "groups": struct.pack(">qqii", span.start, span.start, len(span), 0)}
        for name, span in entries.items()
    ]
    return {
        "id": id,
        "confidence": "confirmed",
        "severity": "error",
        "ledger_id": ledger,
        "bookie_id": bookie,
        "missing": missing,
        "unknown": [],
        "message": "",
    }


LOST_ON_B = finding("below-ack-quorum", b=range(2, 4))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (look(WHOLE, HALF), look(WHOLE, HALF), Verdict.TRUE),
        (look(WHOLE, NOTHING), look(WHOLE, NOT_SAID), Verdict.TRUE),
        (look(WHOLE, WHOLE), look(WHOLE, WHOLE), Verdict.FALSE),
        # The ledger did not change, so one answer is enough.
        (look(WHOLE, WHOLE), look(WHOLE, NOT_SAID), Verdict.FALSE),
        (look(WHOLE, NOT_SAID), look(WHOLE, WHOLE), Verdict.FALSE),
        (look(WHOLE, WHOLE), look(WHOLE, NOT_SAID, version=2), Verdict.OPEN),
        (look(WHOLE, NOT_SAID), look(WHOLE, NOT_SAID), Verdict.OPEN),
        (look(WHOLE, HALF), look(WHOLE, WHOLE), Verdict.OPEN),
        (look(WHOLE, WHOLE), look(WHOLE, WHOLE, ledger=None), Verdict.OPEN),
    ],
)
def test_verdict_on_missing_entries_follows_the_served_entries(
    before: Look, after: Look, expected: Verdict
) -> None:
    assert verdict(LOST_ON_B, around(before, after)) is expected


def test_replication_class_that_differs_from_brute_force_is_false() -> None:
    milder = finding("below-write-quorum", b=range(2, 4))
    assert verdict(milder, around(look(WHOLE, HALF), look(WHOLE, HALF))) is Verdict.FALSE


def test_class_with_unknown_copies_may_be_milder_than_brute_force_but_not_worse() -> None:
    milder = {**finding("below-write-quorum", b=range(2, 4)), "unknown": [{"bookie_id": A}]}
    worse = {**finding("entry-lost", b=range(2, 4)), "unknown": [{"bookie_id": A}]}
    looks = around(look(WHOLE, HALF), look(WHOLE, HALF))
    assert (verdict(milder, looks), verdict(worse, looks)) == (Verdict.TRUE, Verdict.FALSE)


def test_confirmed_finding_about_a_moved_ledger_is_false() -> None:
    moved = around(look(WHOLE, HALF), look(WHOLE, HALF), moved=frozenset({LEDGER}))
    assert verdict(LOST_ON_B, moved) is Verdict.FALSE
    assert verdict({**LOST_ON_B, "confidence": "suspect"}, moved) is Verdict.TRUE


def test_over_replicated_finding_is_true_only_on_a_nonmember_with_the_ledger() -> None:
    copied = around(look(WHOLE, WHOLE, WHOLE), look(WHOLE, WHOLE, WHOLE))
    assert verdict(finding("over-replicated-ledger", C), copied) is Verdict.TRUE
    assert verdict(finding("over-replicated-ledger", B), copied) is Verdict.FALSE
    back = around(look(WHOLE, WHOLE), look(WHOLE, WHOLE, version=3))
    assert verdict(finding("over-replicated-ledger", B), back) is Verdict.OPEN
    remnant = around(look(WHOLE, WHOLE, "0000000"), look(WHOLE, WHOLE))  # garbage collection deletes it later
    assert verdict(finding("over-replicated-ledger", C), remnant) is Verdict.TRUE
    nothing = around(look(WHOLE, WHOLE), look(WHOLE, WHOLE))
    assert verdict(finding("over-replicated-ledger", C), nothing) is Verdict.FALSE


@pytest.mark.parametrize("ledger", [LEDGER, None])
def test_surplus_finding_is_true_only_if_the_bookie_has_such_entries(ledger: int | None) -> None:
    past = around(look(WHOLE, "1111100"), look(WHOLE, "1111100"))
    assert verdict(finding("surplus-entries", B, ledger), past) is Verdict.TRUE
    wrong = Verdict.OPEN if ledger is None else Verdict.FALSE
    assert verdict(finding("surplus-entries", A, ledger), past) is wrong


def test_orphan_finding_is_false_if_the_ledger_has_metadata_afterwards() -> None:
    whole, orphan = look(WHOLE, WHOLE), finding("orphan-ledger", A)
    assert verdict(orphan, around(whole, look("", "", ledger=None))) is Verdict.TRUE
    assert verdict(orphan, around(whole, whole)) is Verdict.FALSE


def test_bookie_down_is_true_only_during_an_outage_of_that_bookie() -> None:
    steady = look(WHOLE, WHOLE)
    down = finding("bookie-down", B, None)
    assert verdict(down, around(steady, steady)) is Verdict.FALSE
    assert verdict(down, around(steady, steady, outages=[Outage(B, 5.0, 6.0)])) is Verdict.TRUE
    assert verdict(down, around(steady, steady, outages=[Outage(A, 5.0, 6.0)])) is Verdict.FALSE
    assert verdict(down, around(steady, steady, outages=[Outage(B, 20.0, 30.0)])) is Verdict.FALSE


@pytest.mark.parametrize("id", ["too-few-writable-bookies", "ledger-unavailable", "no-auditor"])
def test_cluster_wide_finding_is_true_only_during_a_bookie_outage(id: str) -> None:
    steady = look(WHOLE, WHOLE)
    lack = finding(id, None, None)
    assert verdict(lack, around(steady, steady)) is Verdict.FALSE
    assert verdict(lack, around(steady, steady, outages=[Outage(A, 5.0, 6.0)])) is Verdict.TRUE
    assert verdict(lack, around(steady, steady, outages=[Outage(A, 20.0, 30.0)])) is Verdict.FALSE


@pytest.mark.parametrize("id", ["metadata-suspect", "cookie-missing", "an-id-of-tomorrow"])
def test_finding_of_a_check_without_a_rule_is_false(id: str) -> None:
    steady = look(WHOLE, WHOLE)
    assert verdict(finding(id, B, None), around(steady, steady)) is Verdict.FALSE


def test_suspect_orphan_confirms_a_fault_only_if_its_bookie_is_metadata_suspect() -> None:
    suspect = {**finding("orphan-ledger", A), "confidence": "suspect"}
    fault = Fault("orphan-ledger", LEDGER, A)
    assert not fault.is_confirmed_by([suspect])
    assert not fault.is_confirmed_by([suspect, finding("metadata-suspect", B, None)])
    assert fault.is_confirmed_by([suspect, finding("metadata-suspect", A, None)])


def test_matrix_keeps_false_confirmed_findings_and_prints_the_counts() -> None:
    matrix = Matrix()
    matrix.add("00-disk", LOST_ON_B, Verdict.FALSE)
    matrix.add("00-disk", {**LOST_ON_B, "confidence": "suspect"}, Verdict.FALSE)
    matrix.add("00-disk", {**LOST_ON_B, "confidence": "unknown"}, Verdict.FALSE)
    matrix.miss("entry-lost")
    assert matrix.wrong == [("00-disk", LOST_ON_B)]
    [_, row, lost] = matrix.text().splitlines()
    assert row.split() == ["below-ack-quorum", ".", "1", ".", ".", "1", ".", "1", "."]
    assert lost.split() == ["entry-lost", *"......", ".", "1"]
