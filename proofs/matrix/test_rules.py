"""Each rule of the matrix passes correct results and can fail."""

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


def row(id: str = "orphan-ledger", fingerprint: str = "f", **given: Any) -> Row:
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
        **given,
    }


def outcome(
    exit_code: int = 0, stdout: str = "", stderr: str = "", arguments: tuple[str, ...] = ("report", "RUN")
) -> Outcome:
    return Outcome(arguments, exit_code, stdout, stderr)


def held(sentences: Iterable[str]) -> list[str]:
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
def test_a_bug_is_a_code_or_a_class_that_nobody_promised(bad: Outcome) -> None:
    assert held(rules.no_bug([bad]))


def test_an_error_in_a_sentence_is_no_bug() -> None:
    assert not held(rules.no_bug([outcome(4, stderr="bkaudit: 127.0.0.1:1: connection refused")]))


def test_an_audit_ends_with_a_result_but_of_damaged_metadata() -> None:
    assert held(rules.ends(outcome(2, stderr="bkaudit: --since x: no run"), damaged=True))
    assert held(rules.ends(outcome(4), damaged=False))
    assert not held(rules.ends(outcome(4), damaged=True))


@pytest.mark.parametrize(
    "message", ["is gone; not sure: ?", "owner None", "nan bytes", "a null of it", FALLBACK_MESSAGE]
)
def test_a_null_in_a_message_or_a_line_is_seen(message: str) -> None:
    assert held(rules.no_nulls([row(message=message)], []))
    assert held(rules.no_nulls([], [outcome(stdout=message)]))


def test_a_name_with_a_question_mark_and_the_nulls_of_json_are_none() -> None:
    rows = [row(message="bk?a:3181 says nothing; noneed, annulled")]
    assert not held(rules.no_nulls(rows, [outcome(stdout='  "bookie_id": null,')]))
    listed = outcome(stdout="  [\n    null,", arguments=("report", "RUN", "--format", "json"))
    assert not held(rules.no_nulls(rows, [listed]))


def test_what_is_confirmed_is_in_no_doubt() -> None:
    assert held(rules.no_sure_doubt([row(evidence='{"doubts": ["clock"]}')]))
    assert held(rules.no_sure_doubt([row(message="gone; not sure: it may be there")]))
    assert not held(rules.no_sure_doubt([row(message="holds 3 ledgers; 2 of these ledgers are unconfirmed")]))
    assert not held(rules.no_sure_doubt([row(confidence="suspect", message="gone; not sure: the clock")]))


def test_who_reads_more_never_knows_less() -> None:
    less = [row()]
    assert held(rules.never_less(less, [], "reading more"))
    assert held(rules.never_less(less, [row(confidence="unknown")], "reading more"))
    assert not held(rules.never_less(less, [row(confidence="suspect")], "reading more"))


def test_nobody_may_go_while_metadata_is_unread_and_what_is_sure_is_possible() -> None:
    asked = ("decommission", "RUN", "bk1")
    assert held(rules.never_good_unseen([outcome(0, arguments=asked)], gaps=True))
    assert not held(rules.never_good_unseen([outcome(0, arguments=asked)], gaps=False))
    assert not held(rules.never_good_unseen([outcome(3, arguments=asked)], gaps=True))
    amounts = {name: {"entries": 2} for name in ("lost", "below_ack", "below_write")}
    less, more = {**amounts, "unrecoverable": 1}, {**amounts, "lost": {"entries": 3}, "unrecoverable": 1}
    for sure, possible in ((less, more), (more, less)):
        said = json.dumps({"levels": [{"sure": sure, "possible": possible}]})
        seen = outcome(0, said, arguments=("simulate", "RUN", "--format", "json"))
        assert bool(held(rules.never_good_unseen([seen], gaps=False))) == (sure is more)


def test_a_class_may_change_and_what_was_not_read_may_be_read() -> None:
    less = [row("entry-lost"), row("bookie-unread", "g")]
    assert not held(rules.never_less(less, [row("below-ack-quorum", "h")], "reading more"))


def test_who_sees_that_a_ledger_is_healthy_calls_its_mark_stale() -> None:
    less = [row("mark-stuck", ledger_id=21)]
    stale = row("mark-stale", "g", ledger_id=None, evidence='{"sample": ["21"]}')
    assert not held(rules.never_less(less, [stale], "reading more"))
    assert held(rules.never_less(less, [{**stale, "evidence": '{"sample": ["2"]}'}], "reading more"))


FACTS = Facts(
    verdict="healthy",
    complete=True,
    findings=frozenset("f"),
    full={("note", "orphan-ledger", "suspect"): 1},
    shares={"ledgers": (1, 1)},
    gaps=0,
)


@pytest.mark.parametrize(
    "other",
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
def test_two_forms_that_say_different_things_are_seen(other: Facts) -> None:
    assert held(rules.forms_agree({"json": FACTS, "other": other}, [row()]))


def test_forms_that_say_less_say_the_same() -> None:
    coarse = Facts(by_check={("note", "orphan-ledger"): 1}, unsure={("orphan-ledger",): 1})
    assert not held(rules.forms_agree({"json": FACTS, "markdown": coarse}, [row()]))


def test_what_is_blind_has_not_passed() -> None:
    assert held(rules.blind_is_not_passed({"orphan-ledger"}, {"orphan-ledger"}))
    assert not held(rules.blind_is_not_passed({"orphan-ledger"}, {"entry-lost"}))


def test_damage_accuses_its_bookie_and_no_other() -> None:
    harm = Damage(bookies=frozenset({A}))
    assert not held(rules.accuses(harm, [], [row()], {}))
    other = row(bookie_id=B, message=f"{B} holds ledger 7")
    assert held(rules.accuses(harm, [], [other], {}))
    assert held(rules.accuses(harm, [other], [], {}))
    assert not held(rules.accuses(harm, [], [other], {7: [A, B]}))


def test_what_a_cursors_ledger_names_rests_on_every_bookie_of_it() -> None:
    harm = Damage(bookies=frozenset({A}))
    named = row("owner-dangling", bookie_id=None, message="names ledger 7", evidence='{"kind": "compacted"}')
    assert not held(rules.accuses(harm, [named], [], {}))
    assert held(rules.accuses(harm, [{**named, "evidence": '{"kind": "data"}'}], [], {}))


def test_what_counts_ledgers_rests_on_every_bookie_of_them() -> None:
    counts = row("mark-stale", ledger_id=None, bookie_id=B, message=f"1 of {B}", evidence='{"sample": ["7"]}')
    harm = Damage(bookies=frozenset({A}))
    assert not held(rules.accuses(harm, [counts], [], {7: [A, B]}))
    assert held(rules.accuses(harm, [counts], [], {7: [B]}))


def test_a_sound_bookie_lacks_nothing_for_damage_of_another() -> None:
    harm = Damage(bookies=frozenset({A}))
    lost = row("entry-lost", missing=[{"bookie_id": B, "count": 3}])
    assert held(rules.accuses(harm, [], [lost], {7: [A, B]}))
    assert not held(rules.accuses(harm, [lost], [lost], {7: [A, B]}))


def test_damage_of_a_record_accuses_its_ledger_and_lets_others_be_doubted() -> None:
    harm = Damage(ledgers=frozenset({8}))
    assert held(rules.accuses(harm, [], [row("entry-lost")], {}))
    assert not held(rules.accuses(harm, [], [row("entry-lost", ledger_id=8)], {}))
    assert not held(rules.accuses(harm, [], [row(ledger_id=None, confidence="suspect")], {}))


def test_a_bookie_that_only_a_damaged_record_names_may_be_a_ghost() -> None:
    ghost = row("ghost-bookie", ledger_id=None, bookie_id="half-of-an-i")
    assert held(rules.accuses(Damage(ledgers=frozenset({8})), [], [ghost], {}))
    harm = Damage(ledgers=frozenset({8}), names=frozenset({"half-of-an-i"}))
    assert not held(rules.accuses(harm, [], [ghost], {}))


def test_damage_of_the_whole_metadata_confirms_nothing_new_of_ledgers() -> None:
    harm = Damage(whole=True)
    assert held(rules.accuses(harm, [], [row("entry-lost")], {}))
    assert not held(rules.accuses(harm, [], [row("entry-lost", confidence="suspect")], {}))
    assert not held(rules.accuses(harm, [], [row("metadata-unreadable")], {}))


def test_damage_that_nobody_can_overlook_is_said() -> None:
    assert held(rules.notices("empty", 1, 1))
    assert not held(rules.notices("empty", 1, 2))
    assert not held(rules.notices("byte", 1, 1))


def test_a_line_that_is_too_wide_is_seen_and_a_command_may_be() -> None:
    wide = "word " * 20
    assert held(rules.fits(80, {"text": wide}, {}, ""))
    assert not held(rules.fits(80, {"text": f"bkaudit explain {wide}"}, {}, ""))


def test_the_first_screen_has_what_is_bad_and_the_verdict() -> None:
    screen = {"screen": "error  entry-lost 3\n\nNOT HEALTHY: 3\nerror"}
    counts: dict[tuple[str, ...], int] = {("error", "entry-lost"): 3, ("note", "stray-file"): 9}
    assert not held(rules.fits(80, screen, counts, "NOT HEALTHY: 3 error"))
    assert held(rules.fits(80, screen, {("error", "ghost-bookie"): 1}, "NOT HEALTHY: 3 error"))
    assert held(rules.fits(80, screen, counts, "NOT HEALTHY: 3 error, 9 note"))
    assert not held(
        rules.fits(80, {"screen": "lost entry-lost 1\nerror entry-lost 2\nX: y\nnext z"}, counts, "X: y")
    )
