"""Text of the cluster's, made harmless."""

from __future__ import annotations

from dataclasses import replace

from auditor.model.finding import Missing
from auditor.reports.plain_text import missing_text, names_subject, printable, subject
from tests.reports.hostile import BOOKIE
from tests.reports.samples import BELOW, LOST, ORPHAN


def test_nothing_is_left_that_a_terminal_would_obey() -> None:
    assert printable(BOOKIE).isprintable()
    assert printable("Zürich 東京 bk-1:3181") == "Zürich 東京 bk-1:3181"


def test_of_very_many_bookies_some_are_named_and_the_others_counted() -> None:
    many = replace(LOST, missing=tuple(Missing(f"bk{n}:1", ((0, 0, 1, 0),), 1) for n in range(1000)))
    assert missing_text(many, 2) == "bk0:1 lacks 0 (1 entry); bk1:1 lacks 0 (1 entry); 998 more bookies"


def test_a_finding_is_about_what_it_names() -> None:
    assert subject(replace(ORPHAN, scope_id=-1)) == ["scope -1", "ledger 36", "bookie bk-b:3181"]
    assert subject(BELOW) == ["ledger 7"]


def test_a_message_names_its_subject_whole_or_not_at_all() -> None:
    assert names_subject(replace(BELOW, message="too few copies of ledger 7"))
    assert not names_subject(replace(BELOW, message="too few copies of ledger 70"))
    assert not names_subject(replace(BELOW, message="1. too few copies of ledger 7"))
    assert not names_subject(replace(BELOW, message=""))
