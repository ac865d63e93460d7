"""An audit of a running etcd against an earlier run: it reports current content, and reads few ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from auditor.model.progress import SilentProgress
from auditor.sources.metadata.ledger_rows import REREAD_LEDGERS
from tests.corpora.audited import FinishedRun, Row, audit
from tests.corpora.corpora import unpack
from tests.servers.etcd import Etcd, running
from tests.sources.earlier_etcd import CLOSED, GARBAGE, OPEN, key, open_etcd_store, read_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCOPE = "/bk/cluster1"
LATER = "2200-01-01T00:00:00Z"
"""Every ledger of a live etcd may have changed up to the moment at which it is read."""

VOLATILE_COLUMNS = {"mtime", "reused", "stamp"}


class StoppedError(Exception):
    """The end of a run whose machine failed."""


class StopAt(SilentProgress):
    """A silent progress that ends a run when it reaches a table."""

    def __init__(self, table: str) -> None:
        self._table = table

    def table(self, name: str, total: int | None = None) -> None:
        if name == self._table:
            raise StoppedError


class Runs(NamedTuple):
    first: FinishedRun
    since: FinishedRun
    read: list[Row]
    deleted: list[int]


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    home = tmp_path_factory.mktemp("since")
    bookies = unpack("etcd", home / "corpus").bookies

    with running(home / "server", saved=True) as server:
        # Bookies' leases run out some time after a server was started.
        for mode in ("writable", "readonly"):
            server.ctl("del", "--prefix", f"{SCOPE}/bookies/{mode}/")
        for number in range(100, 200):
            server.load([(key(SCOPE, number), CLOSED)])

        def run_audit(name: str, **options: Any) -> FinishedRun:
            uri = f"etcd://{server.host}{SCOPE}"
            return audit(spark, uri, bookies, home / name, index_time=LATER, **options)

        with pytest.raises(StoppedError):
            run_audit("runs/1", progress=StopAt("members"))
        # Between a run's beginning and its end: what it read first is older than what it reads now.
        change(server, range(100, 110))
        first = run_audit("runs/1")
        change(server, range(110, 120))
        server.load([(key(SCOPE, 200), OPEN), (key(SCOPE, 120), GARBAGE)])
        listed = [100 + number for number in (21, 99)]
        for ledger in listed:
            server.delete(key(SCOPE, ledger))
        since = run_audit("runs/2", since=str(home / "runs/1"))
        store = open_etcd_store(server, SCOPE)
        store.cluster()
        read = read_whole(store).to_pylist()
        store.close()
        return Runs(first, since, read, listed)


def change(server: Etcd, ledgers: range) -> None:
    server.load([(key(SCOPE, ledger), OPEN) for ledger in ledgers])


def stable_rows(rows: list[Row]) -> list[str]:
    return sorted(repr({name: row[name] for name in row if name not in VOLATILE_COLUMNS}) for row in rows)


def test_ledgers_and_findings_match_current_content_of_etcd(runs: Runs) -> None:
    assert stable_rows(runs.since.table("ledgers")) == stable_rows(runs.read)
    again = [{name: row[name] for name in REREAD_LEDGERS.names} for row in runs.read]
    assert stable_rows(runs.since.table("ledgers_again")) == stable_rows(again)
    new = {
        (finding.id, finding.ledger)
        for finding in {*runs.since.finding_keys()} - {*runs.first.finding_keys()}
    }
    # No member of these ledgers is registered. Those that changed during the first run were not judged there.
    unavailable = {("ledger-unavailable", ledger) for ledger in (*range(100, 110), 200)}
    assert new == {("metadata-unreadable", 120)} | unavailable
    assert not {*runs.deleted} & {*runs.since.verdicts()}


def test_report_counts_ledgers_that_were_not_read_again(runs: Runs) -> None:
    reuse = runs.since.report.run.reused
    table = runs.since.table("ledgers")
    reused = {row["ledger_id"] for row in table if row["reused"]}
    assert reuse["ledgers"] == {"reused": len(reused), "read": len(table) - len(reused)}
    assert reuse["notes"] == []
    assert len(reused) > 80
    # What changed after the earlier run had read it was changed before that run was at its end.
    assert not reused & {*range(100, 121), *runs.deleted, 200}
    # The second scan begins with the first one, and nothing has moved in between.
    again = sum(bool(row["reused"]) for row in runs.since.table("ledgers_again"))
    assert again > 80
    operations = runs.since.report.run.operations
    assert operations["ledger records read by tasks"] == 2 * len(table) - len(reused) - again
    assert runs.first.report.run.reused is None
