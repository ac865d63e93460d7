"""Two Pulsar clusters on one BookKeeper: no ledger of a live topic is confirmed to be unowned, or deleted.

The hazard clusters tp1 and tp2 are the same cluster, three days apart: `/managed-ledgers` has topic t1 with
ledgers 10-14, `/east/managed-ledgers` has topic t2 with ledgers 15-19, both in the namespace public/default.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient

from auditor import Audit
from auditor.demo.sample import extract
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.holds import ActionKind
from auditor.model.options import AuditOptions
from auditor.plan.plan_file import make_plan
from auditor.runs.reader import RunReader
from auditor.runs.run_inputs import read_run_inputs
from tests.corpora.audited import FinishedRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HAZARDS = Path(__file__).parents[1] / "data" / "hazards"
DAY_MS = 24 * 3_600_000
T1, T2 = list(range(10, 15)), list(range(15, 20))


class Hazard:
    """One hazard cluster, unpacked, with its runs in one directory."""

    def __init__(self, root: Path, spark: SparkSession, name: str, *, has_east: bool = True) -> None:
        extract(HAZARDS / f"{name}.tar.gz", root / name)
        self.spark, self.runs, self.name = spark, root / "runs", name
        [self.dump] = (root / name).rglob("metadata.jsonl")
        if not has_east:
            lines = self.dump.read_text("utf-8").splitlines(keepends=True)
            nodes = [line for line in lines if '"/east' not in line and '"end"' not in line]
            # The id generator of the hazard is behind, and a hold for it forbids any deletion.
            [generator] = [number for number, line in enumerate(nodes) if '"/ledgers/idgen"' in line]
            nodes[generator] = nodes[generator].replace('"cversion": 20', '"cversion": 40')
            end = json.dumps({"end": {"nodes": len(nodes) - 1}})
            self.dump.write_text("".join([*nodes, f"{end}\n"]), "utf-8")

    def store(self, chroot: str = "") -> str:
        return f"pulsar:dump://{self.dump}" + (f"?root={chroot}" if chroot else "")

    def second_store(self) -> str:
        """Return the store of the second Pulsar, in its own dump and at the top like the first one's."""
        head, *nodes, _ = self.dump.read_text("utf-8").splitlines()
        rows = [json.loads(node) for node in nodes]
        of_east = [row for row in rows if row["path"].startswith("/east/managed-ledgers")]
        east_rows = [row | {"path": row["path"].removeprefix("/east")} for row in of_east]
        path = self.dump.with_name("second-pulsar.jsonl")
        lines = [head, *map(json.dumps, [*east_rows, {"end": {"nodes": len(east_rows)}}])]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return f"pulsar:dump://{path}"

    def audit(
        self, run: str, owners: Sequence[str] = (), complete: Sequence[str] = (), **settings: Any
    ) -> FinishedRun:
        options = AuditOptions(owners=owners, owners_complete=complete, **settings)
        report = Audit(
            f"dump://{self.dump}", [str(self.dump.parent / "bookies")], str(self.runs / run), options
        )
        return FinishedRun(report.run(self.spark), self.runs / run)


def unowned(run: FinishedRun) -> dict[int, str]:
    return {row["ledger_id"]: row["confidence"] for row in run.findings_of("ledger-unowned")}


def planned_deletions(run: FinishedRun) -> list[str]:
    steps = make_plan(RunReader(run.out)).steps
    return [
        ledger.ledger_id for step in steps if step.kind is ActionKind.DELETE_LEDGER for ledger in step.ledgers
    ]


def owner_holds(run: FinishedRun) -> list[list[str]]:
    """Return the action kinds that each hold on the absence of owners forbids."""
    return [
        row["forbids"] for row in run.table("holds") if (row["object"], row["key"]) == ("source", "owners")
    ]


def suspect(run: FinishedRun) -> list[tuple[str, str]]:
    return [(row["severity"], row["message"]) for row in run.findings_of("owners-suspect")]


def test_ledgers_of_another_live_pulsar_are_not_deleted(spark: SparkSession, tmp_path: Path) -> None:
    Hazard(tmp_path, spark, "tp1").audit("1")
    second = Hazard(tmp_path, spark, "tp2").audit("2")
    assert unowned(second) == dict.fromkeys(T2, "suspect")
    [(severity, message)] = suspect(second)
    assert severity == "warning"
    assert "owners_complete does not contain this store" in message
    assert planned_deletions(second) == []
    assert owner_holds(second) == [["delete-ledger"]]
    [refused] = [
        step for step in make_plan(RunReader(second.out)).refused if step.kind is ActionKind.DELETE_LEDGER
    ]
    assert [int(ledger) for ledger in refused.ledgers] == T2


def test_owner_stores_are_joined_and_a_missing_store_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    first, second = (Hazard(tmp_path, spark, name) for name in ("tp1", "tp2"))
    stores = [first.store(), first.store("/east")]
    joined = first.audit("1", stores, stores)
    rows = joined.table("ownership")
    store_by_ledger = {row["ledger_id"]: row["store"] for row in rows if row["standing"] == "owned"}
    assert store_by_ledger == {**dict.fromkeys(T1, stores[0]), **dict.fromkeys(T2, stores[1])}
    claims = {row["claim"] for row in rows if row["ledger_id"] in T2}
    assert claims == {"/east/managed-ledgers/public/default/persistent/t2"}
    assert (unowned(joined), suspect(joined), owner_holds(joined)) == ({}, [], [])
    [proved, east] = joined.table("owner_stores")
    assert proved["scope_proved"] == proved["scope_claimed"] == east["scope_proved"]
    assert proved["reason"] is None
    assert "of 10 ledgers that name an owner, 10 name an owner" in proved["proof"]
    # The operator's word alone is not enough: two later runs lack what the first one saw listed.
    only = [second.store()]
    lost = second.audit("2", only, only)
    later = second.audit("3", only, only, scan_time=1_795_259_200_000 + DAY_MS + 1)
    for run in (lost, later):
        assert unowned(run) == dict.fromkeys(T2, "suspect")
        [(severity, message)] = suspect(run)
        assert (severity, "no longer lists 5 of 5 ledgers" in message) == ("warning", True)
        assert planned_deletions(run) == []
    assert {row["seen_before"] for row in later.table("ownership") if row["ledger_id"] in T2} == {True}


def test_store_named_twice_does_not_replace_another_store(spark: SparkSession, tmp_path: Path) -> None:
    """Each Pulsar keeps its lists at the top of its own store, so their chroots do not differ."""
    first, second = (Hazard(tmp_path, spark, name) for name in ("tp1", "tp2"))
    pair = [first.store(), first.second_store()]
    joined = first.audit("1", pair, pair)
    assert (unowned(joined), suspect(joined)) == ({}, [])
    before, _ = read_run_inputs(RunReader(joined.out))
    assert len({*before.owner_stores}) == 2
    copy = second.dump.with_name("copy.jsonl")
    copy.write_bytes(second.dump.read_bytes())
    twice = [second.store(), f"pulsar:dump://{copy}"]
    run = second.audit("2", twice, twice)
    assert unowned(run) == dict.fromkeys(T2, "suspect")
    [(_, message)] = suspect(run)
    assert f"it is the same store as {twice[0]}, under a second name" in message
    assert (
        f"{pair[1]}: the store was not read in this run; the store no longer lists 5 of 5 ledgers" in message
    )
    new_inputs, _ = read_run_inputs(RunReader(run.out))
    assert set(new_inputs.owner_stores) < {*before.owner_stores}
    assert len(new_inputs.owner_stores) == 1
    assert "owner-dangling" in new_inputs.reasons_lacking_input(before)


def test_unowned_ledgers_of_a_complete_store_are_deleted_after_two_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Hazard(tmp_path, spark, name, has_east=False) for name in ("tp1", "tp2"))
    once = first.audit("1", complete=[first.store()])
    assert (unowned(once), suspect(once)) == (dict.fromkeys(T2, "suspect"), [])
    assert planned_deletions(once) == []
    twice = second.audit("2", complete=[second.store()])
    assert (unowned(twice), suspect(twice)) == (dict.fromkeys(T2, "confirmed"), [])
    assert planned_deletions(twice) == []  # the saved data is older than a day
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: twice.report.run.scan_time)
    assert [int(ledger) for ledger in planned_deletions(twice)] == T2
    assert owner_holds(twice) == []
    # A grace below a rollover confirms nothing.
    short = second.audit("3", complete=[second.store()], owner_grace=600.0)
    assert unowned(short) == dict.fromkeys(T2, "suspect")
    assert planned_deletions(short) == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    extract(HAZARDS / "tp1.tar.gz", tmp_path / "tp1")
    [dump] = (tmp_path / "tp1").rglob("metadata.jsonl")
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        client: Any = KazooClient(zookeeper.hosts)
        client.start()
        nodes = [json.loads(line) for line in dump.read_text("utf-8").splitlines()[1:-1]]
        for node in sorted(nodes, key=lambda node: str(node["path"])):
            client.create(node["path"], base64.b64decode(node["data"]), makepath=True)
        client.stop()
        client.close()
        yield zookeeper


def test_two_stores_of_a_running_zookeeper_are_joined(
    server: EmbeddedZooKeeper, spark: SparkSession, tmp_path: Path
) -> None:
    stores = [f"pulsar:zk://{server.hosts}", f"pulsar:zk://{server.hosts}/east"]
    options = AuditOptions(owners=stores, owners_complete=stores, owner_grace=0.0, witness="no")
    Audit(f"zk://{server.hosts}/ledgers", [], str(tmp_path / "run"), options).run(spark)
    run = RunReader(tmp_path / "run")
    rows = run.table("ownership").to_pylist()
    assert {row["ledger_id"]: row["store"] for row in rows if row["standing"] == "owned"} == {
        **dict.fromkeys(T1, stores[0]),
        **dict.fromkeys(T2, stores[1]),
    }
    assert run.table("owner_stores")["reason"].to_pylist() == [None, None]
