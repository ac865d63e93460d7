"""The short form of the trial loses no entry, and its search for lost entries notices a loss."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from proofs.obedient.cluster import TrialCluster, TrialLedger, trial_cluster
from proofs.obedient.disks import entries_on_disks
from proofs.obedient.trial import find_losses, play_round

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("seed", "faults"), [(7, ["index-entries-lost", "cookie-left"]), (8, ["bookie-down", "metadata-lost"])]
)
def test_obeying_all_instructions_loses_no_entry(
    seed: int, faults: Sequence[str], spark: SparkSession, tmp_path: Path
) -> None:
    result = play_round(spark, tmp_path / "cluster", seed, faults, print)
    print(result.text())
    assert result.wrong == []
    assert result.judged > 0
    assert result.counts.total() > 0


def test_loss_search_finds_entries_in_journals_and_logs_and_reports_their_loss(tmp_path: Path) -> None:
    with trial_cluster(tmp_path / "cluster", 7) as cluster:
        bookies = cluster.bookies
        bookie = bookies.ids[0]
        in_log = _write_single_copy(cluster, bookie)
        bookies.flush()
        in_journal = _write_single_copy(cluster, bookie)
        before = cluster.needed(entries_on_disks(bookies.directory))
        for ledger in (in_journal, in_log):
            entries = sorted(entry.entry for entry in before if entry.ledger == ledger.id)
            assert entries == [*range(ledger.entries)]
        assert find_losses(cluster, before) == []
        bookies.stop(bookie)
        shutil.rmtree(bookies.place(bookie))
        losses = find_losses(cluster, before)
        for ledger in (in_journal, in_log):
            assert f"ledger {ledger.id} lost entries {[*range(ledger.entries)]}" in losses


def _write_single_copy(cluster: TrialCluster, bookie: str) -> TrialLedger:
    ledger = TrialLedger(cluster.next_id(), [bookie], 10, "public/default/persistent/one")
    cluster.ledgers[ledger.id] = ledger
    cluster.bookies.write(ledger.id, [bookie], 1, 1, ledger.entries)
    return ledger
