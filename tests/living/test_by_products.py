"""What BookKeeper leaves behind in numbers, as a matter of course, is one finding per bookie."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.living.faults import mark
from tests.living.idle import audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LEDGERS = 30
ENTRIES = 12


def test_fragments_copied_whole_and_marks_left_behind_are_one_finding_per_bookie(
    spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, "SortedLedgerStorage", bookies=3) as (bookies, store):
        a, b, c = bookies.ids
        for ledger in range(LEDGERS):
            bookies.write(ledger, [a, b, c], 2, 2, ENTRIES)
            # A worker copies whole fragments where E > Wq, so that a third is not striped there.
            for bookie in (b, c):
                bookies.add(ledger, bookie, range(ENTRIES))
            mark(store, ledger, c, age_ms=60_000)
        bookies.flush()
        run = audit(spark, store, [str(bookies.directory)], tmp_path / "run", grace=0)
    for id, concerned in (("surplus-entries", {b, c}), ("mark-stale", {c})):
        rows = run.of(id)
        assert len(rows) == len(concerned), id
        assert {row["bookie_id"] for row in rows} == concerned
        for row in rows:
            assert row["ledger_id"] is None
            assert LEDGERS in json.loads(row["evidence"]).values(), row["evidence"]
    assert run.exit_code == 0
