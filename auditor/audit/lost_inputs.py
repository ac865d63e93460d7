"""What an audit was not given to read that the runs before it were."""

from __future__ import annotations

from dataclasses import asdict

from auditor.actions.run_inputs import RunInputs
from auditor.audit.landing import Landing
from auditor.model.history import RunSummary
from auditor.runs.reader import RunReader
from auditor.runs.run_inputs import KNOWN_INPUTS, inputs_of_run


def find_lost_inputs(
    landing: Landing, previous: RunSummary | None, inputs: RunInputs | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return checks and reasons of holds that this run could see less of than the previous one, and than any.

    Args:
        landing: The run; its manifest then says the most that it or a run before it was given to read.
        previous: The run that it is compared with, None if there is none.
        inputs: What this run was given to read; None: as much as any run before.
    """
    if inputs is None:
        return frozenset(), frozenset()
    last = known = RunInputs()
    if previous is not None:
        last, known = inputs_of_run(RunReader(previous.path))
    landing.run.add_to_manifest({KNOWN_INPUTS: asdict(known.joined(inputs))})
    return inputs.reasons_unseen(last), inputs.reasons_unseen(known)
