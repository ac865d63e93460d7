"""The declarations of an audit's stages fit together. Progress, stopping and the page follow from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from auditor.audit.audit import Audit, parse_stage
from auditor.audit.audit_stages import INITIAL_VALUES, STAGES
from auditor.audit.stages import Stage, run_stages, with_stages
from auditor.errors import UsageError
from auditor.model.audit_stage import AuditStage
from auditor.model.options import option_types
from auditor.model.progress import SilentProgress

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def output_types(stage: Stage) -> dict[str, Any]:
    """Return the type of each output of a stage."""
    product = get_type_hints(stage.function)["return"]
    if len(stage.outputs) == 1:
        return {stage.outputs[0]: product}
    assert product._fields == stage.outputs, stage.name
    return get_type_hints(product)


def test_each_stage_name_has_one_stage_in_enum_order() -> None:
    assert [stage.name for stage in STAGES] == list(AuditStage)
    assert STAGES[-1].name is AuditStage.WRITE_REPORT


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_parameters_of_a_function_are_the_inputs_of_its_stage(stage: Stage) -> None:
    assert tuple(inspect.signature(stage.function).parameters) == stage.inputs


def test_each_stage_input_is_an_initial_value_or_earlier_output_of_the_same_type() -> None:
    types: dict[str, Any] = {}
    for stage in STAGES:
        parameters = get_type_hints(stage.function)
        for name in stage.inputs:
            assert name in types or name in INITIAL_VALUES, (
                f"{stage.name} takes {name}, which no earlier stage makes"
            )
            assert types.setdefault(name, parameters[name]) == parameters[name], f"{stage.name}: {name}"
        for name, kind in output_types(stage).items():
            assert name not in types, f"{stage.name} makes {name} a second time"
            types[name] = kind


def test_each_output_is_read_by_a_later_stage() -> None:
    read = {name for stage in STAGES for name in stage.inputs}
    assert {name for stage in STAGES for name in stage.outputs} - read == {"report"}


def test_architecture_page_has_the_table_of_stages() -> None:
    """Run `python -m auditor.audit.audit_stages` to renew the table."""
    page = PAGE.read_text("utf-8")
    assert with_stages(page, STAGES) == page
    assert all(f"| `{stage}` |" in page for stage in AuditStage)


class RecordedProgress(SilentProgress):
    """Progress that records its stages and notes."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        self.stages.append(f"{number} of {total}: {name}")

    def note(self, text: str) -> None:
        self.notes.append(text)


def toy_stages(called: list[str]) -> tuple[Stage, ...]:
    def metadata(start: int) -> int:
        called.append("metadata")
        return start + 1

    def owners(start: int, first: int) -> tuple[int, int]:
        called.append("owners")
        return start, first + 1

    def indexes(second: int) -> int:
        called.append("indexes")
        return second + 1

    return (
        Stage(AuditStage.METADATA, "", ("start",), ("first",), metadata),
        Stage(AuditStage.OWNERS, "", ("start", "first"), ("same", "second"), owners),
        Stage(AuditStage.INDEXES, "", ("second",), ("third",), indexes),
    )


@pytest.fixture
def run_toys() -> Callable[..., tuple[dict[str, Any], list[str], RecordedProgress, list[AuditStage]]]:
    def run(last: AuditStage, finished_before: AuditStage | None = None) -> Any:
        called: list[str] = []
        saved: list[AuditStage] = []
        shown = RecordedProgress()
        values = run_stages(toy_stages(called), {"start": 1}, shown, last, finished_before, saved.append)
        return values, called, shown, saved

    return run


def test_stages_run_in_order_and_pass_their_values_on(run_toys: Callable[..., Any]) -> None:
    values, called, shown, saved = run_toys(AuditStage.INDEXES)
    assert values == {"start": 1, "first": 2, "same": 1, "second": 3, "third": 4}
    assert called == saved == ["metadata", "owners", "indexes"]
    assert shown.stages == ["1 of 3: metadata", "2 of 3: owners", "3 of 3: indexes"]
    assert shown.notes == []


def test_no_stage_runs_after_the_requested_last_stage(run_toys: Callable[..., Any]) -> None:
    values, called, _, saved = run_toys(AuditStage.OWNERS)
    assert called == saved == ["metadata", "owners"]
    assert "third" not in values


def test_resumed_run_reports_where_it_continues_and_saves_no_earlier_stage(
    run_toys: Callable[..., Any],
) -> None:
    _, called, shown, saved = run_toys(AuditStage.INDEXES, finished_before=AuditStage.OWNERS)
    assert called == ["metadata", "owners", "indexes"]  # their tables are there: they only give their values
    assert saved == ["indexes"]
    assert shown.notes == ["reusing the tables of an interrupted run; continuing with stage 3 of 3: indexes"]
    _, _, shown, saved = run_toys(AuditStage.METADATA, finished_before=AuditStage.OWNERS)
    assert (saved, shown.notes) == ([], [])  # nothing is left to do before that stage


def test_an_unknown_stage_is_wrong_usage_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="stage join: unknown; must be one of metadata, owners, indexes,"):
        Audit("dump:///nowhere").run_until("join")
    assert parse_stage("second-scan") is AuditStage.SECOND_SCAN


def test_stop_after_is_not_an_audit_option() -> None:
    """As an option it would be in the run's identity. The command without it would not continue the run."""
    assert "stop_after" not in option_types()
