"""What a bookie took and did not write to its index yet: held, for it is in the journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.options import YesNo
from tests.live.metadata import ETCD, metadata_store
from tests.live.scenario import KINDS, Kind, LiveCluster
from tests.live.ways import BOTH, COLLECTED, DISK, RPC, Way, answers, without_journals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSHED, UNFLUSHED = 1, 2
# Without times, as on etcd, all that is missing by disk is suspect.
WITH_TIMES = [kind for kind in KINDS if kind.layout != ETCD]


@pytest.mark.parametrize("kind", WITH_TIMES, ids=[kind.name for kind in WITH_TIMES])
def test_what_is_not_flushed_is_held_by_the_journal_and_suspect_at_most_without_it(
    kind: Kind, spark: SparkSession, tmp_path: Path
) -> None:
    def found(way: Way, witness: YesNo) -> set[tuple[int, str]]:
        rows = way.audit(cluster, spark, tmp_path / f"{way.name}-{witness}", witness).findings()
        return {(row["ledger_id"], row["confidence"]) for row in rows if row["ledger_id"] is not None}

    with (
        metadata_store(kind.layout, tmp_path) as metadata,
        kind.bookies(metadata.uri, tmp_path, (None, None, None)) as bookies,
    ):
        # Acknowledged by all: a last copy that is still on its way would be missing.
        bookies.write(FLUSHED, bookies.ids, 3, 3, entries=10)
        bookies.flush()
        bookies.write(UNFLUSHED, bookies.ids, 3, 3, entries=10)
        cluster = LiveCluster(kind, metadata, bookies)
        cluster.look()
        assert all(held[UNFLUSHED] == set(range(10)) for held in cluster.held.values())
        assert found(DISK, "no") == set()
        assert found(COLLECTED, "no") == set()
        if answers(kind, RPC):
            assert found(RPC, "no") == set()
            assert found(BOTH, "no") == set()
        disks = without_journals(bookies.directory, tmp_path / "bookies.toml")
        alone = replace(DISK, name="no-journals", sources=lambda *_: [str(disks)])
        assert found(alone, "no") == {(UNFLUSHED, "suspect")}
        assert found(alone, "yes") == set()
