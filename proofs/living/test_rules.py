"""The rules for findings can return true and false, and return open if the cluster changed."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from proofs.living.faults import Fault
from proofs.living.matrix import Matrix
from proofs.living.rules import Around, Finding, Outage, Verdict, verdict
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


def around(before: Look, after: Look, **more: Any) -> Around:
    return Around(before, replace(after, began=10.0, ended=11.0), **more)


def finding(id: str, bookie: str | None = None, ledger: int | None = LEDGER, **entries: range) -> Finding:
    missing = [
        {"bookie_id": f"{name}:1", "groups": struct.pack(">qqii", each.start, each.start, len(each), 0)}
        for name, each in entries.items()
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
    ("before", "after", "said"),
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
def test_what_is_said_to_be_missing_is_held_to_what_the_bookie_serves(
    before: Look, after: Look, said: Verdict
) -> None:
    assert verdict(LOST_ON_B, around(before, after)) is said


def test_a_class_that_the_brute_force_does_not_give_is_false() -> None:
    milder = finding("below-write-quorum", b=range(2, 4))
    assert verdict(milder, around(look(WHOLE, HALF), look(WHOLE, HALF))) is Verdict.FALSE


def test_a_class_with_unknown_copies_may_be_milder_than_that_of_the_brute_force() -> None:
    milder = {**finding("below-write-quorum", b=range(2, 4)), "unknown": [{"bookie_id": A}]}
    worse = {**finding("entry-lost", b=range(2, 4)), "unknown": [{"bookie_id": A}]}
    looks = around(look(WHOLE, HALF), look(WHOLE, HALF))
    assert (verdict(milder, looks), verdict(worse, looks)) == (Verdict.TRUE, Verdict.FALSE)


def test_nothing_is_confirmed_of_a_ledger_that_moved() -> None:
    moved = around(look(WHOLE, HALF), look(WHOLE, HALF), moved=frozenset({LEDGER}))
    assert verdict(LOST_ON_B, moved) is Verdict.FALSE
    assert verdict({**LOST_ON_B, "confidence": "suspect"}, moved) is Verdict.TRUE


def test_an_over_replicated_ledger_lies_on_a_bookie_that_is_no_member() -> None:
    copied = around(look(WHOLE, WHOLE, WHOLE), look(WHOLE, WHOLE, WHOLE))
    assert verdict(finding("over-replicated-ledger", C), copied) is Verdict.TRUE
    assert verdict(finding("over-replicated-ledger", B), copied) is Verdict.FALSE
    back = around(look(WHOLE, WHOLE), look(WHOLE, WHOLE, version=3))
    assert verdict(finding("over-replicated-ledger", B), back) is Verdict.OPEN
    known = around(look(WHOLE, WHOLE, "0000000"), look(WHOLE, WHOLE))  # garbage collection deletes it later
    assert verdict(finding("over-replicated-ledger", C), known) is Verdict.TRUE
    nothing = around(look(WHOLE, WHOLE), look(WHOLE, WHOLE))
    assert verdict(finding("over-replicated-ledger", C), nothing) is Verdict.FALSE


@pytest.mark.parametrize("ledger", [LEDGER, None])
def test_surplus_entries_are_there(ledger: int | None) -> None:
    past = around(look(WHOLE, "1111100"), look(WHOLE, "1111100"))
    assert verdict(finding("surplus-entries", B, ledger), past) is Verdict.TRUE
    wrong = Verdict.OPEN if ledger is None else Verdict.FALSE
    assert verdict(finding("surplus-entries", A, ledger), past) is wrong


def test_an_orphan_has_no_metadata_afterwards() -> None:
    whole, orphan = look(WHOLE, WHOLE), finding("orphan-ledger", A)
    assert verdict(orphan, around(whole, look("", "", ledger=None))) is Verdict.TRUE
    assert verdict(orphan, around(whole, whole)) is Verdict.FALSE


def test_a_bookie_is_down_while_it_is() -> None:
    steady = look(WHOLE, WHOLE)
    down = finding("bookie-down", B, None)
    assert verdict(down, around(steady, steady)) is Verdict.FALSE
    assert verdict(down, around(steady, steady, outages=[Outage(B, 5.0, 6.0)])) is Verdict.TRUE
    assert verdict(down, around(steady, steady, outages=[Outage(A, 5.0, 6.0)])) is Verdict.FALSE
    assert verdict(down, around(steady, steady, outages=[Outage(B, 20.0, 30.0)])) is Verdict.FALSE


@pytest.mark.parametrize("id", ["too-few-writable-bookies", "ledger-unavailable", "no-auditor"])
def test_a_cluster_lacks_bookies_only_while_one_is_down(id: str) -> None:
    steady = look(WHOLE, WHOLE)
    lack = finding(id, None, None)
    assert verdict(lack, around(steady, steady)) is Verdict.FALSE
    assert verdict(lack, around(steady, steady, outages=[Outage(A, 5.0, 6.0)])) is Verdict.TRUE
    assert verdict(lack, around(steady, steady, outages=[Outage(A, 20.0, 30.0)])) is Verdict.FALSE


@pytest.mark.parametrize("id", ["metadata-suspect", "cookie-missing", "an-id-of-tomorrow"])
def test_what_no_healthy_cluster_has_is_false(id: str) -> None:
    steady = look(WHOLE, WHOLE)
    assert verdict(finding(id, B, None), around(steady, steady)) is Verdict.FALSE


def test_an_orphan_among_a_hundred_others_is_found_where_it_is_suspected() -> None:
    suspect = {**finding("orphan-ledger", A), "confidence": "suspect"}
    fault = Fault("orphan-ledger", LEDGER, A)
    assert not fault.found([suspect])
    assert not fault.found([suspect, finding("metadata-suspect", B, None)])
    assert fault.found([suspect, finding("metadata-suspect", A, None)])


def test_the_matrix_keeps_what_was_wrong() -> None:
    matrix = Matrix()
    matrix.add("00-disk", LOST_ON_B, Verdict.FALSE)
    matrix.add("00-disk", {**LOST_ON_B, "confidence": "suspect"}, Verdict.FALSE)
    matrix.add("00-disk", {**LOST_ON_B, "confidence": "unknown"}, Verdict.FALSE)
    matrix.miss("entry-lost")
    assert matrix.wrong == [("00-disk", LOST_ON_B)]
    [_, row, lost] = matrix.text().splitlines()
    assert row.split() == ["below-ack-quorum", ".", "1", ".", ".", "1", ".", "1", "."]
    assert lost.split() == ["entry-lost", *"......", ".", "1"]
