"""The gate refuses actions that lost data on real bookies: one cluster of 4.17.2 has all these cases.

A letter stands for a bookie. The cluster is audited twice, because an action that deletes for good needs two
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.actions.gate import Refused, permit
from auditor.actions.objects import ActionObject, bookie, ledger
from auditor.model.holds import ActionKind
from auditor.plan.plan_file import make_plan
from auditor.runs.reader import RunReader
from tests.clusters.idle import audit
from tests.plan.cluster import add_owner, claim, operated_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

LETTERS = "abcdef"
LAST_OUTSIDE, DANGLING, UNINDEXED, SECOND_CLUSTER, DIFFERING, OPEN = range(1, 7)
TOPIC = "public/default/persistent/kept"


@pytest.fixture(scope="module")
def real(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunReader, Mapping[str, str]]:
    """Return the second audit of the cluster, and the ids of its bookies by letter."""
    root = tmp_path_factory.mktemp("real")
    with operated_cluster(root, len(LETTERS)) as (bookies, store):
        ids = dict(zip(LETTERS, bookies.ids, strict=True))
        a, b, c, d, e, f = bookies.ids
        bookies.record(LAST_OUTSIDE, [a, b], 2, 2, 9)
        bookies.add(LAST_OUTSIDE, f, range(10))
        for number in (DANGLING, SECOND_CLUSTER):
            bookies.write(number, [a, b], 2, 2, 10)
        bookies.write(UNINDEXED, [c, d], 2, 2, 10)
        bookies.record(DIFFERING, [a, b, c], 3, 2, 9)
        bookies.add(DIFFERING, a, range(10), payload="one")
        bookies.add(DIFFERING, b, range(10), payload="two")
        bookies.create(OPEN, [e, a], 2, 2)
        bookies.append(OPEN, 5)
        bookies.flush()
        add_owner(store, TOPIC, DANGLING)
        claim(store, SECOND_CLUSTER, "east/default/persistent/live")
        bookies.delete(DANGLING)
        for name in (c, d):
            bookies.stop(name)
            bookies.forget_entries(name, UNINDEXED, range(10))
            bookies.forget_ledger(name, UNINDEXED)
            bookies.start(name)
        for run in ("1", "2"):
            sources = [str(bookies.directory)]
            audit(spark, store, sources, root / "runs" / run, owner_grace=0.0, entry_logs=True, deep=True)
    return RunReader(root / "runs" / "2"), ids


def refused(run: RunReader, kind: ActionKind, *objects: ActionObject) -> set[str]:
    """Return the reasons for which the gate refuses an action."""
    answer = permit(run, kind, objects)
    assert isinstance(answer, Refused)
    assert answer.holds
    return {hold.reason for hold in answer.holds}


Real = tuple[RunReader, "Mapping[str, str]"]


def test_actions_on_the_bookie_with_the_last_outside_copy_are_refused(real: Real) -> None:
    run, ids = real
    for kind in (ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE, ActionKind.COLLECT):
        assert "foreign-copy" in refused(run, kind, bookie(ids["f"]))


@pytest.mark.parametrize("letter", ["a", "b"])
def test_logs_of_a_ledger_that_an_owner_names_are_not_collected(letter: str, real: Real) -> None:
    run, ids = real
    for kind in (ActionKind.COLLECT, ActionKind.COMPACT):
        assert "owner-dangling" in refused(run, kind, bookie(ids[letter]))


@pytest.mark.parametrize("letter", ["c", "d"])
def test_logs_with_bytes_that_no_index_lists_are_not_compacted(letter: str, real: Real) -> None:
    run, ids = real
    for kind in (ActionKind.COLLECT, ActionKind.COMPACT):
        assert "entry-lost" in refused(run, kind, bookie(ids[letter]))


def test_ledger_of_a_topic_of_a_second_cluster_is_not_deleted(real: Real) -> None:
    run, _ = real
    answer = permit(run, ActionKind.DELETE_LEDGER, [ledger(SECOND_CLUSTER)])
    assert isinstance(answer, Refused)
    planned = {target.ledger_id for step in make_plan(run).steps for target in step.ledgers}
    assert str(SECOND_CLUSTER) not in planned


def test_ledger_with_differing_copies_is_not_recovered(real: Real) -> None:
    run, _ = real
    assert "replica-mismatch" in refused(run, ActionKind.RECOVER, ledger(DIFFERING))


@pytest.mark.parametrize("letter", ["e", "a"])
def test_index_of_a_bookie_with_an_open_ledger_is_not_rebuilt(letter: str, real: Real) -> None:
    run, ids = real
    for kind in (ActionKind.REBUILD_INDEX, ActionKind.DECOMMISSION):
        assert "open-ledgers" in refused(run, kind, bookie(ids[letter]))
