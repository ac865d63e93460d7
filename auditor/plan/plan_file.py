"""Make a plan from a finished run; write and read PLAN.toml, the file in which people review the plan.

Every finding belongs to a step or a refusal, or is counted as a finding without a step.

    # comment lines: one paragraph about the plan, and a line above each step
    schema = "bookkeeper-auditor/plan/2" ...
    [[steps]]            in order; times are TOML times, and unknown values have no key
    ledger_file = "plan.recover-3.csv"      for a step with more than `MAX_INLINE_LEDGERS` ledgers
    [[refused]]

Long sentences are split over several lines. The reader of the file replaces each line end with one space.
"""

import csv
import io
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from enum import StrEnum
from operator import methodcaller
from pathlib import Path
from typing import Any

import tomli_w

from auditor.errors import UsageError, path_error
from auditor.model.amounts import format_time, plural
from auditor.model.finding import Urgency
from auditor.model.holds import ActionKind
from auditor.model.json_shape import EPOCH, read_value
from auditor.model.plan import (
    PLAN_SCHEMA,
    PLAN_SCHEMAS,
    RENAMED_KINDS,
    PlannedLedger,
    PlanStep,
    RefusedStep,
    RepairPlan,
    UnplannedCount,
)
from auditor.plan.bookie_steps import make_cookies, retire_bookies, stop_bookies
from auditor.plan.index_steps import rebuild_indexes
from auditor.plan.ledger_steps import delete_ledgers, restore_metadata
from auditor.plan.lost_bookies import replication_steps
from auditor.plan.plan_facts import PlanFacts
from auditor.plan.start_steps import put_disks_back, start_bookies
from auditor.reports.plain_text import printable
from auditor.runs.reader import RunReader
from auditor.runs.whole_file import write_whole
from auditor.sources.regular_file import read_regular, read_toml

MAX_INLINE_LEDGERS = 20
"""Largest number of ledgers of a step in PLAN.toml itself. A longer list is in a file of its own."""

_UNKNOWN_COPIES_RANK = 1 << 30
"""Number by which a step with an unknown number of copies is sorted: more copies than any entry has."""
_LINE_WIDTH = 96
_TIME_KEYS = ("scan_time", "expires")
_LEDGER_LIST_COLUMNS = ("ledger_id", "version", "state")
_LEDGER_FILE_KEY = "ledger_file"


def write_plan(plan: RepairPlan, path: str) -> list[str]:
    """Write a plan and its lists of ledgers; return the paths of the written files, the plan last.

    Raises:
        OSError: a file could not be written.
    """
    plan_path, written_paths = Path(path), []
    ledger_file_by_step: dict[int, str] = {}
    for step in plan.steps:
        if len(step.ledgers) > MAX_INLINE_LEDGERS:
            file_name = f"{plan_path.stem}.{step.kind}-{step.number}.csv"
            ledger_file_by_step[step.number] = file_name
            file_text = _format_ledger_list(step.ledgers)
            write_whole(str(plan_path.with_name(file_name)), methodcaller("write", file_text))
            written_paths.append(str(plan_path.with_name(file_name)))
    write_whole(path, lambda plan_stream: plan_stream.write(plan_toml(plan, ledger_file_by_step).encode()))
    return [*written_paths, path]


def plan_toml(plan: RepairPlan, ledger_file_by_step: Mapping[int, str] | None = None) -> str:
    """Return the text of PLAN.toml.

    ``ledger_file_by_step`` has, by step number, the name of the file that lists the ledgers of the step. A
    step without a file has its ledgers in the text.
    """
    return "\n".join(_toml_sections(plan, ledger_file_by_step or {}))


def _toml_sections(plan: RepairPlan, ledger_file_by_step: Mapping[int, str]) -> Iterator[str]:
    plan_value = {
        field_name: field_value
        for field_name, field_value in asdict(plan).items()
        if field_name not in ("steps", "refused")
    }
    yield "# A repair plan: review it, and run bkaudit plan check before each step."
    yield "# No step has been carried out. bkaudit changes nothing; you carry out the steps."
    yield _format_comment(f"Made from {plan.run}, as of {format_time(plan.scan_time)}")
    yield _format_toml(plan_value)
    for step in plan.steps:
        yield _format_comment(f"{step.number}. {step.kind}: {step.about}")
        step_value = asdict(step)
        if step.number in ledger_file_by_step:
            del step_value["ledgers"]
            step_value[_LEDGER_FILE_KEY] = ledger_file_by_step[step.number]
        yield _format_toml({"steps": [step_value]})
    for refused_step in plan.refused:
        yield _format_comment(f"refused: {refused_step.kind}: {refused_step.about}")
        yield _format_toml({"refused": [asdict(refused_step)]})


def _format_comment(comment_text: str) -> str:
    return textwrap.fill(printable(comment_text), _LINE_WIDTH, initial_indent="# ", subsequent_indent="#    ")


def _format_toml(plan_value: dict[str, Any]) -> str:
    return tomli_w.dumps(_toml_value(plan_value), multiline_strings=True)


def _toml_value(plan_value: Any, key: str = "") -> Any:
    """Return a value for TOML.

    The value has no nulls, its times are TOML times, and its long texts are folded into lines.
    """
    if isinstance(plan_value, Mapping):
        return {
            field_name: _toml_value(field_value, field_name)
            for field_name, field_value in plan_value.items()
            if field_value is not None
        }
    if isinstance(plan_value, list | tuple):
        return [_toml_value(field_value) for field_value in plan_value]
    if key in _TIME_KEYS:
        return EPOCH + timedelta(milliseconds=plan_value)
    if (
        isinstance(plan_value, str)
        and key != "text"
        and len(plan_value) > _LINE_WIDTH
        and " ".join(plan_value.split()) == plan_value
    ):
        return "\n".join(
            textwrap.wrap(plan_value, _LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
        )
    return str(plan_value) if isinstance(plan_value, StrEnum) else plan_value


def _format_ledger_list(ledgers: tuple[PlannedLedger, ...]) -> bytes:
    file_text = io.StringIO()
    csv_rows = csv.writer(file_text, lineterminator="\n")
    csv_rows.writerow(_LEDGER_LIST_COLUMNS)
    csv_rows.writerows(
        ("" if cell_value is None else cell_value for cell_value in _ledger_row(ledger)) for ledger in ledgers
    )
    return file_text.getvalue().encode()


def _ledger_row(ledger: PlannedLedger) -> tuple[str | int | None, ...]:
    return ledger.ledger_id, ledger.version, ledger.state


def read_plan(path: str) -> RepairPlan:
    """Read a plan, with its lists of ledgers.

    Raises:
        UsageError: the file is not a plan, or a change made it invalid. The message names the line or the
            key.
    """
    plan_value = read_toml(path)
    schema = plan_value.get("schema")
    if schema not in PLAN_SCHEMAS:
        raise UsageError(
            f"{path}: schema: {schema!r:.60} is not {PLAN_SCHEMA}: this is no plan of this version"
        )
    _rename_action_kinds(plan_value)
    ledger_file_by_step = {
        step_number: step.pop(_LEDGER_FILE_KEY)
        for step_number, step in enumerate(
            plan_value.get("steps", ()) if isinstance(plan_value.get("steps"), list) else ()
        )
        if isinstance(step, dict) and _LEDGER_FILE_KEY in step
    }
    try:
        plan: RepairPlan = read_value(_unfold_value(plan_value), RepairPlan, "", allows_missing_keys=True)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    steps = list(plan.steps)
    for step_index, field_name in ledger_file_by_step.items():
        steps[step_index] = replace(
            steps[step_index],
            ledgers=_read_ledger_list(path, field_name, f"steps.{step_index}.{_LEDGER_FILE_KEY}"),
        )
    for step_index, step in enumerate(steps):
        if len(step.ledgers) > step.ledger_count or (step.ledger_count and not step.ledgers):
            raise UsageError(
                f"{path}: steps.{step_index}.ledger_count: {step.ledger_count}, but "
                f"the step lists {plural(len(step.ledgers), 'ledger')}"
            )
    return replace(plan, steps=tuple(steps))


def _rename_action_kinds(plan_value: dict[str, Any]) -> None:
    """Rename the kinds of steps that earlier versions wrote differently, and set the current schema."""
    for field_name in ("steps", "refused"):
        steps = plan_value.get(field_name)
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, dict) and step.get("kind") in RENAMED_KINDS:
                step["kind"] = str(RENAMED_KINDS[step["kind"]])
    plan_value["schema"] = PLAN_SCHEMA


def _read_ledger_list(path: str, file_name: Any, key: str) -> tuple[PlannedLedger, ...]:
    if not isinstance(file_name, str) or Path(file_name).name != file_name:
        raise UsageError(f"{path}: {key}: {file_name!r:.60} is not the name of a file beside the plan")
    file = Path(path).with_name(file_name)
    try:
        csv_rows = list(csv.reader(io.StringIO(read_regular(file).decode(), newline=""), strict=True))
    except OSError as error:
        raise path_error(error, f"{file}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file}: not a valid list of ledgers: {error}") from error
    if not csv_rows or tuple(csv_rows[0]) != _LEDGER_LIST_COLUMNS:
        raise UsageError(f"{file}: line 1: the columns are not {','.join(_LEDGER_LIST_COLUMNS)}")
    ledgers = []
    for line_number, step_value in enumerate(csv_rows[1:], 2):
        try:
            ledger, version, ledger_state = step_value
            ledgers.append(
                PlannedLedger(str(int(ledger)), int(version) if version else None, ledger_state or None)
            )
        except ValueError as error:
            raise UsageError(
                f"{file}: line {line_number}: {','.join(step_value)!r:.60} is no ledger"
            ) from error
    return tuple(ledgers)


def _unfold_value(plan_value: Any, key: str = "") -> Any:
    """Return a value with each folded sentence as one line. Texts with the key ``text`` stay unchanged."""
    if isinstance(plan_value, dict):
        return {
            field_name: _unfold_value(field_value, field_name)
            for field_name, field_value in plan_value.items()
        }
    if isinstance(plan_value, list):
        return [_unfold_value(field_value, key) for field_value in plan_value]
    return (
        " ".join(plan_value.split())
        if isinstance(plan_value, str) and "\n" in plan_value and key != "text"
        else plan_value
    )


# Bookies that must not stop yet, and those that start, are known before anything is copied.
_STEP_MAKERS = (
    stop_bookies, put_disks_back, start_bookies, restore_metadata, make_cookies, rebuild_indexes,
    replication_steps, retire_bookies, delete_ledgers,
)  # fmt: skip
_ACTION_KINDS = list(ActionKind)


def _sort_key(step: PlanStep) -> tuple[int, int, int, int, str, str]:
    """Return the sort key of a step: urgency, kind, copies (fewest first), then ledgers (most first)."""
    urgency_rank = Urgency(step.urgency or Urgency.NOT_URGENT).rank
    copies_rank = _UNKNOWN_COPIES_RANK if step.fewest_copies is None else step.fewest_copies
    kind_rank = _ACTION_KINDS.index(step.kind)
    return urgency_rank, kind_rank, copies_rank, -step.ledger_count, step.bookie_id or "", step.about


def make_plan(run: RunReader) -> RepairPlan:
    """Plan the repair of a run's findings.

    The most urgent steps come first. Steps of the same urgency are sorted by kind and number of copies.
    ``run.holds`` has the current time, and the rules that forbid actions. If the run's data is too old at
    this time, dangerous steps are refused.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    plan_facts = PlanFacts(run)
    all_steps = [step for step_maker in _STEP_MAKERS for step in step_maker(plan_facts)]
    steps = sorted((step for step in all_steps if isinstance(step, PlanStep)), key=_sort_key)
    run_report = run.report
    return RepairPlan(
        schema=PLAN_SCHEMA,
        run=run.path,
        version=run_report.run.version,
        metadata_uri=run_report.cluster.metadata_uri,
        instance_id=run_report.cluster.instance_id,
        scan_time=run_report.run.scan_time,
        complete=run_report.complete,
        steps=tuple(replace(step, number=step_number) for step_number, step in enumerate(steps, 1)),
        refused=tuple(step for step in all_steps if isinstance(step, RefusedStep)),
        without_step=plan_facts.count_findings_without_step(),
        accepted=tuple(
            UnplannedCount(check_id, step_number)
            for check_id, step_number in plan_facts.accepted_counts.items()
            if step_number
        ),
    )
