"""Tests that write PLAN.toml and read it back, and of the errors that damage of it causes."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from auditor.errors import UsageError
from auditor.model.holds import ActionKind
from auditor.model.plan import (
    PLAN_SCHEMA,
    CommandRole,
    Condition,
    Fact,
    PlanCommand,
    PlanFinding,
    PlannedLedger,
    PlanStep,
    RefusalReason,
    RefusedStep,
    RepairPlan,
    UnplannedCount,
)
from auditor.plan.plan_file import MAX_INLINE_LEDGERS, plan_toml, read_plan, write_plan

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=30)
SENTENCES = st.lists(WORDS, max_size=40).map(" ".join)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30).map(lambda text: text.replace("\n", " "))
COUNTS = st.integers(0, 2**40)
MOMENTS = st.integers(0, 4 * 10**12)
LEDGERS = st.builds(
    PlannedLedger,
    st.integers(0, 2**63 - 1).map(str),
    st.none() | COUNTS,
    st.none() | st.sampled_from(["OPEN", "CLOSED"]),
)
FINDINGS = st.lists(st.builds(PlanFinding, WORDS, COUNTS, st.lists(WORDS, max_size=2).map(tuple)), max_size=2)
CONDITIONS = st.lists(st.builds(Condition, st.sampled_from(Fact), TEXTS, TEXTS), max_size=2).map(tuple)
COMMANDS = st.lists(
    st.builds(PlanCommand, st.sampled_from(CommandRole), TEXTS, SENTENCES, WORDS), max_size=3
).map(tuple)
STEPS = st.builds(
    PlanStep,
    number=COUNTS,
    kind=st.sampled_from(ActionKind),
    urgency=st.none() | st.sampled_from(["lost", "rest"]),
    fewest_copies=st.none() | COUNTS,
    about=SENTENCES,
    findings=FINDINGS.map(tuple),
    bookie_id=st.none() | TEXTS,
    ledger_count=st.just(0),
    ledgers=st.lists(LEDGERS, max_size=3).map(tuple),
    commands=COMMANDS,
    needs=st.lists(SENTENCES, max_size=2).map(tuple),
    effect=SENTENCES,
    bytes=st.none() | COUNTS,
    risk=SENTENCES,
    undo=SENTENCES,
    expires=MOMENTS,
    requires=CONDITIONS,
    done_when=CONDITIONS,
).map(lambda step: replace(step, ledger_count=len(step.ledgers)))
REFUSALS = st.builds(
    RefusedStep,
    st.sampled_from(ActionKind),
    st.sampled_from(RefusalReason),
    SENTENCES,
    SENTENCES,
    SENTENCES,
    FINDINGS.map(tuple),
    COUNTS,
    st.lists(WORDS, max_size=3).map(tuple),
    st.lists(WORDS, max_size=3).map(tuple),
)
NUMBERS = st.lists(st.builds(UnplannedCount, WORDS, COUNTS), max_size=2).map(tuple)
PLANS = st.builds(
    RepairPlan,
    schema=st.just(PLAN_SCHEMA),
    run=TEXTS,
    version=WORDS,
    metadata_uri=TEXTS,
    instance_id=st.none() | TEXTS,
    scan_time=MOMENTS,
    complete=st.booleans(),
    steps=st.lists(STEPS, max_size=3).map(tuple),
    refused=st.lists(REFUSALS, max_size=2).map(tuple),
    without_step=NUMBERS,
    accepted=NUMBERS,
)


def step(**fields: object) -> PlanStep:
    plain = PlanStep(
        1, ActionKind.RECOVER, "near-loss", 1, "copy",
        (PlanFinding("below-write-quorum", 1, ("0" * 16,)),), "bk-1:3181", 1,
        (PlannedLedger("7", 3, "CLOSED"),),
        (PlanCommand(CommandRole.EXECUTE, "bookkeeper shell recover -l 7 bk-1:3181", "copies it", "writes"),),
        (), "all copies are there", 120, "load", "none", 1_795_000_000_000,
        (Condition(Fact.VERSION, "", "as listed"),), (Condition(Fact.IN_ENSEMBLE, "bk-1:3181", "no"),),
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type]  # fields of any type


def plan(*steps: PlanStep) -> RepairPlan:
    return RepairPlan(
        PLAN_SCHEMA, "runs/1", "0.1.0", "dump:///a", "id", 1_794_000_000_001, True, steps, (), (), ()
    )


@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(made=PLANS)
def test_plan_is_read_back_from_its_file(made: RepairPlan, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "round.toml"
    write_plan(made, str(path))
    assert read_plan(str(path)) == made


def test_many_ledgers_are_written_to_a_file_beside_the_plan(tmp_path: Path) -> None:
    ledgers = tuple(
        PlannedLedger(str(id), None if id % 3 else id, "CLOSED") for id in range(MAX_INLINE_LEDGERS + 1)
    )
    long_plan = plan(step(), step(number=2, ledger_count=5000, ledgers=ledgers))
    written = write_plan(long_plan, str(tmp_path / "plan.toml"))
    assert written == [str(tmp_path / "plan.recover-2.csv"), str(tmp_path / "plan.toml")]
    assert read_plan(written[1]) == long_plan
    assert "ledger_file" in Path(written[1]).read_text()


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("stop-collection", ActionKind.STOP),
        ("queue-again", ActionKind.RECOVER),
        ("delete-ledgers", ActionKind.DELETE_LEDGER),
        ("rebuild-index", ActionKind.REBUILD_INDEX),
    ],
)
def test_plans_of_the_earlier_schema_are_read(word: str, kind: ActionKind, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    refused = RefusedStep(ActionKind.START, RefusalReason.NO_COPY, "a", "b", "c", (), 0, ())
    text = plan_toml(replace(plan(step(urgency=None, fewest_copies=None)), refused=(refused,)))
    text = text.replace("plan/2", "plan/1").replace('"recover"', f'"{word}"').replace('"start"', f'"{word}"')
    path.write_text(text.replace("holds = []\n", ""))
    read = read_plan(str(path))
    assert (read.schema, read.steps[0].kind, read.refused[0].kind) == (PLAN_SCHEMA, kind, kind)
    assert (read.steps[0].urgency, read.refused[0].holds) == (None, ())


def test_plan_file_has_short_lines_and_utc_times() -> None:
    text = plan_toml(
        plan(step(effect="every entry of the ledger has as many copies as it was written with" * 3))
    )
    assert max(map(len, text.splitlines())) <= 110
    assert "# 1. recover: copy" in text
    assert tomllib.loads(text)["scan_time"].isoformat() == "2026-11-06T21:20:00.001000+00:00"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"recover"', '"recovr"', "steps.0.kind: 'recovr' is not one of recover, stop"),
        ("ledger_count = 1", 'ledger_count = "1"', "steps.0.ledger_count is not a number: '1'"),
        ("ledger_count = 1", "ledger_count = 0", "steps.0.ledger_count: 0, but the step lists 1 ledger"),
        ("ledger_count = 1", "ledger_count = 1\nledgrs = []", "steps.0.ledgrs: no such key"),
        ("complete = true", "", "complete: the key is missing"),
        ("complete = true", "complete = 1", "complete is not true or false: 1"),
        ("plan/2", "plan/3", "schema: 'bookkeeper-auditor/plan/3' is not bookkeeper-auditor/plan/2"),
        ("+00:00", "", "scan_time: the time has no time zone"),
        ("about = ", "about ", "at line "),
        ("complete = true", "complete = true\nrefused = 1", "refused is not a list: 1"),
    ],
)
def test_damaged_plan_is_refused_with_the_line_or_key(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.toml"
    text = plan_toml(plan(step()))
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=f"^{path}: .*{message}"):
        read_plan(str(path))


@pytest.mark.parametrize(
    ("list_", "message"),
    [
        ("ledger_id,version,state\n7,x,CLOSED\n", "line 2: '7,x,CLOSED' is no ledger"),
        ("ledger_id,version,state\n7\n", "line 2: '7' is no ledger"),
        ("ledger\n7\n", "line 1: the columns are not ledger_id,version,state"),
        (None, "No such file"),
    ],
)
def test_damaged_ledger_list_names_its_line(list_: str | None, message: str, tmp_path: Path) -> None:
    ledgers = tuple(PlannedLedger(str(id), 1, "CLOSED") for id in range(MAX_INLINE_LEDGERS + 1))
    list_file, path = write_plan(plan(step(ledger_count=50, ledgers=ledgers)), str(tmp_path / "plan.toml"))
    Path(list_file).unlink()
    if list_ is not None:
        Path(list_file).write_text(list_)
    with pytest.raises(UsageError, match=f"^{list_file}: .*{message}"):
        read_plan(path)


def test_ledger_list_outside_the_plan_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    text = plan_toml(plan(step(ledgers=(), ledger_count=30)), {1: "../other.csv"})
    path.write_text(text)
    with pytest.raises(UsageError, match=r"other\.csv' is not the name of a file beside the plan"):
        read_plan(str(path))
