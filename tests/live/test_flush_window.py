"""What a bookie took and did not write to its index yet is no loss: suspected by disk, never confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.corpora.audited import Audited
from tests.live.metadata import metadata_store
from tests.live.scenario import KINDS, Kind, LiveCluster
from tests.live.ways import DISK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSHED, UNFLUSHED = 1, 2


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def audited(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Audited:
    """Two ledgers on three bookies; the bookies flushed after the first."""
    kind: Kind = request.param
    with (
        metadata_store(kind.layout, tmp_path) as metadata,
        kind.bookies(metadata.uri, tmp_path, (None, None, None)) as bookies,
    ):
        bookies.write(FLUSHED, bookies.ids, 3, 2, entries=10)
        bookies.flush()
        bookies.write(UNFLUSHED, bookies.ids, 3, 2, entries=10)
        cluster = LiveCluster(kind, metadata, bookies)
        cluster.look()
        assert all(held[UNFLUSHED] == set(range(10)) for held in cluster.held.values())
        return DISK.audit(cluster, spark, tmp_path / "audit")


def test_by_disk_it_is_suspect(audited: Audited) -> None:
    found = [row for row in audited.findings() if row["ledger_id"] is not None]
    assert {row["ledger_id"] for row in found} == {UNFLUSHED}
    assert {row["confidence"] for row in found} == {"suspect"}
