"""A plan from a finished run: every finding becomes a step, a refusal, or is counted as without one."""

from __future__ import annotations

from dataclasses import replace

from auditor.model.plan import PLAN_SCHEMA, PlanStep, RefusedStep, RepairPlan, StepKind, UnplannedCount
from auditor.plan.bookie_steps import make_cookies, rebuild_indexes, retire_bookies, stop_collection
from auditor.plan.ledger_steps import delete_ledgers, restore_metadata
from auditor.plan.replication_steps import replication_steps
from auditor.plan.situation import Situation
from auditor.runs.reader import RunReader

_MAKERS = (
    stop_collection, restore_metadata, make_cookies, rebuild_indexes, replication_steps, retire_bookies,
    delete_ledgers,
)  # fmt: skip


def make_plan(run: RunReader) -> RepairPlan:
    """Plan the repair of what a run found; steps come in the order of `StepKind`.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    now = Situation(run)
    made = [each for maker in _MAKERS for each in maker(now)]
    order = list(StepKind)
    steps = sorted(
        (each for each in made if isinstance(each, PlanStep)),
        key=lambda step: (order.index(step.kind), step.bookie_id or "", step.about),
    )
    report = run.report
    return RepairPlan(
        schema=PLAN_SCHEMA,
        run=run.path,
        version=report.run.version,
        metadata_uri=report.cluster.metadata_uri,
        instance_id=report.cluster.instance_id,
        scan_time=report.run.scan_time,
        complete=report.complete,
        steps=tuple(replace(step, number=number) for number, step in enumerate(steps, 1)),
        refused=tuple(each for each in made if isinstance(each, RefusedStep)),
        without_step=now.without_step(),
        accepted=tuple(UnplannedCount(id, number) for id, number in now.accepted.items() if number),
    )
