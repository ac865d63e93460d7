"""Each kind of step on real bookies of 4.17.2: typed as it is printed, and the next audit shows its effect.

One cluster has all cases side by side (`tests.plan.lived`); a second phase of it has no AutoRecovery.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from auditor.model.plan import RefusalReason, StepKind, StepState
from tests.living.idle import audit
from tests.living.store import Store
from tests.plan.cluster import OperatedBookies
from tests.plan.lived import (
    COPIED,
    FORGOTTEN,
    GC,
    HELD_BACK,
    LOST_3,
    LOST_4,
    OFF_D,
    ONLY_D,
    OPEN_D,
    RESTORED,
    SORTED,
    UNOWNED,
    Lived,
    live,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lived:
    def audited(store: Store, bookies: OperatedBookies, out: Path) -> Path:
        conf = str(bookies.collector_conf) if bookies.collector_conf else None
        sources = [str(bookies.directory)]
        return audit(spark, store, sources, out, owner_grace=0.0, bookie_conf=conf).out

    return live(tmp_path_factory.mktemp("lived"), audited)


def objects_of(run: Path, ids: tuple[str, ...]) -> set[tuple[str, int | None, str | None]]:
    """What the findings of these checks are about: check, ledger, bookie."""
    rows = pq.read_table(run / "findings", columns=["id", "ledger_id", "bookie_id"]).to_pylist()
    return {(row["id"], row["ledger_id"], row["bookie_id"]) for row in rows if row["id"] in ids}


def test_a_plan_has_every_kind_of_step(lived: Lived) -> None:
    kinds = [step.kind for step in (*lived.retiring.steps, *lived.plan.steps, *lived.alone.steps)]
    assert {*kinds} == {*StepKind}
    ledgers = {
        step.kind: {int(each.ledger_id) for each in step.ledgers} for step in lived.plan.steps if step.ledgers
    }
    assert ledgers[StepKind.RESTORE] == {RESTORED}
    assert ledgers[StepKind.RECOVER] == {COPIED}
    assert ledgers[StepKind.WAIT] == {HELD_BACK}
    assert ledgers[StepKind.REQUEUE] == {LOST_3, LOST_4}
    assert ledgers[StepKind.DELETE] == {UNOWNED}
    assert ledgers[StepKind.REINDEX] == {SORTED}
    rebuilt = {
        each.text for step in lived.plan.steps if step.kind is StepKind.REINDEX for each in step.commands
    }
    assert {
        "bookkeeper shell rebuild-db-ledgers-index", "bookkeeper shell rebuild-db-ledger-locations-index",
    } < rebuilt  # fmt: skip


def test_before_it_is_typed_the_store_says_that_nothing_changed(lived: Lived) -> None:
    states = {each.kind: each.state for each in lived.asked.steps}
    of_disks = (StepKind.STOP_GC, StepKind.REINDEX, StepKind.DELETE)
    assert {kind for kind, state in states.items() if state is StepState.UNKNOWN} == {*of_disks}
    assert {state for kind, state in states.items() if kind not in of_disks} == {StepState.TRUE}


@pytest.mark.parametrize("kind", list(StepKind), ids=str)
def test_the_next_audit_shows_that_it_is_done(kind: StepKind, lived: Lived) -> None:
    check = lived.after_retiring if kind is StepKind.RETIRE else lived.after
    states = {each.state for each in check.steps if each.kind is kind}
    assert states == {StepState.DONE}


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (StepKind.STOP_GC, ("gc-would-delete-live",)),
        (StepKind.RESTORE, ("owner-dangling",)),
        (StepKind.COOKIE, ("cookie-missing",)),
        (StepKind.REINDEX, ("index-unreadable", "ledger-not-indexed")),
        (StepKind.REQUEUE, ("mark-missing", "on-unregistered-bookie")),
        (StepKind.RECOVER, ("below-ack-quorum",)),
        (StepKind.RETIRE, ("cookie-unused",)),
        (StepKind.DELETE, ("ledger-unowned",)),
    ],
    ids=str,
)
def test_what_asked_for_a_step_is_found_before_and_no_more(
    kind: StepKind, ids: tuple[str, ...], lived: Lived
) -> None:
    before = objects_of(lived.before if kind is StepKind.RETIRE else lived.first, ids)
    assert {id for id, *_ in before} == set(ids)
    # A replication worker clears a mark once it can read a fragment's first and last entry.
    cleared = {("below-ack-quorum", HELD_BACK, None)} if kind is StepKind.RECOVER else set()
    assert before & objects_of(lived.second, ids) == cleared


def test_bookies_hold_what_the_steps_were_for(lived: Lived) -> None:
    letter = {id: letter for letter, id in lived.bookies.items()}
    held = {letter[id]: ledgers for id, ledgers in lived.held.items()}
    whole = frozenset(range(10))
    for ledger in (COPIED, LOST_3, LOST_4, FORGOTTEN, SORTED, OFF_D):
        assert sum(ledgers.get(ledger) == whole for ledgers in held.values()) >= 2, ledger
    # its mark is gone, and yet nothing was copied
    assert sum(ledgers.get(HELD_BACK) == whole for ledgers in held.values()) == 1
    # the collector of e was held back, and the entry that only e has is there
    assert held["e"][GC] == whole
    assert all(held[each][RESTORED] == whole for each in "ab")


def test_the_cookie_lets_the_bookie_restart(lived: Lived) -> None:
    assert lived.restarted


def test_a_dry_run_prints_what_would_be_done(lived: Lived) -> None:
    assert "Fragment [0 - 9]" in lived.printed[StepKind.RECOVER][0]


def test_without_autorecovery_recover_copies_what_can_be_copied(lived: Lived) -> None:
    [step] = [step for step in lived.alone.steps if step.kind is StepKind.RECOVER]
    copied = {int(each.ledger_id) for each in step.ledgers}
    assert copied
    assert ONLY_D not in copied  # -sku leaves the one alone that has no other copy: it is refused below
    gone = lived.bookies["d"]
    for ledger in copied | {OFF_D}:
        assert gone not in {name for _, each in lived.ledgers[ledger].segments for name in each}, ledger
    refused = [each for each in lived.alone.refused if each.kind is StepKind.RECOVER]
    assert [each.ledger_count for each in refused if each.reason is RefusalReason.LIVE_WRITER] == [1]
    assert (str(ONLY_D),) in [each.ledgers for each in refused if each.reason is RefusalReason.NO_COPY]
    assert lived.ledgers[OPEN_D].state == "OPEN"  # its writer has it still
    assert lived.ledgers[ONLY_D].segments == ((0, (gone,)),)


def test_a_deleted_cookie_is_made_again_from_what_was_printed(lived: Lived) -> None:
    assert lived.undone
