"""Inputs of finished runs, such as entry logs and owner stores, and the checks that lost input.

A check lost input if the run had less input for it than an earlier run. If the run then lacks an earlier
finding of this check, the finding does not count as fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from auditor.actions.run_inputs import UNNAMED_STORE, RunInputs
from auditor.checks import ALL_CHECKS
from auditor.checks.needs import AvailableInputs, Need, unmet_needs
from auditor.model.history import RunSummary
from auditor.model.owner_scope import MAX_DROPPED_LEDGER_SHARE, NOT_READ
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader
from auditor.tables.owner_stores import make_store_identity

KNOWN_INPUTS = "known_inputs"
"""Key in manifest.json of the union of the inputs of a run and of all runs before it."""


def read_run_inputs(run: RunReader) -> tuple[RunInputs, RunInputs]:
    """Return the inputs of a run, and the union of the inputs of that run and all runs before it.

    Raises:
        RunError: the manifest or a table of the run cannot be read.
    """
    table_names, run_facts = run.table_names(), run.report.run
    owner_stores = owner_identities(
        run.table("owner_stores").to_pylist() if "owner_stores" in table_names else ()
    )
    has_gone_entries = "gone_entries" in table_names and run.table("gone_entries", ["bookie_id"]).num_rows > 0
    inputs = RunInputs(
        int(run_facts.entry_logs), int(bool(run_facts.witness_asked)), owner_stores, int(has_gone_entries)
    )
    known_inputs = run.directory.read_manifest().get(KNOWN_INPUTS, {})
    known_owner_stores = known_inputs.get("owner_stores", ())
    if isinstance(known_owner_stores, int):  # an earlier version counted them
        known_owner_stores = (*owner_stores, *[UNNAMED_STORE] * (known_owner_stores - len(owner_stores)))
    return inputs, inputs.merge_inputs(
        RunInputs(**known_inputs | {"owner_stores": tuple(known_owner_stores)})
    )


def owner_identities(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the identities of the stores of ledger owners that were read, from rows of ``owner_stores``.

    A store is left out if too many existing ledgers have vanished from its lists. It may then be a
    different store with the same name.
    """
    identities = []
    for row in rows:
        has_complete_lists = (
            row["proof"] != NOT_READ and row["dropped"] <= MAX_DROPPED_LEDGER_SHARE * row["listed_before"]
        )
        identity = row["identity"] if "identity" in row else make_store_identity(row["source"])
        # A store under a second name has none.
        if has_complete_lists and identity is not None:
            identities.append(identity)
    return tuple(sorted(identities))


def find_checks_without_input(inputs: AvailableInputs) -> frozenset[str]:
    """Return the checks for which a required input was missing altogether.

    These checks report nothing in the run, but their earlier findings do not count as fixed. If there was
    no second scan, the checks that compare two scans are always included.
    """
    missing_inputs = {
        input_need
        for input_need, missing_input in unmet_needs(inputs).items()
        if missing_input.is_known and (not missing_input.affected_part or input_need is Need.TWO_SCANS)
    }
    return frozenset(check.id for check in ALL_CHECKS if check.all_needs & missing_inputs)


def find_lost_inputs(
    run: RunDirectory, previous_run: RunSummary | None, inputs: RunInputs | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return two sets of check ids and hold reasons: those that had less input than before.

    A hold reason is a reason to forbid an action. The checks and hold reasons in the first set had less
    input than in the previous run. Those in the second set had less input than in at least one earlier run.

    Args:
        run: The run. The union of its inputs and all earlier inputs is written into its manifest.
        previous_run: The run with which ``run`` is compared. None: there is none.
        inputs: The inputs of ``run``. None: assume that no input was lost.
    """
    if inputs is None:
        return frozenset(), frozenset()
    previous_inputs = inputs_of_all_runs = RunInputs()
    if previous_run is not None:
        previous_inputs, inputs_of_all_runs = read_run_inputs(RunReader(previous_run.path))
    run.add_to_manifest({KNOWN_INPUTS: asdict(inputs_of_all_runs.merge_inputs(inputs))})
    return inputs.reasons_lacking_input(previous_inputs), inputs.reasons_lacking_input(inputs_of_all_runs)
