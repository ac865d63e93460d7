"""Each rule of the matrix accepts correct results and can fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from auditor.checks.finding_rows import FALLBACK_MESSAGE
from proofs.matrix import rules
from proofs.matrix.bench import Outcome, Row
from proofs.matrix.damage import Damage
from proofs.matrix.facts import Facts

A, B = "bk-a:3181", "bk-b:3181"


def row(id: str = "orphan-ledger", fingerprint: str = "f", **values: Any) -> Row:
    return {
        "id": id,
        "fingerprint": fingerprint,
        "severity": "note",
        "confidence": "confirmed",
        "scope_id": 0,
        "ledger_id": 7,
        "bookie_id": A,
        "missing": [],
        "unknown": [],
        "message": f"{A} holds ledger 7, which is gone",
        "evidence": "{}",
        **values,
    }


def outcome(
    exit_code: int = 0, stdout: str = "", stderr: str = "", arguments: tuple[str, ...] = ("report", "RUN")
) -> Outcome:
    return Outcome(arguments, exit_code, stdout, stderr)


def hits(sentences: Iterable[str]) -> list[str]:
    return [*sentences]


@pytest.mark.parametrize(
    "bad",
    [
        outcome(70),
        outcome(stderr="Traceback (most recent call last)"),
        outcome(5, stderr="bkaudit: report.json: KeyError: 'verdict'"),
        outcome(5, stderr="bkaudit: [Errno 2] Cannot list directory"),
    ],
)
def test_undocumented_exit_code_or_exception_class_is_a_bug(bad: Outcome) -> None:
    assert hits(rules.no_bug([bad]))


def test_plain_error_sentence_is_no_bug() -> None:
    assert not hits(rules.no_bug([outcome(4, stderr="bkaudit: 127.0.0.1:1: connection refused")]))


def test_audit_may_end_without_a_result_only_if_metadata_are_damaged() -> None:
    assert hits(rules.ends(outcome(2, stderr="bkaudit: --since x: no run"), damaged=True))
    assert hits(rules.ends(outcome(4), damaged=False))
    assert not hits(rules.ends(outcome(4), damaged=True))


@pytest.mark.parametrize(
    "message", ["is gone; not sure: ?", "owner None", "nan bytes", "a null of it", FALLBACK_MESSAGE]
)
def test_null_in_a_message_or_an_output_line_is_reported(message: str) -> None:
    assert hits(rules.no_nulls([row(message=message)], []))
    assert hits(rules.no_nulls([], [outcome(stdout=message)]))


def test_question_mark_in_a_name_and_json_null_are_not_reported_as_nulls() -> None:
    rows = [row(message="bk?a:3181 says nothing; noneed, annulled")]
    assert not hits(rules.no_nulls(rows, [outcome(stdout='  "bookie_id": null,')]))
    listed = outcome(stdout="  [\n    null,", arguments=("report", "RUN", "--format", "json"))
    assert not hits(rules.no_nulls(rows, [listed]))


def test_confirmed_finding_that_states_a_doubt_is_reported() -> None:
    assert hits(rules.no_sure_doubt([row(evidence='{"doubts": ["clock"]}')]))
    assert hits(rules.no_sure_doubt([row(message="gone; not sure: it may be there")]))
    assert not hits(rules.no_sure_doubt([row(message="holds 3 ledgers; 2 of these ledgers are unconfirmed")]))
    assert not hits(rules.no_sure_doubt([row(confidence="suspect", message="gone; not sure: the clock")]))


def test_reading_more_must_not_lose_certainty() -> None:
    less = [row()]
    assert hits(rules.never_less(less, [], "reading more"))
    assert hits(rules.never_less(less, [row(confidence="unknown")], "reading more"))
    assert not hits(rules.never_less(less, [row(confidence="suspect")], "reading more"))


def test_decommission_needs_whole_metadata_and_sure_effects_stay_within_possible() -> None:
    command = ("decommission", "RUN", "bk1")
    assert hits(rules.never_good_unseen([outcome(0, arguments=command)], gaps=True))
    assert not hits(rules.never_good_unseen([outcome(0, arguments=command)], gaps=False))
    assert not hits(rules.never_good_unseen([outcome(3, arguments=command)], gaps=True))
    amounts = {name: {"entries": 2} for name in ("lost", "below_ack", "below_write")}
    less, worse = {**amounts, "unrecoverable": 1}, {**amounts, "lost": {"entries": 3}, "unrecoverable": 1}
    for sure, possible in ((less, worse), (worse, less)):
        output = json.dumps({"levels": [{"sure": sure, "possible": possible}]})
        simulation = outcome(0, output, arguments=("simulate", "RUN", "--format", "json"))
        assert bool(hits(rules.never_good_unseen([simulation], gaps=False))) == (sure is worse)


def test_reading_more_may_change_a_copy_class_and_drop_bookie_unread() -> None:
    less = [row("entry-lost"), row("bookie-unread", "g")]
    assert not hits(rules.never_less(less, [row("below-ack-quorum", "h")], "reading more"))


def test_reading_more_may_turn_mark_stuck_into_mark_stale() -> None:
    less = [row("mark-stuck", ledger_id=21)]
    stale = row("mark-stale", "g", ledger_id=None, evidence='{"sample": ["21"]}')
    assert not hits(rules.never_less(less, [stale], "reading more"))
    assert hits(rules.never_less(less, [{**stale, "evidence": '{"sample": ["2"]}'}], "reading more"))


FACTS = Facts(
    verdict="healthy",
    complete=True,
    findings=frozenset("f"),
    full={("note", "orphan-ledger", "suspect"): 1},
    shares={"ledgers": (1, 1)},
    gaps=0,
)


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, verdict="incomplete"),
        replace(FACTS, complete=False),
        replace(FACTS, findings=frozenset()),
        replace(FACTS, samples=frozenset("x")),
        replace(FACTS, full={("note", "orphan-ledger", "confirmed"): 1}),
        Facts(by_check={("warning", "orphan-ledger"): 1}),
        Facts(by_id={("orphan-ledger",): 2}),
        Facts(unsure={}),
        Facts(shares={"ledgers": (0, 1)}),
        Facts(gaps=1),
    ],
)
def test_report_formats_with_different_facts_are_reported(facts: Facts) -> None:
    assert hits(rules.forms_agree({"json": FACTS, "other": facts}, [row()]))


def test_report_format_with_coarser_counts_agrees() -> None:
    coarse = Facts(by_check={("note", "orphan-ledger"): 1}, unsure={("orphan-ledger",): 1})
    assert not hits(rules.forms_agree({"json": FACTS, "markdown": coarse}, [row()]))


def test_check_without_data_must_not_count_as_passed() -> None:
    assert hits(rules.blind_is_not_passed({"orphan-ledger"}, {"orphan-ledger"}))
    assert not hits(rules.blind_is_not_passed({"orphan-ledger"}, {"entry-lost"}))


def test_damage_may_change_only_findings_of_its_bookie_and_ensembles() -> None:
    harm = Damage(bookies=frozenset({A}))
    assert not hits(rules.accuses(harm, [], [row()], {}))
    other_row = row(bookie_id=B, message=f"{B} holds ledger 7")
    assert hits(rules.accuses(harm, [], [other_row], {}))
    assert hits(rules.accuses(harm, [other_row], [], {}))
    assert not hits(rules.accuses(harm, [], [other_row], {7: [A, B]}))


def test_damaged_bookie_may_change_compacted_but_not_data_owner_findings() -> None:
    harm = Damage(bookies=frozenset({A}))
    owner = row("owner-dangling", bookie_id=None, message="names ledger 7", evidence='{"kind": "compacted"}')
    assert not hits(rules.accuses(harm, [owner], [], {}))
    assert hits(rules.accuses(harm, [{**owner, "evidence": '{"kind": "data"}'}], [], {}))


def test_damage_may_change_a_finding_whose_sample_ledgers_use_the_bookie() -> None:
    counts = row("mark-stale", ledger_id=None, bookie_id=B, message=f"1 of {B}", evidence='{"sample": ["7"]}')
    harm = Damage(bookies=frozenset({A}))
    assert not hits(rules.accuses(harm, [counts], [], {7: [A, B]}))
    assert hits(rules.accuses(harm, [counts], [], {7: [B]}))


def test_damage_must_not_add_missing_entries_on_a_sound_bookie() -> None:
    harm = Damage(bookies=frozenset({A}))
    lost = row("entry-lost", missing=[{"bookie_id": B, "count": 3}])
    assert hits(rules.accuses(harm, [], [lost], {7: [A, B]}))
    assert not hits(rules.accuses(harm, [lost], [lost], {7: [A, B]}))


def test_damaged_record_may_add_its_ledger_and_suspect_cluster_findings() -> None:
    harm = Damage(ledgers=frozenset({8}))
    assert hits(rules.accuses(harm, [], [row("entry-lost")], {}))
    assert not hits(rules.accuses(harm, [], [row("entry-lost", ledger_id=8)], {}))
    assert not hits(rules.accuses(harm, [], [row(ledger_id=None, confidence="suspect")], {}))


def test_bookie_named_only_by_a_damaged_record_may_be_a_ghost() -> None:
    ghost = row("ghost-bookie", ledger_id=None, bookie_id="half-of-an-i")
    assert hits(rules.accuses(Damage(ledgers=frozenset({8})), [], [ghost], {}))
    harm = Damage(ledgers=frozenset({8}), names=frozenset({"half-of-an-i"}))
    assert not hits(rules.accuses(harm, [], [ghost], {}))


def test_damaged_metadata_must_not_add_a_confirmed_entry_loss() -> None:
    harm = Damage(whole=True)
    assert hits(rules.accuses(harm, [], [row("entry-lost")], {}))
    assert not hits(rules.accuses(harm, [], [row("entry-lost", confidence="suspect")], {}))
    assert not hits(rules.accuses(harm, [], [row("metadata-unreadable")], {}))


def test_obvious_damage_must_change_the_report() -> None:
    assert hits(rules.notices("empty", 1, 1))
    assert not hits(rules.notices("empty", 1, 2))
    assert not hits(rules.notices("byte", 1, 1))


def test_too_wide_line_is_reported_unless_it_is_a_command() -> None:
    wide = "word " * 20
    assert hits(rules.fits(80, {"text": wide}, {}, ""))
    assert not hits(rules.fits(80, {"text": f"bkaudit explain {wide}"}, {}, ""))


def test_first_screen_must_have_the_error_counts_and_the_verdict() -> None:
    screen = {"screen": "error  entry-lost 3\n\nNOT HEALTHY: 3\nerror"}
    counts: dict[tuple[str, ...], int] = {("error", "entry-lost"): 3, ("note", "stray-file"): 9}
    assert not hits(rules.fits(80, screen, counts, "NOT HEALTHY: 3 error"))
    assert hits(rules.fits(80, screen, {("error", "ghost-bookie"): 1}, "NOT HEALTHY: 3 error"))
    assert hits(rules.fits(80, screen, counts, "NOT HEALTHY: 3 error, 9 note"))
    assert not hits(
        rules.fits(80, {"screen": "lost entry-lost 1\nerror entry-lost 2\nX: y\nnext z"}, counts, "X: y")
    )
