"""Tests of each kind of step on real 4.17.2 bookies, typed as printed; the next audit shows its effect.

One cluster has all cases side by side (`tests.plan.lived`). Its second phase has no AutoRecovery.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from auditor.audit import owner_scan
from auditor.model.holds import ActionKind
from auditor.model.plan import RefusalReason, StepState
from auditor.tables import owner_stores, ownership
from tests.clusters.idle import audit
from tests.clusters.store import Store
from tests.plan.cluster import OperatedBookies
from tests.plan.lived import (
    COPIED,
    FORGOTTEN,
    GC,
    HELD_BACK,
    LOCATIONS,
    LOST_3,
    LOST_4,
    OFF_D,
    OPEN_D,
    RESTORED,
    SORTED,
    UNOWNED,
    ExecutedPlan,
    execute_plan,
    is_marking,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS = (
    ActionKind.RECOVER, ActionKind.STOP, ActionKind.RESTORE_METADATA, ActionKind.MAKE_COOKIE,
    ActionKind.REBUILD_INDEX, ActionKind.WAIT, ActionKind.DELETE_COOKIE, ActionKind.DELETE_LEDGER,
)  # fmt: skip
"""Kinds of steps that this cluster asks for."""


@pytest.fixture(scope="module")
def lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ExecutedPlan:
    def run_audit(store: Store, bookies: OperatedBookies, out: Path) -> Path:
        conf = str(bookies.collector_conf) if bookies.collector_conf else None
        sources = [str(bookies.directory)]
        hosts = store.uri.removeprefix("zk+hierarchical://").removesuffix("/ledgers")
        options: dict[str, Any] = {
            "owner_grace": 0.0,
            "owners_complete": f"pulsar:zk://{hosts}",
            "bookie_conf": conf,
            "entry_logs": True,  # without which no index is rebuilt
        }
        return audit(spark, store, sources, out, **options).out

    with pytest.MonkeyPatch.context() as patch:
        # Hours and days that no test can wait for: of a rollover, and after a list lost a ledger.
        patch.setattr(ownership, "ROLLOVER_MS", 0)
        patch.setattr(owner_scan, "ROLLOVER_MS", 0)
        patch.setattr(owner_stores, "DROPPED_MEMORY_MS", 0)
        return execute_plan(tmp_path_factory.mktemp("lived"), run_audit)


def objects_of(run: Path, ids: tuple[str, ...]) -> set[tuple[str, int | None, str | None]]:
    """Return the check, ledger and bookie of each finding of these checks."""
    rows = pq.read_table(run / "findings", columns=["id", "ledger_id", "bookie_id"]).to_pylist()
    return {(row["id"], row["ledger_id"], row["bookie_id"]) for row in rows if row["id"] in ids}


def test_plans_have_every_kind_of_step(lived: ExecutedPlan) -> None:
    kinds = [step.kind for step in (*lived.retiring.steps, *lived.plan.steps, *lived.alone.steps)]
    assert {*kinds} == {*KINDS}
    ledgers = {
        (step.kind, is_marking(step)): {int(planned.ledger_id) for planned in step.ledgers}
        for step in (*lived.retiring.steps, *lived.plan.steps)
        if step.ledgers
    }
    assert ledgers == {
        (ActionKind.RESTORE_METADATA, False): {RESTORED},
        (ActionKind.RECOVER, False): {COPIED},
        (ActionKind.WAIT, False): {HELD_BACK},
        (ActionKind.RECOVER, True): {LOST_3, LOST_4},
        (ActionKind.DELETE_LEDGER, False): {UNOWNED},
        (ActionKind.REBUILD_INDEX, False): {SORTED},
    }
    steps = [step for step in lived.plan.steps if step.kind is ActionKind.REBUILD_INDEX]
    rebuilt = {command.text for step in steps for command in step.commands}
    assert {
        "bookkeeper shell rebuild-db-ledgers-index", "bookkeeper shell rebuild-db-ledger-locations-index",
    } < rebuilt  # fmt: skip


def test_store_check_before_execution_finds_steps_still_valid(lived: ExecutedPlan) -> None:
    states = {step.kind: step.state for step in lived.asked.steps}
    of_disks = (ActionKind.STOP, ActionKind.REBUILD_INDEX, ActionKind.DELETE_LEDGER)
    assert {kind for kind, state in states.items() if state is StepState.UNKNOWN} == {*of_disks}
    assert {state for kind, state in states.items() if kind not in of_disks} == {StepState.STILL_VALID}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_next_audit_reports_every_step_as_done(kind: ActionKind, lived: ExecutedPlan) -> None:
    check = lived.after_retiring if kind is ActionKind.DELETE_COOKIE else lived.after
    states = {step.state for step in check.steps if step.kind is kind}
    assert states == {StepState.DONE}


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (ActionKind.STOP, ("gc-would-delete-live",)),
        (ActionKind.RESTORE_METADATA, ("owner-dangling",)),
        (ActionKind.MAKE_COOKIE, ("cookie-missing",)),
        (ActionKind.REBUILD_INDEX, ("index-unreadable", "ledger-not-indexed")),
        (None, ("mark-missing", "on-unregistered-bookie")),
        (ActionKind.RECOVER, ("below-ack-quorum",)),
        (ActionKind.DELETE_COOKIE, ("cookie-unused",)),
        (ActionKind.DELETE_LEDGER, ("ledger-unowned",)),
    ],
    ids=str,
)
def test_findings_behind_a_step_are_gone_after_it(
    kind: ActionKind | None, ids: tuple[str, ...], lived: ExecutedPlan
) -> None:
    is_undamaged = kind is ActionKind.DELETE_COOKIE or kind is None
    before = objects_of(lived.before if is_undamaged else lived.first, ids)
    assert {id for id, *_ in before} == set(ids)
    # A replication worker clears a mark once it can read a fragment's first and last entry.
    cleared = {("below-ack-quorum", HELD_BACK, None)} if kind is ActionKind.RECOVER else set()
    assert before & objects_of(lived.second, ids) == cleared


def test_bookies_have_the_entries_that_the_steps_restored(lived: ExecutedPlan) -> None:
    letter = {id: letter for letter, id in lived.bookies.items()}
    ledgers_by_letter = {letter[id]: ledgers for id, ledgers in lived.held.items()}
    whole = frozenset(range(10))
    for ledger in (COPIED, LOST_3, LOST_4, FORGOTTEN, SORTED, OFF_D, LOCATIONS):
        assert sum(ledgers.get(ledger) == whole for ledgers in ledgers_by_letter.values()) >= 2, ledger
    # its mark is gone, and yet nothing was copied
    assert sum(ledgers.get(HELD_BACK) == whole for ledgers in ledgers_by_letter.values()) == 1
    # the collector of e was held back, and the entry that only e has is there
    assert ledgers_by_letter["e"][GC] == whole
    assert all(ledgers_by_letter[name][RESTORED] == whole for name in "ab")


def test_the_cookie_lets_the_bookie_restart(lived: ExecutedPlan) -> None:
    assert lived.restarted


def test_recover_dry_run_prints_the_fragments(lived: ExecutedPlan) -> None:
    assert any("Fragment [0 - 9]" in printed for printed in lived.printed[ActionKind.RECOVER])


def test_recover_copies_ledgers_without_autorecovery(lived: ExecutedPlan) -> None:
    recovers = [step for step in lived.alone.steps if step.kind is ActionKind.RECOVER]
    copied = {int(part.ledger_id) for step in recovers for part in step.ledgers}
    assert OFF_D in copied
    stopped_bookie = lived.bookies["d"]
    for ledger in copied:
        assert stopped_bookie not in {name for _, part in lived.ledgers[ledger].segments for name in part}, (
            ledger
        )
    refused = [part for part in lived.alone.refused if part.kind is ActionKind.RECOVER]
    assert [part.ledger_count for part in refused if part.reason is RefusalReason.LIVE_WRITER] == [1]
    assert lived.ledgers[OPEN_D].state == "OPEN"  # its writer has it still


def test_deleted_cookie_is_restored_from_its_printed_text(lived: ExecutedPlan) -> None:
    assert lived.undone
