"""One cluster read in three ways: from a running ZooKeeper, from that server's files, and from a dump.

The findings and the tables are the same, except for the name of the source. The server runs on a copy of the
files that the corpus's own ZooKeeper wrote. Its bookies' sessions are still open. The audit of the files uses
the query plans of a large cluster, the others those of a small one.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.corpora.audited import FinishedRun, Row, audit
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tables that only a source with two scans has: the second scan of a live store, and what moved between them.
LIVE_ONLY = {"ledgers_again", "moved"}
# When a finding or a hold was seen, and a journal read, is the moment of the run; a file has no stamp until
# some time after it was written; a bookie without journals is told apart by whether it runs; a source has
# the name of its address.
OF_THE_RUN = {
    "changes": {"first_seen", "last_seen"},
    "holds": {"first_seen"},
    "availability": {"stamp"},
    "bookies": {"index_time", "index_time_basis", "tail", "tail_reason"},
    "journal_tails": {"read_at"},
    "sources": {"source"},
}


class ThreeWays(NamedTuple):
    live: FinishedRun
    saved: FinishedRun
    dump: FinishedRun


@pytest.fixture(scope="module")
def corpus(corpora: Corpora) -> Corpus:
    """Return the corpus with most checks' findings; other layouts: `tests.sources.metadata`, `tests.live`."""
    return corpora.get("dbledger-long")


@pytest.fixture(scope="module")
def three_ways(
    corpus: Corpus,
    runs: Runs,
    spark: SparkSession,
    large_plans: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> ThreeWays:
    audited = runs.get(corpus.name)
    files = tmp_path_factory.mktemp("zookeeper")
    shutil.copytree(corpus.zookeeper, files / "server")
    uri = f"zk-snapshot://{corpus.zookeeper}/version-2?root=/ledgers"
    # Each in a directory of its own: runs side by side are compared with each other.
    with large_plans():
        saved = audit(spark, uri, corpus.bookies, files / "saved" / "run")
    with EmbeddedZooKeeper(files / "server") as server:
        # The server's clock is today's; the corpus is as old as its newest znode. It names bookies as
        # registered that do not run, and has none of their journals: they are as new as their marks' files.
        marked = [row["index_time"] for row in audited.table("bookies") if row["index_time"] is not None]
        live = audit(
            spark,
            f"zk://{server.hosts}/ledgers",
            corpus.bookies,
            files / "live" / "run",
            scan_time=corpus.scan_time,
            witness="no",
            index_time=min(marked),
        )
    return ThreeWays(live, saved, audited)


def _without_full_directories(rows: list[Row]) -> list[Row]:
    """Return the rows of a table without mark directories that contain other rows.

    Spark reads a dump in as many parts as it has cores. A directory gives a row in each part that has none of
    its contents (`auditor.tables.marks.find_empty_directories` removes it).
    """
    full = {str(directory) for row in rows if row.get("path") for directory in Path(row["path"]).parents}
    return [row for row in rows if row.get("kind") != "directory" or row["path"] not in full]


def _difference(first: list[Row], second: list[Row], without: set[str]) -> list[str]:
    """Return the rows that only one table has, with ``-`` for the first, ignoring some columns."""
    counts = [
        Counter(repr(sorted(pair for pair in row.items() if pair[0] not in without)) for row in rows)
        for rows in (first, second)
    ]
    only_first, only_second = counts[0] - counts[1], counts[1] - counts[0]
    return [f"- {row}" for row in only_first.elements()] + [f"+ {row}" for row in only_second.elements()]


def test_live_saved_and_dump_findings_are_the_same(three_ways: ThreeWays) -> None:
    live, saved, dump = (run.findings() for run in three_ways)
    assert saved == dump
    assert live == dump


def test_live_saved_and_dump_tables_are_the_same(three_ways: ThreeWays) -> None:
    names = [{path.name for path in (run.out / "tables").iterdir()} for run in three_ways]
    assert names[1] == names[2]
    assert names[0] - LIVE_ONLY == names[2] - LIVE_ONLY
    for name in sorted(names[2] - LIVE_ONLY):
        live, saved, dump = (_without_full_directories(run.table(name)) for run in three_ways)
        moments = OF_THE_RUN.get(name, set())
        assert _difference(saved, dump, moments) == [], f"{name}: saved and dump"
        assert _difference(live, dump, moments) == [], f"{name}: live and dump"


def test_both_scans_of_the_live_server_saw_the_same(three_ways: ThreeWays) -> None:
    first = {(row["ledger_id"], row["version"]) for row in three_ways.live.table("ledgers")}
    second = {(row["ledger_id"], row["version"]) for row in three_ways.live.table("ledgers_again")}
    assert first == second
