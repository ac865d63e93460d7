"""Stages of an audit: their declaration, the loop that runs them, and their table for the documents.

A stage is a function of values of earlier stages, and returns new values. The values have names. A stage
declares the names of its inputs and outputs. A test can thus prove that every value exists when a stage needs
the value, and has the type that the function expects.
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
        name: The name that progress shows and ``--stop-after`` takes.
        does: What the stage does, in one line for operators.
        inputs: Names of the values that the function takes, which are its parameters.
        outputs: Names of the values that the function returns. If there are several, it returns a named tuple
            with these fields.
        function: The work of the stage. It writes the tables of the stage, or finds them written.
    """

    name: AuditStage
    does: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Any]

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of the stage by name. ``values`` has at least its inputs."""
        product = self.function(**{name: values[name] for name in self.inputs})
        products = (product,) if len(self.outputs) == 1 else product
        return dict(zip(self.outputs, products, strict=True))


def run_stages(
    stages: Sequence[Stage],
    values: Mapping[str, Any],
    progress: Progress,
    last: AuditStage,
    finished_before: AuditStage | None,
    save_finished: Callable[[AuditStage], object],
) -> dict[str, Any]:
    """Run the stages up to ``last``, and return all values by name.

    Args:
        stages: All stages, in order.
        values: The values that no stage makes.
        progress: Gets the number and name of each stage when it begins.
        last: The last stage to run.
        finished_before: The last stage that an interrupted run finished. The tables of this stage exist. None
            if the run is new.
        save_finished: Called after each stage that the interrupted run had not finished.
    """
    names = [stage.name for stage in stages]
    finished_count = 0 if finished_before is None else names.index(finished_before) + 1
    if 0 < finished_count <= names.index(last):
        place = f"stage {finished_count + 1} of {len(stages)}: {names[finished_count]}"
        progress.note(f"the tables of an interrupted run are kept; it continues with {place}")
    values = dict(values)
    for number, stage in enumerate(stages, 1):
        progress.stage(stage.name, number, len(stages))
        values |= stage.run(values)
        if number > finished_count:
            save_finished(stage.name)
        if stage.name == last:
            break
    return values


def stage_table(stages: Sequence[Stage]) -> str:
    """Return the table in docs/architecture.md, with the values and modules of each stage."""
    rows = (
        f"| {number} | `{stage.name}` | {stage.does} | {_words(stage.outputs)} "
        f"| {_words(modules_of(stage))} |\n"
        for number, stage in enumerate(stages, 1)
    )
    return "| | stage | what it does | gives | modules |\n| --- | --- | --- | --- | --- |\n" + "".join(rows)


def with_stages(page: str, stages: Sequence[Stage]) -> str:
    """Return a page in which the table of stages is up to date.

    >>> with_stages("<!-- stages -->\\n\\n| old |\\n\\nEnd.\\n", []).splitlines()[2]
    '| | stage | what it does | gives | modules |'
    """
    return _STAGE_TABLE.sub(lambda _: stage_table(stages), page)


def modules_of(stage: Stage) -> list[str]:
    """Return the modules of auditor/audit that do the work of a stage.

    For a function of `STAGE_FUNCTIONS`, these are the modules of the functions that it calls. For any other
    function, it is the function's own module.
    """
    home = stage.function.__module__
    if home != STAGE_FUNCTIONS:
        return [home.rpartition(".")[2]]
    names = vars(sys.modules[home])
    called = [names.get(name) for name in stage.function.__code__.co_names]
    homes = [function.__module__ for function in called if inspect.isfunction(function)]
    return list(dict.fromkeys(home.rpartition(".")[2] for home in homes if home.startswith("auditor.audit.")))


def _words(names: Sequence[str]) -> str:
    return ", ".join(names)
