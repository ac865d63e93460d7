"""Answers of a rehearsal: exit codes, causes of the whole cluster, topics, text of 80 columns, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Answer, Cause, Rehearsal
from auditor.model.placement import Level, PlacementSettings, Policy
from auditor.reports.decommission import decommission_json, decommission_text
from auditor.reports.schema import decommission_schema
from auditor.reports.simulation import text as simulation_text
from auditor.simulate.simulation import simulate_failure
from auditor.sources.metadata.ledger_rows import LEDGERS
from tests.decommission.made_clusters import CLEAN_FACTS, reopen_run, run_of
from tests.made_runs import write
from tests.reports.samples import report
from tests.simulate.small_clusters import BOOKIES, Ledger
from tests.simulate.test_answer_tables import rows_of

HOUR = 3_600_000
SCANNED = 1_795_237_669_000
"""The time of the sample's scan."""

ALL_WRITE: dict[str, str | None] = dict.fromkeys(BOOKIES, "writable")
Rehearse = Callable[..., Rehearsal]


def ledger(id: int, ensemble: str, write: int, ack: int, last: int = 9, **fields: Any) -> Ledger:
    return Ledger(
        id, fields.pop("state", "CLOSED"), len(ensemble), write, ack, last, ((0, tuple(ensemble)),), **fields
    )


PLAIN = ledger(1, "abc", 3, 2)
ONLY = ledger(2, "abc", 1, 1)


@pytest.fixture
def said(tmp_path: Path) -> Rehearse:
    """Return a function that rehearses decommissioning on a run of given ledgers."""

    def rehearsed(*ledgers: Ledger, asked: str = "a", unread: str = "", **tables: Any) -> Rehearsal:
        modes = ALL_WRITE | tables.pop("modes", {})
        return rehearse(run_of(tmp_path, ledgers, modes, {*unread}, **tables), [*asked])

    return rehearsed


def causes(rehearsal: Rehearsal) -> list[Cause]:
    return [blocker.cause for blocker in rehearsal.together.blockers]


def test_plain_bookie_can_be_decommissioned_now(said: Rehearse) -> None:
    rehearsal = said(PLAIN)
    assert (rehearsal.answer, rehearsal.exit_code, causes(rehearsal)) == (Answer.NOW, 0, [])
    assert rehearsal.workers == 2


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_every_blocked_ledger_is_in_the_table(tmp_path: Path, form: str) -> None:
    lone = [ledger(number, "a", 1, 1) for number in range(3, 43)]
    owner = {"scope_id": 0, "standing": "owned", "kind": "data", "tenant": "shop", "borrowed": False}
    owners = [
        owner | {"ledger_id": number, "namespace": "orders", "topic": f"t{number % 13}"}
        for number in range(3, 42)
    ]
    run = run_of(tmp_path, [PLAIN, *lone], ALL_WRITE, set(), ownership=owners)

    def bkaudit(*options: str) -> Result:
        done = CliRunner().invoke(main, ["decommission", run.path, "a", *options], prog_name="bkaudit")
        assert done.exit_code == 1, done.stderr
        return done

    rows = rows_of(bkaudit("--format", form), form)
    assert [int(row["ledger_id"]) for row in rows] == list(range(3, 43))
    assert {row["cause"] for row in rows} == {"only-copy"}
    assert [row["topic"] or None for row in rows[-2:]] == ["shop/orders/t2", None]
    topics = rows_of(bkaudit("--table", "topics", "--format", form), form)
    assert sum(int(row["ledgers"]) for row in topics) == 40
    assert len(topics) == 14
    shown = bkaudit().stdout
    [command] = [line.strip() for line in shown.splitlines() if line.strip().startswith("bkaudit ")]
    assert command == f"bkaudit decommission {run.path} a --format csv"
    assert "to print all of them, run:" in shown
    refused = CliRunner().invoke(main, ["decommission", run.path, "a", "--table", "topics"])
    assert (refused.exit_code, "--format text is not a table" in refused.stderr) == (2, True)


@pytest.mark.parametrize("width", [60, 100])
def test_answer_text_fits_the_terminal_width(said: Rehearse, width: int) -> None:
    rehearsal = said(PLAIN, ledger(3, "a", 1, 1), ledger(4, "ab", 2, 2, missing={"b": frozenset({4})}))
    lines = decommission_text(rehearsal, "bkaudit decommission RUN a", width).splitlines()
    assert max(len(line) for line in lines if "bkaudit " not in line) <= width


@pytest.mark.parametrize(
    ("blocked", "cause"),
    [
        pytest.param(ledger(3, "a", 1, 1), Cause.ONLY_COPY, id="bookkeeper 4872, 3583: Qw 1"),
        pytest.param(
            ledger(3, "ab", 2, 2, missing={"b": frozenset({4})}),
            Cause.UNREADABLE_ENTRY,
            id="3887: no mark says so",
        ),
        pytest.param(ledger(3, "abcdefgh", 3, 2), Cause.NO_SPARE_BOOKIE, id="3905, 4012: all bookies in it"),
        pytest.param(ledger(3, "ab", 2, 1, state="OPEN"), Cause.NO_QUORUM_COVERAGE, id="pulsar 13052: open"),
    ],
)
def test_blocking_ledger_is_reported_with_its_cause(blocked: Ledger, cause: Cause, said: Rehearse) -> None:
    rehearsal = said(PLAIN, blocked)
    assert causes(rehearsal) == [cause]
    assert rehearsal.exit_code == 1
    assert rehearsal.answer is (Answer.AFTER if cause is Cause.NO_QUORUM_COVERAGE else Answer.NEVER)
    assert [sample.ledger_id for sample in rehearsal.together.blockers[0].samples] == ["3"]
    assert rehearsal.together.work.ledgers == 1
    what_to_type = decommission_text(rehearsal).rpartition("\n\n")[2]
    assert what_to_type.startswith(
        "after the steps above" if cause is Cause.NO_QUORUM_COVERAGE else "no command yet"
    )


def test_segments_without_entries_do_not_block_decommissioning(said: Rehearse) -> None:
    """bookkeeper #3220: empty ledgers, and short ledgers that have no entry on the bookie."""
    empty, short = ledger(3, "abc", 3, 2, last=-1), ledger(4, "bca", 2, 2, last=0)
    rehearsal = said(PLAIN, empty, short, ledger(5, "abcdefgh", 3, 2, last=-1))
    work = rehearsal.together.work
    assert rehearsal.answer is Answer.NOW
    assert (work.ledgers, work.renamed, work.renamed_stuck) == (1, 3, 1)
    assert "1 ledger has no spare bookie and still names it" in " ".join(decommission_text(rehearsal).split())


def test_printed_command_has_the_bookieid_flag_and_is_absent_when_blocked(said: Rehearse) -> None:
    """Without the flag the command ignores the id and decommissions the local bookie (pulsar #21607)."""
    assert decommission_text(said(PLAIN)).endswith("bookkeeper shell decommissionbookie -bookieid a")
    assert "decommissionbookie" not in decommission_text(said(ledger(3, "a", 1, 1)))


DISABLED = {"fact": "replication-disabled", "value": "true"}
VOTE = {"fact": "auditor", "value": "b"}
MARK = {"kind": "mark", "ledger_id": 9, "path": "urL9", "replicas": ["h"], "misplaced": False}


@pytest.mark.parametrize(
    ("tables", "cause", "answer"),
    [
        ({"cluster": [VOTE, DISABLED]}, Cause.REPLICATION_OFF, Answer.AFTER),
        ({"cluster": []}, Cause.NO_AUDITOR, Answer.AFTER),
        ({"cluster": [VOTE | {"value": "a"}]}, Cause.NO_AUDITOR, Answer.AFTER),
        ({"facts": {"keeps_marks": False}}, Cause.NO_MARKS, Answer.NEVER),
        ({"marks": [MARK | {"ctime": SCANNED - 25 * HOUR}]}, Cause.IDLE_WORKERS, Answer.AFTER),
    ],
)
def test_cluster_without_working_replication_blocks_decommissioning(
    tables: dict[str, Any], cause: Cause, answer: Answer, said: Rehearse
) -> None:
    rehearsal = said(PLAIN, **tables)
    assert (causes(rehearsal), rehearsal.answer, rehearsal.exit_code) == ([cause], answer, 1)


def test_young_or_locked_marks_do_not_block_decommissioning(said: Rehearse) -> None:
    old = MARK | {"ctime": SCANNED - 25 * HOUR}
    assert said(PLAIN, marks=[MARK | {"ctime": SCANNED - HOUR}]).answer is Answer.NOW
    locked = {"kind": "lock", "ledger_id": 9, "path": "lock", "ctime": SCANNED - HOUR, "misplaced": False}
    assert said(PLAIN, marks=[old, locked]).answer is Answer.NOW


def test_decommissioning_without_ledgers_to_move_still_needs_an_auditor(said: Rehearse) -> None:
    elsewhere = ledger(3, "bcd", 3, 2)
    assert causes(said(elsewhere, cluster=[])) == [Cause.NO_AUDITOR]
    assert said(elsewhere, marks=[MARK | {"ctime": SCANNED - 25 * HOUR}]).answer is Answer.NOW


@pytest.mark.parametrize(
    ("target", "tables"),
    [
        pytest.param(PLAIN, {"facts": {"gaps": ["/ledgers/00"]}}, id="a gap"),
        pytest.param(
            PLAIN, {"facts": {"bookies_listed": {"hidden": "x", "unclear": []}}}, id="registrations"
        ),
        pytest.param(PLAIN, {"facts": {"bookies_listed": None}}, id="registrations of an old run"),
        pytest.param(PLAIN, {"facts": {"marks_listed": False}}, id="marks"),
        pytest.param(PLAIN, {"unread": "bc"}, id="no copy was seen"),
        pytest.param(ledger(1, "ab", 2, 2, unknown=frozenset("b")), {}, id="an unreadable index"),
        pytest.param(
            ledger(1, "ab", 2, 2, missing={"b": frozenset({4})}, doubted=True),
            {},
            id="a missing copy in doubt",
        ),
        pytest.param(
            # Entry 1 is on b and c alone: not to be copied, and in the batch that is.
            ledger(1, "abc", 2, 2, missing={"b": frozenset({1}), "c": frozenset({1})}),
            {},
            id="a loss beside",
        ),
    ],
)
def test_unread_data_makes_the_answer_unknown(target: Ledger, tables: dict[str, Any], said: Rehearse) -> None:
    rehearsal = said(target, **tables)
    assert (rehearsal.answer, rehearsal.exit_code) == (Answer.UNKNOWN, 3)
    assert "not known" in decommission_text(rehearsal)


HIDDEN = {"ids": "100", "reasons": ["/ledgers/00: not listed"]}


def test_undecidable_ledger_counts_once_and_hidden_ids_are_reported(said: Rehearse, tmp_path: Path) -> None:
    """Both commands count the same ledgers. Gaps and znodes that stand for no ledger do not count."""
    calm = said(PLAIN)
    assert (calm.answer, calm.together.doubts) == (Answer.NOW, ())
    rows: list[dict[str, Any]] = [
        {"ledger_id": 5, "status": "unreadable"},
        {"ledger_id": 6, "status": "broken", "undecidable": True},
        {"ledger_id": 7, "status": "misplaced", "low": 7, "high": 7},
        {"status": "misplaced"},
        {"status": "gap", "low": 0, "high": 99},
    ]
    write(tmp_path / "tables" / "ledgers", [{"scope_id": 0} | row for row in rows], LEDGERS, 1)
    for hidden in (None, HIDDEN):
        sample = report()
        facts: dict[str, Any] = {**CLEAN_FACTS, "in_doubt": hidden}
        whole = replace(sample, run=replace(sample.run, **facts))
        (tmp_path / "report.json").write_text(whole.to_json(), "utf-8")
        run = reopen_run(tmp_path)
        rehearsal, simulation = rehearse(run, ["a"]), simulate_failure(run, [(Level.BOOKIE, ["a"])])
        doubts = {doubt.what: doubt.number for doubt in rehearsal.together.doubts}
        assert doubts.pop("ledgers whose metadata does not show which bookies hold entries") == 2
        assert (simulation.doubts.ledgers, simulation.doubts.undecided) == (3, 2)
        assert doubts == (
            {"ledger ids that may exist in parts of the metadata that were not read": 100} if hidden else {}
        )
        assert ("ledgers may exist that could not be read: 100 ids" in simulation_text(simulation)) is bool(
            hidden
        )
        assert rehearsal.answer is Answer.UNKNOWN


def test_one_read_copy_is_enough_for_the_answer_now(said: Rehearse) -> None:
    assert said(PLAIN, unread="ab").answer is Answer.NOW


def test_blocker_takes_precedence_over_unknown_copies(said: Rehearse) -> None:
    assert said(ledger(3, "a", 1, 1), PLAIN, unread="bc").exit_code == 1


def placed(policy: Policy, racks: str, **settings: Any) -> dict[str, Any]:
    """Return facts and table of a placement. Digit N of ``racks`` is bookie N's rack; a blank is no rack."""
    rows: list[dict[str, Any]] = [
        {"bookie_id": name, "location": None if rack == " " else f"/r{rack}", "groups": [], "origin": "racks"}
        for name, rack in zip(BOOKIES, racks, strict=True)
    ]
    facts = {
        "policy": str(policy),
        "settings": PlacementSettings(policy, **settings).to_json(),
        "policy_origin": "--placement",
        "mapping_origin": "racks",
        "located": 8 - racks.count(" "),
        "unlocated": racks.count(" "),
        "own_groups": 0,
    }
    return {"facts": {"placement": facts}, "bookie_locations": rows}


def test_placement_policy_refuses_spares_only_when_racks_are_enforced(said: Rehearse) -> None:
    three = ledger(3, "abc", 3, 2)
    strict = said(three, **placed(Policy.RACK, "12323232", enforce_min_racks=True))
    assert (causes(strict), strict.answer) == ([Cause.NO_ALLOWED_SPARE], Answer.NEVER)
    loose = said(three, **placed(Policy.RACK, "12323232"))
    assert (causes(loose), loose.answer) == ([], Answer.NOW)
    own = said(three, **placed(Policy.RACK, "12312232", enforce_min_racks=True))
    assert (own.answer, own.together.candidates.least) == (Answer.NOW, 1)
    assert [load.bookie_id for load in own.together.loads if load.entries_written] == ["d"]


def test_missing_locations_make_the_answer_unknown_when_racks_are_enforced(said: Rehearse) -> None:
    three = ledger(3, "abc", 3, 2)
    for racks in ("1232323 ", "1231323 "):
        rehearsal = said(three, **placed(Policy.RACK, racks, enforce_min_racks=True))
        assert (rehearsal.answer, rehearsal.exit_code) == (Answer.UNKNOWN, 3)
    # Where it refuses nobody, they only say who is taken first.
    assert said(three, **placed(Policy.RACK, "1231323 ")).answer is Answer.NOW


def test_text_lists_topics_before_ledgers(said: Rehearse) -> None:
    names = {"tenant": "shop", "namespace": "orders", "standing": "owned", "borrowed": False}
    rows: list[dict[str, Any]] = [
        {"scope_id": 0, "ledger_id": id, "topic": topic, **names}
        for id, topic in ((2, "x"), (3, "x"), (4, "y"))
    ]
    rehearsal = said(ONLY, ledger(3, "a", 1, 1), ledger(4, "a", 1, 1), ledger(5, "a", 1, 1), ownership=rows)
    [blocker] = rehearsal.together.blockers
    assert [(row.topic, row.ledgers) for row in blocker.topics] == [
        ("shop/orders/x", 2),
        ("shop/orders/y", 1),
    ]
    assert [row.topic for row in blocker.samples] == [
        "shop/orders/x",
        "shop/orders/x",
        "shop/orders/y",
        None,
    ]
    text = decommission_text(rehearsal)
    assert text.index("shop/orders/x (2)") < text.index("2, 3, 4, 5")


def test_text_fits_80_columns_and_json_matches_its_schema(said: Rehearse) -> None:
    open_one = ledger(3, "abc", 3, 2, state="OPEN")
    runs = [
        said(PLAIN, open_one),
        said(PLAIN, ONLY, ledger(4, "ah", 2, 2), unread="bc", modes={"h": None}),
        said(PLAIN, ledger(4, "ab", 2, 2), asked="ab", cluster=[]),
        said(PLAIN, ledger(4, "bac", 2, 2), ledger(5, "ab", 2, 2), asked="ab"),
    ]
    for outcome in runs:
        assert max(map(len, decommission_text(outcome).splitlines())) <= 80
        several = replace(outcome, bookies=tuple(f"bookie-{number}.dc1.example:3181" for number in range(4)))
        assert max(map(len, decommission_text(several).splitlines()[:2])) <= 80
        jsonschema.validate(json.loads(decommission_json(outcome)), decommission_schema())
    assert runs[-1].answer is Answer.AFTER
    assert runs[-1].order == ("a", "b")
    assert "one by one" in decommission_text(runs[-1])


def test_copy_rate_gives_a_duration_estimate(tmp_path: Path) -> None:
    run = run_of(tmp_path, [PLAIN], ALL_WRITE, set())
    assert rehearse(run, ["a"]).seconds is None
    # 10 entries of 10 bytes, by two workers: one batch waits for a read and a write.
    assert rehearse(run, ["a"], bytes_per_second=10, round_trip_ms=1000).seconds == 30 + (2 + 10) / 2


def _command(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["decommission", *arguments])


def test_exit_code_of_the_command_follows_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: SCANNED + HOUR)
    run_of(tmp_path, [PLAIN, ledger(2, "b", 1, 1)], ALL_WRITE, set())
    run = str(tmp_path)
    outcome = _command(run, "a", "--format", "json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["answer"]) == (0, "now")
    assert _command(run, "a", "b").exit_code == 1
    for wrong in ((run,), (run, "nobody"), (run, "a", "--rate", "fast"), (str(tmp_path / "none"), "a")):
        assert _command(*wrong).exit_code == 2, wrong
    assert _command(run, "a", "--rate", "20M").exit_code == 0
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: SCANNED + 25 * HOUR)
    old = _command(run, "a")
    assert (old.exit_code, "decommissionbookie" in old.stdout) == (3, False)
