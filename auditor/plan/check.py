"""A plan asked again: per step still true, done, no longer true or not known. Nothing is ever applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from auditor.errors import UsageError
from auditor.model.plan import (
    OF_EACH_LEDGER,
    Condition,
    Fact,
    PlanCheck,
    PlannedLedger,
    PlanStep,
    RepairPlan,
    StepCheck,
    StepKind,
    StepState,
)
from auditor.plan.answers import Answers
from auditor.reports.plan import condition_text

_SAMPLES = 5
_SAY_IT = {
    Fact.NAMED: "an audit of the metadata",
    Fact.FINDING: "an audit with the bookie's directories",
    Fact.UNOWNED: "an audit with --owners",
}
"""What a store does not say, and which audit does."""


def ledgers_in(plan: RepairPlan) -> frozenset[int]:
    """All ledgers that its conditions are about."""
    return frozenset(int(ledger.ledger_id) for step in plan.steps for ledger in step.ledgers)


def check_plan(plan: RepairPlan, now: Answers) -> PlanCheck:
    """Ask every condition of a plan of a cluster as it is now.

    Raises:
        UsageError: it is another cluster.
    """
    if None not in (plan.instance_id, now.instance_id) and plan.instance_id != now.instance_id:
        raise UsageError(f"{now.asked}: instance {now.instance_id}, and the plan is for {plan.instance_id}")
    return PlanCheck(now.asked, now.time, tuple(_check_step(step, now) for step in plan.steps))


def _check_step(step: PlanStep, now: Answers) -> StepCheck:
    states = {each.ledger_id: _ledger_state(step, each, now) for each in step.ledgers}
    counts = Counter(states.values())
    whole = [each for each in step.requires if each.fact not in OF_EACH_LEDGER]
    ends = [each for each in step.done_when if each.fact not in OF_EACH_LEDGER]
    each_ends = len(ends) < len(step.done_when)
    done = _all(holds(each, now, step.bookie_id) for each in ends)
    if each_ends:
        done = done and (counts[StepState.DONE] == len(states))
    why: list[str] = []
    if done and len(states) < step.ledger_count and each_ends:
        state = StepState.UNKNOWN
        why.append(f"the {len(states):,} that are listed are done, of {step.ledger_count:,}: plan again")
    elif done:
        state = StepState.DONE
    else:
        state, why = _open_state(step, whole, states, now)
    return StepCheck(
        step.number, step.kind, step.about, state, tuple(why),
        *(counts[each] for each in (StepState.DONE, StepState.TRUE, StepState.CHANGED, StepState.UNKNOWN)),
    )  # fmt: skip


def _open_state(
    step: PlanStep, whole: Iterable[Condition], states: dict[str, StepState], now: Answers
) -> tuple[StepState, list[str]]:
    """The state of a step that is not done, and why it is not still true."""
    answers = {each: holds(each, now, step.bookie_id) for each in whole}
    broken = [f"not so: {condition_text(each)}" for each, answer in answers.items() if answer is False]
    unknown = [f"not known: {condition_text(each)}" for each, answer in answers.items() if answer is None]
    for state, found, word in (
        (StepState.CHANGED, broken, "changed"), (StepState.UNKNOWN, unknown, "not known"),
    ):  # fmt: skip
        if ids := [id for id, each in states.items() if each is state]:
            more = f" and {len(ids) - _SAMPLES:,} more" if len(ids) > _SAMPLES else ""
            found.append(f"{word}: ledgers {', '.join(ids[:_SAMPLES])}{more}")
    if unknown and now.findings is None:
        facts = {each.fact for each in step.requires}
        for fact, audit in _SAY_IT.items():
            if fact in facts:
                unknown.append(f"a store does not say it, {audit} does: plan check --run")
    if now.time > step.expires:
        late = step.kind is StepKind.WAIT
        (broken if late else unknown).append(
            "AutoRecovery should have done it by now" if late else "its time is over: plan again"
        )
    if broken:
        return StepState.CHANGED, broken
    return (StepState.UNKNOWN, unknown) if unknown else (StepState.TRUE, [])


def _ledger_state(step: PlanStep, ledger: PlannedLedger, now: Answers) -> StepState:
    ends = [each for each in step.done_when if each.fact in OF_EACH_LEDGER]
    if ends and _all(holds_of(each, ledger, now) for each in ends):
        return StepState.DONE
    answer = _all(holds_of(each, ledger, now) for each in step.requires if each.fact in OF_EACH_LEDGER)
    return {True: StepState.TRUE, False: StepState.CHANGED, None: StepState.UNKNOWN}[answer]


def holds(condition: Condition, now: Answers, bookie: str | None = None) -> bool | None:
    """Whether a condition of no ledger holds; None: nobody knows. ``bookie`` is whom a finding is about."""
    of, value = condition.of, condition.value
    if condition.fact in (Fact.REGISTERED, Fact.COOKIE):
        there = now.registered if condition.fact is Fact.REGISTERED else now.cookies
        if of in there:
            return value == "yes" or there[of] == value
        known = now.bookies_listed and of not in now.unclear
        return value in ("no", "none") if known else None
    if condition.fact is Fact.NAMED:
        return None if now.named is None else (of in now.named) == (value == "yes")
    if condition.fact is Fact.FINDING:
        return _holds_finding(of, value, now, bookie)
    answer = now.replication if condition.fact is Fact.REPLICATION else now.auditor
    return None if answer is None else answer == value


def _holds_finding(of: str, value: str, now: Answers, bookie: str | None) -> bool | None:
    """Whether a finding is there, or gone: what was not looked at is neither."""
    id, _, fingerprint = of.partition(" ")
    if now.findings is None:
        return None
    if fingerprint in now.findings:
        return value == "there"
    return value == "gone" if id not in now.blind and bookie in now.read else None


def holds_of(condition: Condition, ledger: PlannedLedger, now: Answers) -> bool | None:
    """Whether a condition holds of one ledger; None: nobody knows. One that is deleted names nobody."""
    id, asked, wanted = int(ledger.ledger_id), now.ledgers, condition.value == "yes"
    row = asked.rows.get(id)
    if row is None and id in asked.unsure:
        return None
    match condition.fact:
        case Fact.LISTED:
            return (row is not None) == wanted
        case Fact.VERSION:
            return row is not None and (row.version, row.state) == (ledger.version, ledger.state)
        case Fact.NAMES:
            if row is not None and row.state is None:
                return None
            return (row is not None and condition.of in row.members) == wanted
        case Fact.QUEUED:
            named = row is not None and condition.of in row.members
            marked = None if asked.marked is None else id in asked.marked
            return wanted if not named else (None if marked is None else marked == wanted)
    of_fact = {Fact.MARKED: asked.marked, Fact.LOCKED: asked.locked, Fact.UNOWNED: asked.unowned}
    ids = of_fact[condition.fact]
    return None if ids is None else (id in ids) == wanted


def _all(answers: Iterable[bool | None]) -> bool | None:
    found = set(answers)
    if False in found:
        return False
    return None if None in found else True
