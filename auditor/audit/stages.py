"""Stages of an audit: their declaration, the loop that runs them, and their table for the documentation.

A stage is a function that takes values of earlier stages, and returns new values. A stage declares the
names of its inputs and outputs. A test can therefore prove two facts about each input: the input exists when
the stage runs, and it has the type that the function expects.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.model.audit_stage import AuditStage
from auditor.model.progress import Progress

STAGE_FUNCTIONS = "auditor.audit.stage_functions"
"""Module with the functions of stages that call several modules."""

_STAGE_TABLE = re.compile(r"(?<=<!-- stages -->\n\n)(?:\|.*\n)*")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of an audit.

    Attributes:
        name: The name of the stage in progress output and in ``--stop-after``.
        description: What the stage does, in one line for operators.
        inputs: Names of the values that the function takes. They are the names of its parameters.
        outputs: Names of the values that the function returns. If there are several, it returns a named
            tuple with these fields.
        function: The work of the stage. It writes the tables of the stage that do not exist yet.
    """

    name: AuditStage
    description: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Any]

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Run the stage, and return its outputs by name. ``values`` has at least the stage's inputs."""
        output = self.function(**{name: values[name] for name in self.inputs})
        outputs = (output,) if len(self.outputs) == 1 else output
        return dict(zip(self.outputs, outputs, strict=True))


def run_stages(
    stages: Sequence[Stage],
    values: Mapping[str, Any],
    progress: Progress,
    last_stage: AuditStage,
    finished_stage: AuditStage | None,
    save_finished: Callable[[AuditStage], object],
) -> dict[str, Any]:
    """Run the stages up to and including ``last_stage``, and return all values by name.

    Args:
        stages: All stages, in order.
        values: The values that no stage produces.
        progress: Receives the number and name of each stage when the stage begins.
        last_stage: The last stage to run.
        finished_stage: The last stage that an interrupted run finished. The tables of the stages up to this
            one exist and are reused. None if there is no interrupted run.
        save_finished: Called after each stage that the interrupted run had not finished.
    """
    names = [stage.name for stage in stages]
    finished_count = 0 if finished_stage is None else names.index(finished_stage) + 1
    if 0 < finished_count <= names.index(last_stage):
        next_stage_text = f"stage {finished_count + 1} of {len(stages)}: {names[finished_count]}"
        progress.note(f"reusing the tables of an interrupted run; continuing with {next_stage_text}")
    values = dict(values)
    for stage_number, stage in enumerate(stages, 1):
        progress.stage(stage.name, stage_number, len(stages))
        values |= stage.run(values)
        if stage_number > finished_count:
            save_finished(stage.name)
        if stage.name == last_stage:
            break
    return values


def stage_table(stages: Sequence[Stage]) -> str:
    """Return the table of stages for docs/architecture.md, with the values and modules of each stage."""
    rows = (
        f"| {stage_number} | `{stage.name}` | {stage.description} | {_join_names(stage.outputs)} "
        f"| {_join_names(modules_of(stage))} |\n"
        for stage_number, stage in enumerate(stages, 1)
    )
    return "| | stage | what it does | gives | modules |\n| --- | --- | --- | --- | --- |\n" + "".join(rows)


def with_stages(page: str, stages: Sequence[Stage]) -> str:
    """Return the text of a page with its table of stages updated.

    >>> with_stages("<!-- stages -->\\n\\n| old |\\n\\nEnd.\\n", []).splitlines()[2]
    '| | stage | what it does | gives | modules |'
    """
    return _STAGE_TABLE.sub(lambda _: stage_table(stages), page)


def modules_of(stage: Stage) -> list[str]:
    """Return the names of the modules of auditor/audit that do the work of a stage.

    If the stage's function is in `STAGE_FUNCTIONS`, the result has the modules of the functions that the
    stage's function calls. Otherwise the result is the module of the stage's function itself.
    """
    module_name = stage.function.__module__
    if module_name != STAGE_FUNCTIONS:
        return [module_name.rpartition(".")[2]]
    names = vars(sys.modules[module_name])
    called_functions = [names.get(name) for name in stage.function.__code__.co_names]
    module_names = [function.__module__ for function in called_functions if inspect.isfunction(function)]
    return list(
        dict.fromkeys(
            stage_module.rpartition(".")[2]
            for stage_module in module_names
            if stage_module.startswith("auditor.audit.")
        )
    )


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names)
