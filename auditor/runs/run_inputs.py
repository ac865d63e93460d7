"""What finished runs were given to read, and what of one run's findings another one could not see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from auditor.actions.run_inputs import UNNAMED, RunInputs
from auditor.checks import ALL
from auditor.checks.needs import Need, Sight, lacks
from auditor.model.history import RunSummary
from auditor.model.owner_scope import MAX_DROPPED_SHARE, NOT_READ
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader
from auditor.tables.owner_stores import store_identity

KNOWN_INPUTS = "known_inputs"
"""The fact in a run's manifest.json that says the most that it or a run before it was given to read."""


def inputs_of_run(run: RunReader) -> tuple[RunInputs, RunInputs]:
    """Return what a run read because it was asked to, and the most that it or any run before it did.

    Raises:
        RunError: its manifest or a table of it cannot be read.
    """
    names, facts = run.table_names(), run.report.run
    stores = owner_identities(run.table("owner_stores").to_pylist() if "owner_stores" in names else ())
    has_gone = "gone_entries" in names and run.table("gone_entries", ["bookie_id"]).num_rows > 0
    inputs = RunInputs(int(facts.entry_logs), int(bool(facts.witness_asked)), stores, int(has_gone))
    carried = run.directory.read_manifest().get(KNOWN_INPUTS, {})
    known_stores = carried.get("owner_stores", ())
    if isinstance(known_stores, int):  # an earlier version counted them
        known_stores = (*stores, *[UNNAMED] * (known_stores - len(stores)))
    return inputs, inputs.joined(RunInputs(**carried | {"owner_stores": tuple(known_stores)}))


def owner_identities(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the identities of the stores of owners that were read, by rows of the table owner_stores.

    One whose lists lost ledgers that are still there may be another store under the same name.
    """
    identities = []
    for row in rows:
        has_lists = row["proof"] != NOT_READ and row["dropped"] <= MAX_DROPPED_SHARE * row["listed_before"]
        identity = row["identity"] if "identity" in row else store_identity(row["source"])
        # A store under a second name has none.
        if has_lists and identity is not None:
            identities.append(identity)
    return tuple(sorted(identities))


def checks_without_sight(sight: Sight) -> frozenset[str]:
    """Return the checks that saw nothing at all of what they need: what they do not find is not gone.

    Without a second scan nothing is seen to change, whatever the first one shows.
    """
    missing = {
        need
        for need, lack in lacks(sight).items()
        if lack.is_known and (not lack.where or need is Need.TWO_SCANS)
    }
    return frozenset(check.id for check in ALL if check.all_needs & missing)


def find_lost_inputs(
    run: RunDirectory, previous: RunSummary | None, inputs: RunInputs | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return checks and reasons of holds that this run could see less of than the previous one, and than any.

    Args:
        run: The run; its manifest then says the most that it or a run before it was given to read.
        previous: The run that it is compared with, None if there is none.
        inputs: What this run was given to read; None: as much as any run before.
    """
    if inputs is None:
        return frozenset(), frozenset()
    last = carried = RunInputs()
    if previous is not None:
        last, carried = inputs_of_run(RunReader(previous.path))
    run.add_to_manifest({KNOWN_INPUTS: asdict(carried.joined(inputs))})
    return inputs.reasons_unseen(last), inputs.reasons_unseen(carried)
