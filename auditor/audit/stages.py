"""Stages of an audit: their declaration, the loop that runs them, and their table for the documents.

A stage is a function from the values of earlier stages to values of its own. The values have names. A stage
declares the names that it takes and the names that it gives, so that a test can prove that every value is
there when a stage needs it, and has the type that the function expects.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.model.audit_stage import AuditStage
from auditor.model.progress import Progress

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
        finished_before: The last stage that an interrupted run finished; its tables are there. None if the
            run is new.
        save_finished: Called after each stage that the interrupted run had not finished.
    """
    names = [stage.name for stage in stages]
    finished_count = 0 if finished_before is None else names.index(finished_before) + 1
    if 0 < finished_count < len(stages):
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
    """Return the table of docs/architecture.md: each stage with its values and the modules that it calls."""
    rows = (
        f"| {number} | `{stage.name}` | {stage.does} | {_words(stage.inputs)} | {_words(stage.outputs)} "
        f"| {_words(called_modules(stage))} |\n"
        for number, stage in enumerate(stages, 1)
    )
    return (
        "| | stage | what it does | takes | gives | calls |\n| --- | --- | --- | --- | --- | --- |\n"
        + "".join(rows)
    )


def with_stages(page: str, stages: Sequence[Stage]) -> str:
    """Return a page in which the table of stages is up to date.

    >>> with_stages("<!-- stages -->\\n\\n| old |\\n\\nEnd.\\n", []).splitlines()[2]
    '| | stage | what it does | takes | gives | calls |'
    """
    return _STAGE_TABLE.sub(lambda _: stage_table(stages), page)


def called_modules(stage: Stage) -> list[str]:
    """Return the modules of auditor/audit from which the function of a stage calls functions, in order."""
    own_globals, modules = vars(sys.modules[stage.function.__module__]), []
    for name in stage.function.__code__.co_names:
        module = getattr(own_globals.get(name), "__module__", None) or ""
        if module.startswith("auditor.audit.") and module != stage.function.__module__:
            modules.append(module.rpartition(".")[2])
    return list(dict.fromkeys(modules))


def _words(names: Sequence[str]) -> str:
    return ", ".join(names)
