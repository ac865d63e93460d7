"""Renderers of a repair plan and of the check of a plan: text for a terminal, Markdown for a ticket, JSON."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from auditor.model.amounts import first_names, format_time, plural, size
from auditor.model.holds import ActionKind
from auditor.model.plan import (
    CommandRole,
    Condition,
    Fact,
    PlanCheck,
    PlanFinding,
    PlanStep,
    RefusedStep,
    RepairPlan,
    StepCheck,
    StepState,
    UnplannedCount,
)
from auditor.reports.plain_text import fold_text, labelled_lines, printable

PLAN_CHECK_SCHEMA = "bookkeeper-auditor/plan-check/2"
WIDTH = 80
_MAX_ROWS_SHOWN = 8
_INDENT = "   "
_ID_PLACEHOLDER = re.compile(r"\bID\b")


def plan_text(plan: RepairPlan, now_ms: int | None = None, width: int = WIDTH) -> str:
    """Return the plan's steps in order, its refused steps, and the findings without a step.

    Args:
        plan: The plan.
        now_ms: Current time in ms since 1970, UTC. If the plan has expired by then, the page begins with a
            line that says so. None: do not check the expiry.
        width: Columns of a line. Commands are never folded.
    """
    basis_text = printable(f"{plan.run}, as of {format_time(plan.scan_time)}; {plan.metadata_uri}")
    lines = [*_fold_lines(_headline(plan, now_ms), width), *labelled_lines("rests on", basis_text, width)]
    for step in plan.steps:
        lines += ["", *_step_lines(step, width)]
    if plan.refused:
        lines += ["", "refused"]
        for refused_step in plan.refused:
            lines += _refused_lines(refused_step, width)
    if plan.without_step:
        lines += ["", *labelled_lines("no step", _unplanned_counts_text(plan.without_step), width)]
    if plan.accepted:
        lines += [
            "",
            *labelled_lines("accepted", f"by suppressions: {_unplanned_counts_text(plan.accepted)}", width),
        ]
    return "\n".join(lines)


def plan_json(plan: RepairPlan, now_ms: int | None = None) -> str:
    """Return the plan as one JSON object, with the time when the plan expires. ``now_ms`` is unused."""
    return json.dumps(asdict(plan), indent=2, ensure_ascii=False)


def plan_markdown(plan: RepairPlan, now_ms: int | None = None) -> str:
    """Return the plan as a Markdown list of tasks. Each step has a check box, and commands are code."""
    return "\n".join(_markdown_lines(plan, now_ms))


def check_text(plan_check: PlanCheck, width: int = WIDTH) -> str:
    """Return the lines on each step: its state, such as done or no longer true, and the reasons."""
    lines = _fold_lines(expired_text(plan_check.expires), width) if plan_check.expired else []
    lines += [*fold_text(f"asked {plan_check.asked}, as of {format_time(plan_check.time)}", width), ""]
    for step in plan_check.steps:
        lines += _fold_lines(f"{step.number}. {step.state}: {step.about}", width)
        if counts := _step_counts_text(step):
            lines += fold_text(counts, width, _INDENT, _INDENT)
        for reason_text in step.why:
            lines += fold_text(reason_text, width, _INDENT, f"{_INDENT}  ")
    return "\n".join([*lines, *(["no step"] if not plan_check.steps else [])])


def check_json(plan_check: PlanCheck) -> str:
    """Return the check as one JSON object with every step."""
    json_head = {"schema": PLAN_CHECK_SCHEMA, "exit_code": plan_check.exit_code}
    return json.dumps(json_head | asdict(plan_check), indent=2, ensure_ascii=False)


def check_markdown(plan_check: PlanCheck) -> str:
    """Return the check as a Markdown list of tasks. The check box of each step that is done is ticked."""
    lines = [f"**{expired_text(plan_check.expires)}**", ""] if plan_check.expired else []
    lines += [f"Asked {_code_span(plan_check.asked)}, as of {format_time(plan_check.time)}.", ""]
    for step in plan_check.steps:
        check_mark = "x" if step.state is StepState.DONE else " "
        reason_text = "; ".join([*filter(None, [_step_counts_text(step)]), *step.why])
        lines.append(
            f"- [{check_mark}] **{step.number}. {step.state}**: {_escape(step.about)}"
            + _escape(f" ({reason_text})" * bool(reason_text))
        )
    return "\n".join(lines)


def condition_text(condition: Condition) -> str:
    """Return a condition as a sentence.

    >>> condition_text(Condition(Fact.REGISTERED, "bk-1:3181", "no"))
    'bk-1:3181 is not registered'
    """
    true_sentence, false_sentence = _CONDITION_SENTENCES[condition.fact]
    sentence = false_sentence if condition.value in ("no", "none", "off", "gone") else true_sentence
    return printable(sentence.format(of=condition.of, value=condition.value))


_CONDITION_SENTENCES = {
    Fact.REGISTERED: ("{of} is registered ({value})", "{of} is not registered"),
    Fact.COOKIE: ("{of} has its cookie ({value})", "{of} has no cookie"),
    Fact.REPLICATION: ("replication is switched {value}", "replication is switched off"),
    Fact.AUDITOR: ("an auditor is {value}", "no auditor is elected"),
    Fact.IN_ANY_LEDGER: ("some ledger's ensembles contain {of}", "no ledger's ensembles contain {of}"),
    Fact.FINDING: ("the finding {of} is present", "the finding {of} is no longer present"),
    Fact.VERSION: ("each ledger has the version and state {value}", "the ledgers changed"),
    Fact.LISTED: ("the store has the ledger", "the store has no such ledger"),
    Fact.IN_ENSEMBLE: ("the ledger's ensembles contain {of}", "the ledger's ensembles do not contain {of}"),
    Fact.MARKED_OR_DONE: ("the ledger is marked underreplicated, or its ensembles no longer contain {of}",
        "the ledger is not marked, and its ensembles contain {of}",
    ),
    Fact.MARKED: ("the ledger is marked underreplicated", "the ledger is not marked underreplicated"),
    Fact.LOCKED: ("a worker has locked the ledger", "no worker has locked the ledger"),
    Fact.UNOWNED: ("no owner refers to the ledger", "an owner refers to the ledger"),
}  # fmt: skip


def expired_text(expires: int) -> str:
    """Return the first line of a plan that has expired.

    >>> expired_text(0)
    'expired at 1970-01-01 00:00:00 UTC: carry out no step; audit and plan again'
    """
    return f"expired at {format_time(expires)}: carry out no step; audit and plan again"


def _headline(plan: RepairPlan, now_ms: int | None) -> str:
    if now_ms is not None and now_ms > plan.expires:
        return (
            f"{expired_text(plan.expires)} ({plural(len(plan.steps), 'step')}, {len(plan.refused)} refused)"
        )
    step_count = sum(step.kind is not ActionKind.WAIT for step in plan.steps)
    wait_count = len(plan.steps) - step_count
    headline = f"{plural(step_count, 'step')} to do, {wait_count} waiting, {len(plan.refused)} refused"
    return headline if plan.complete else f"{headline}; the run was incomplete, so more steps may be needed"


def _step_lines(step: PlanStep, width: int) -> Iterator[str]:
    yield from _fold_lines(f"{step.number}. {step.kind}: {step.about}", width)
    for command in step.commands:
        if command.role is not CommandRole.UNDO:
            # A command is never folded, so that a user can copy it.
            yield f"{_INDENT}{command.role:<9}{printable(command.text)}"
    if ledgers_text := _ledgers_text(step):
        yield from _labelled_lines("ID" if _has_command_per_ledger(step) else "ledgers", ledgers_text, width)
    for needed_check in step.needs:
        yield from _labelled_lines("check", needed_check, width)
    yield from _labelled_lines("if", "; ".join(map(condition_text, step.requires)) or "no condition", width)
    yield from _labelled_lines(
        "then", step.effect + (f" (at most {size(step.bytes)})" if step.bytes else ""), width
    )
    yield from _labelled_lines("risk", step.risk, width)
    yield from _labelled_lines("undo", step.undo, width)
    yield from (
        f"{_INDENT}{'':<9}{step_command.text}"
        for step_command in step.commands
        if step_command.role is CommandRole.UNDO
    )
    yield from _labelled_lines(
        "again" if step.kind is ActionKind.WAIT else "until", format_time(step.expires), width
    )
    yield from _labelled_lines("for", _findings_text(step.findings), width)


def _has_command_per_ledger(step: PlanStep) -> bool:
    return any(_ID_PLACEHOLDER.search(command.text) for command in step.commands)


def _ledgers_text(step: PlanStep) -> str:
    if not step.ledger_count:
        return ""
    ledgers_text = ", ".join(ledger.ledger_id for ledger in step.ledgers[:_MAX_ROWS_SHOWN])
    hidden_count = step.ledger_count - min(len(step.ledgers), _MAX_ROWS_SHOWN)
    listed_clause = f", {len(step.ledgers):,} of them listed" if len(step.ledgers) < step.ledger_count else ""
    each_ledger_prefix = "each of " if _has_command_per_ledger(step) and step.ledger_count > 1 else ""
    return f"{each_ledger_prefix}{ledgers_text}" + (
        f" and {hidden_count:,} more{listed_clause}" if hidden_count else ""
    )


def _findings_text(findings: Sequence[PlanFinding]) -> str:
    """Return the ids of checks, each with the number of findings and the first fingerprints."""
    return "; ".join(
        f"{plural(finding.count, 'finding')} {finding.id} ({fingerprints_text(finding)})"
        for finding in findings
        if finding.count
    )


def fingerprints_text(finding: PlanFinding) -> str:
    """Return the first fingerprints of a check's findings, and the number of further findings.

    >>> fingerprints_text(PlanFinding("orphan-ledger", 7, ("a2b8aa759ab37bdf",)))
    'a2b8aa759ab37bdf and 6 more'
    """
    return first_names(finding.fingerprints, len(finding.fingerprints), finding.count)


def _refused_lines(refused_step: RefusedStep, width: int) -> Iterator[str]:
    yield from fold_text(f"{refused_step.reason}: {refused_step.about}", width, "  ", "    ")
    yield from _labelled_lines("why", refused_step.why, width, "    ")
    if refused_step.ledgers:
        ledgers_text = first_names(refused_step.ledgers, len(refused_step.ledgers), refused_step.ledger_count)
        yield from _labelled_lines("ledgers", ledgers_text, width, "    ")
    yield from _labelled_lines("way out", refused_step.way_out, width, "    ")


def _unplanned_counts_text(counts: Sequence[UnplannedCount]) -> str:
    return ", ".join(f"{count.count:,} {count.id}" for count in counts)


def _fold_lines(text: str, width: int) -> list[str]:
    return fold_text(text, width, later_indent=_INDENT)


def _labelled_lines(line_label: str, text: str, width: int, indent: str = _INDENT) -> list[str]:
    return labelled_lines(line_label, text, width, indent=indent, columns=9)


def _step_counts_text(step: StepCheck) -> str:
    counts_by_state = {
        "done": step.ledgers_done, "still true": step.ledgers_true, "no longer true": step.ledgers_changed,
        "not known": step.ledgers_unknown,
    }  # fmt: skip
    counts = [f"{number:,} {state_text}" for state_text, number in counts_by_state.items() if number]
    return f"ledgers: {', '.join(counts)}" if counts else ""


def _markdown_lines(plan: RepairPlan, now_ms: int | None) -> Iterator[str]:
    yield f"**{_headline(plan, now_ms)}**"
    yield ""
    yield f"Based on {_code_span(plan.run)}, as of {format_time(plan.scan_time)}."
    for step in plan.steps:
        yield ""
        yield f"- [ ] **{step.number}. {step.kind}**: {_escape(step.about)}"
        yield from (f"    - {command.role}: {_code_span(command.text)}" for command in step.commands)
        if ledgers_text := _ledgers_text(step):
            yield f"    - {'ID: ' if _has_command_per_ledger(step) else 'ledgers: '}{ledgers_text}"
        for line_label, item_text in (
            *(("check first", needed_check) for needed_check in step.needs),
            ("if", "; ".join(map(condition_text, step.requires))),
            ("then", step.effect), ("risk", step.risk), ("undo", step.undo),
            ("look again" if step.kind is ActionKind.WAIT else "until", format_time(step.expires)),
        ):  # fmt: skip
            yield f"    - {line_label}: {_escape(item_text)}"
    if plan.refused:
        yield ""
        yield "Refused:"
        yield ""
        for refused_step in plan.refused:
            refused_text = (
                f"{_escape(refused_step.about)}: {_escape(refused_step.why)}. {_escape(refused_step.way_out)}"
            )
            yield f"- **{refused_step.reason}**: {refused_text}"
    for line_label, counts in (
        ("No step for", plan.without_step),
        ("Accepted by suppressions", plan.accepted),
    ):
        if counts:
            yield ""
            yield f"{line_label}: {_escape(_unplanned_counts_text(counts))}."


def _code_span(text: str) -> str:
    text = printable(text)
    code_fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{code_fence} {text} {code_fence}" if len(code_fence) > 1 else f"`{text}`"


def _escape(text: str) -> str:
    return re.sub(r"([\\*_\[\]<>|#])", r"\\\1", printable(text))
