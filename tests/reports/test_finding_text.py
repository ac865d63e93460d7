"""Tests that text from the cluster is made harmless.

They also cover entries in the form that a person reads.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.finding import Group, Missing
from auditor.reports.finding_text import (
    class_entries_text,
    entries_text,
    entry_texts,
    finding_line,
    is_sentence_on_subject,
    missing_text,
    positions_text,
    subject_texts,
)
from auditor.reports.plain_text import printable
from tests.reports.hostile import BOOKIE
from tests.reports.samples import BELOW, LOST, ORPHAN


def test_printable_replaces_control_characters_and_keeps_other_scripts() -> None:
    assert printable(BOOKIE).isprintable()
    assert printable("Zürich 東京 bk-1:3181") == "Zürich 東京 bk-1:3181"


def test_missing_text_names_some_bookies_and_counts_the_rest() -> None:
    many = replace(LOST, missing=tuple(Missing(f"bk{n}:1", ((0, 0, 1, 0),), 1) for n in range(1000)))
    assert missing_text(many, 2) == "bk0:1 lacks 0 (1 entry); bk1:1 lacks 0 (1 entry); and 998 more bookies"


def test_subject_texts_name_scope_ledger_and_bookie() -> None:
    assert subject_texts(replace(ORPHAN, scope_id=-1)) == ["scope -1", "ledger 36", "bookie bk-b:3181"]
    assert subject_texts(BELOW) == ["ledger 7"]


def test_sentence_on_subject_contains_the_whole_subject_name() -> None:
    assert is_sentence_on_subject(replace(BELOW, message="too few copies of ledger 7"))
    assert not is_sentence_on_subject(replace(BELOW, message="too few copies of ledger 70"))
    assert not is_sentence_on_subject(replace(BELOW, message="1. too few copies of ledger 7"))
    assert not is_sentence_on_subject(replace(BELOW, message=""))


OWNER = {
    "application": "pulsar", "kind": "data", "tenant": "shop", "namespace": "orders",
    "topic": "a-partition-0", "cursor": None, "detail": None,
    "path": "managed-ledgers/shop/orders/persistent/a-partition-0",
}  # fmt: skip
SHORT = replace(
    BELOW,
    missing=(
        *(Missing(f"bk{n}:1", ((4, 19, 1, 5), (30, 30, 3, 0)), 7) for n in range(7)),
        Missing("bk8:1", ((4, 4, 1, 0),), 1),
    ),
    evidence={"class_entries": {"groups": [[4, 19, 1, 5], [30, 30, 3, 0]], "count": 7}, "owner": OWNER},
    message="ledger 7: 7 of 33 entries have fewer copies than the ack quorum of 2, at worst 1 of 3",
)


def test_finding_lists_the_entries_and_positions_of_its_class() -> None:
    assert entry_texts(SHORT, 5) == [
        "below ack quorum: 4, 9, ... 19; 30-32 (7 entries)",
        "topic shop/orders/a-partition-0: positions 7:4, 7:9, ... 7:19; 7:30 to 7:32",
        "absent on bk0:1, bk1:1, bk2:1, bk3:1, bk4:1 and 2 more",
        "bk8:1 lacks 4 (1 entry)",
    ]
    assert finding_line(SHORT).startswith("error below-ack-quorum ledger 7: 7 of 33 entries have ")
    holes = [[number, number, 1, 0] for number in range(0, 40, 2)]
    many = replace(SHORT, evidence={"class_entries": {"groups": holes, "count": 20}})
    assert class_entries_text(many).endswith("12,14 and 12 more ranges (20 entries)")


def test_positions_are_shown_only_for_entries_of_a_topics_ledger() -> None:
    for owner_change in ({"kind": "cursor"}, {"application": "distributedlog"}):
        assert positions_text(replace(SHORT, evidence=SHORT.evidence | {"owner": OWNER | owner_change})) == ""
    assert positions_text(replace(SHORT, evidence=SHORT.evidence | {"class_entries": None})) == ""
    assert class_entries_text(replace(SHORT, id="surplus-entries")) == ""


@pytest.mark.parametrize(
    ("groups", "count", "shown"),
    [
        ([(0, 0, 3, 0)], 3, "0-2 (3 entries)"),
        ([(0, 3, 2, 3)], 4, "0,1,3,4 (4 entries)"),
        ([(0, 15, 1, 5)], 4, "0, 5, ... 15 (4 entries)"),
        ([(0, 10, 2, 5)], 6, "0-1, 5-6, 10-11 (6 entries)"),
        ([(0, 15, 1, 5), (20, 20, 1, 0)], 5, "0, 5, ... 15; 20 (5 entries)"),
        ([(1, 1, 1, 0), (5, 2000, 3, 5)], 1201, "1; 5-7, 10-12, ... 2000-2002 (1,201 entries)"),
        ([(2**62, 2**62, 2**31 - 1, 0)], 2**31 - 1, f"{2**62}-{2**62 + 2**31 - 2} (2,147,483,647 entries)"),
    ],
)
def test_groups_are_shown_as_ranges(groups: list[Group], count: int, shown: str) -> None:
    assert entries_text(groups, count) == shown
