"""The loop in its short form: two kinds of clusters, a minute of load each, audits in the midst of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.living.scenario import play
from tests.living.ways import BOTH, DISK, RPC, Way

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


# A hundred ledgers that wait for garbage collection make the metadata suspect, by definition.
FEW_DELETED = 1_000


@pytest.mark.parametrize(
    ("storage", "on_etcd", "ways"),
    [("SortedLedgerStorage", False, (RPC, BOTH)), ("DbLedgerStorage", True, (DISK,))],
)
def test_a_living_cluster_gets_no_false_alarm_and_every_fault_is_confirmed(
    storage: str, on_etcd: bool, ways: tuple[Way, ...], spark: SparkSession, tmp_path: Path
) -> None:
    outcome = play(
        spark,
        tmp_path / "cluster",
        storage,
        seed=7,
        ways=ways,
        audits=len(ways),
        ledgers=FEW_DELETED,
        on_etcd=on_etcd,
    )
    print(outcome.text())
    assert outcome.load["created"] > 0
    assert outcome.load["closed"] > 0
    assert len({fault.id for fault in outcome.faults}) >= 10
    assert outcome.wrong() == []
