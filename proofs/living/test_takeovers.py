"""After a broker failover, entries that fenced writers left after a ledger's end cause no error finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from proofs.living.loop import audit
from proofs.living.truth import Look, look
from proofs.living.ways import DISK
from tests.clusters.living import IDLE_SETTINGS, living_cluster
from tests.corpora.brute_force import write_set
from tests.servers.bookies.jars import RELEASES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUORUMS = ((3, 2, 2), (3, 3, 2), (2, 2, 2))
LEDGERS = 6
SEVERE = {"error", "critical"}


def has_next_entry(state: Look, ledger: int) -> bool:
    """Return whether an ack quorum of bookies has the first entry after the end of a ledger."""
    plain = state.store.ledgers[ledger]
    assert plain.last is not None
    entry = plain.last + 1
    holders = [
        bookie
        for bookie in write_set(plain, plain.segments[-1][1], entry)
        if entry in state.world.held(ledger, bookie)
    ]
    return len(holders) >= plain.ack_quorum


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]])
def test_entries_behind_the_end_of_a_taken_over_ledger_are_notes_without_a_hold(
    release: str, spark: SparkSession, tmp_path: Path
) -> None:
    with living_cluster(
        tmp_path / "cluster", "DbLedgerStorage", bookies=3, settings=IDLE_SETTINGS, release=release
    ) as cluster:
        ledgers = [
            ledger
            for seed, quorums in enumerate(QUORUMS)
            for ledger in cluster.fail_over(seed, LEDGERS, quorums)
        ]
        state = look(cluster)
        run = audit(cluster, spark, DISK, "run")
    # No acknowledged entry is behind the end of its ledger.
    assert all(ledger["acknowledged"] <= ledger["last"] for ledger in ledgers)
    behind = {ledger["ledger"]: ledger for ledger in ledgers if has_next_entry(state, ledger["ledger"])}
    assert behind
    # Each of these ledgers was closed at its last acknowledged entry.
    assert all(ledger["acknowledged"] == ledger["last"] for ledger in behind.values())
    notes = {row["ledger_id"]: (row["severity"], row["confidence"]) for row in run.by_id("entries-past-end")}
    assert notes == dict.fromkeys(behind, ("note", "suspect"))
    assert {row["id"] for row in run.findings if row["severity"] in SEVERE} == set()
    holds = pq.read_table(run.path / "tables" / "holds").to_pylist()
    assert [hold for hold in holds if hold["reason"] in ("entries-past-end", "copies-differ")] == []
