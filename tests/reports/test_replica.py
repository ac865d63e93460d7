"""Tests of the text about one bookie's part of a ledger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auditor.codecs.availability.groups import GROUP
from auditor.reports.replica import replica_text
from tests.reports.test_ledger import LEDGER


def test_listing_is_compared_with_the_expected_entries() -> None:
    listed = np.array([(0, 0, 1, 0), (2, 5, 2, 3), (30, 30, 1, 0)], GROUP)
    assert replica_text(LEDGER, "bk-a:3181", listed, 80).splitlines() == [
        "ledger 42 on bk-a:3181",
        "  should hold   0; 2-3, 5-6, 8-9; 11 (8 entries)",
        "  in this run   0; 2-3, 5-6, 8-9 (7 entries)",
        "  listed        0,2,3,5,6,30 (6 entries)",
        "  missing       8,9,11 (3 entries)",
        "  not expected  30 (1 entry)",
    ]


def test_without_listing_stored_entries_come_from_the_run() -> None:
    lines = replica_text(LEDGER, "bk-b:3181", None, 80).splitlines()
    assert lines[-2:] == ["  missing       nothing", "  not expected  20-22 (3 entries)"]


def test_entries_that_the_run_did_not_read_are_unknown_not_missing() -> None:
    lines = replica_text(LEDGER, "bk-c:3181", None, 80).splitlines()
    assert lines[2] == "  in this run   nothing; the rest is unknown: not mounted"
    assert lines[3] == "  unknown       1,2,4,5 (4 entries)"


def test_bookie_in_no_ensemble_should_hold_no_entries() -> None:
    lines = replica_text(LEDGER, "bk-z:3181", np.array([(3, 3, 2, 0)], GROUP), 80).splitlines()
    assert lines[1:3] == [
        "  should hold   nothing",
        "  note          bk-z:3181 is in no ensemble of the ledger",
    ]
    assert lines[-1] == "  not expected  3,4 (2 entries)"


def test_replica_text_notes_that_an_open_ledger_is_not_closed() -> None:
    text = replica_text(replace(LEDGER, state="OPEN"), "bk-a:3181", None, 80)
    assert "the ledger is not closed" in text
