"""The short form of the loop: three clusters, each with a minute of load and audits under it.

The bookies have the oldest and the newest release. `python -m proofs.versions` runs those in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proofs.living.scenario import KEPT_LEDGERS, play
from proofs.living.ways import DISK, DISK_AND_RPC, RPC, Way
from tests.servers.bookies.jars import RELEASE, RELEASES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("storage", "on_etcd", "ways", "release"),
    [
        ("SortedLedgerStorage", False, (RPC, DISK_AND_RPC), RELEASES[0]),
        ("DbLedgerStorage", False, (DISK,), RELEASES[-1]),
        ("DbLedgerStorage", True, (DISK,), RELEASE),
    ],
)
def test_live_cluster_gets_no_false_finding_and_every_fault_is_confirmed(
    storage: str, on_etcd: bool, ways: tuple[Way, ...], release: str, spark: SparkSession, tmp_path: Path
) -> None:
    outcome = play(
        spark,
        tmp_path / "cluster",
        storage,
        seed=7,
        ways=ways,
        audits=len(ways),
        ledgers=KEPT_LEDGERS,
        on_etcd=on_etcd,
        release=release,
    )
    print(outcome.text())
    assert outcome.load["created"] > 0
    assert outcome.load["closed"] > 0
    assert len({fault.id for fault in outcome.faults}) >= 10
    assert outcome.wrong() == []
