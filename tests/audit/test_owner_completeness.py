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
from tests.corpora.audited import Audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HAZARDS = Path(__file__).parents[1] / "data" / "hazards"
DAY_MS = 24 * 3_600_000
T1, T2 = list(range(10, 15)), list(range(15, 20))


class Hazard:
    """One hazard cluster, unpacked, and runs of it in one directory."""

    def __init__(self, root: Path, spark: SparkSession, name: str, *, has_east: bool = True) -> None:
        extract(HAZARDS / f"{name}.tar.gz", root / name)
        self.spark, self.runs, self.name = spark, root / "runs", name
        [self.dump] = (root / name).rglob("metadata.jsonl")
        if not has_east:
            lines = self.dump.read_text("utf-8").splitlines(keepends=True)
            kept = [line for line in lines if '"/east' not in line and '"end"' not in line]
            # The id generator of the hazard is behind, and a hold for it forbids any deletion.
            [generator] = [number for number, line in enumerate(kept) if '"/ledgers/idgen"' in line]
            kept[generator] = kept[generator].replace('"cversion": 20', '"cversion": 40')
            end = json.dumps({"end": {"nodes": len(kept) - 1}})
            self.dump.write_text("".join([*kept, f"{end}\n"]), "utf-8")

    def store(self, chroot: str = "") -> str:
        return f"pulsar:dump://{self.dump}" + (f"?root={chroot}" if chroot else "")

    def east_alone(self) -> str:
        """The store of the second Pulsar in a dump of its own, at the top as the first one's."""
        head, *nodes, _ = self.dump.read_text("utf-8").splitlines()
        rows = [json.loads(node) for node in nodes]
        of_east = [row for row in rows if row["path"].startswith("/east/managed-ledgers")]
        kept = [row | {"path": row["path"].removeprefix("/east")} for row in of_east]
        path = self.dump.with_name("second-pulsar.jsonl")
        lines = [head, *map(json.dumps, [*kept, {"end": {"nodes": len(kept)}}])]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return f"pulsar:dump://{path}"

    def audit(
        self, run: str, owners: Sequence[str] = (), complete: Sequence[str] = (), **more: Any
    ) -> Audited:
        options = AuditOptions(owners=owners, owners_complete=complete, **more)
        report = Audit(
            f"dump://{self.dump}", [str(self.dump.parent / "bookies")], str(self.runs / run), options
        )
        return Audited(report.run(self.spark), self.runs / run)


def unowned(run: Audited) -> dict[int, str]:
    return {row["ledger_id"]: row["confidence"] for row in run.of("ledger-unowned")}


def deleted(run: Audited) -> list[str]:
    steps = make_plan(RunReader(run.out)).steps
    return [
        ledger.ledger_id for step in steps if step.kind is ActionKind.DELETE_LEDGER for ledger in step.ledgers
    ]


def held(run: Audited) -> list[list[str]]:
    """What holds forbid of all that rests on the absence of owners."""
    return [
        row["forbids"] for row in run.table("holds") if (row["object"], row["key"]) == ("source", "owners")
    ]


def suspect(run: Audited) -> list[tuple[str, str]]:
    return [(row["severity"], row["message"]) for row in run.of("owners-suspect")]


def test_a_live_topic_of_another_pulsar_is_not_deleted(spark: SparkSession, tmp_path: Path) -> None:
    Hazard(tmp_path, spark, "tp1").audit("1")
    second = Hazard(tmp_path, spark, "tp2").audit("2")
    assert unowned(second) == dict.fromkeys(T2, "suspect")
    [(severity, message)] = suspect(second)
    assert severity == "warning"
    assert "owners_complete does not contain this store" in message
    assert deleted(second) == []
    assert held(second) == [["delete-ledger"]]
    [refused] = [
        each for each in make_plan(RunReader(second.out)).refused if each.kind is ActionKind.DELETE_LEDGER
    ]
    assert [int(ledger) for ledger in refused.ledgers] == T2


def test_all_stores_of_owners_are_joined_and_a_store_that_goes_missing_is_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = (Hazard(tmp_path, spark, name) for name in ("tp1", "tp2"))
    both = [first.store(), first.store("/east")]
    joined = first.audit("1", both, both)
    rows = joined.table("ownership")
    named = {row["ledger_id"]: row["store"] for row in rows if row["standing"] == "owned"}
    assert named == {**dict.fromkeys(T1, both[0]), **dict.fromkeys(T2, both[1])}
    claims = {row["claim"] for row in rows if row["ledger_id"] in T2}
    assert claims == {"/east/managed-ledgers/public/default/persistent/t2"}
    assert (unowned(joined), suspect(joined), held(joined)) == ({}, [], [])
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
        assert deleted(run) == []
    assert {row["seen_before"] for row in later.table("ownership") if row["ledger_id"] in T2} == {True}


def test_a_store_that_is_named_twice_takes_the_place_of_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """Both Pulsars keep their lists at the top of a store of their own: their chroots do not differ."""
    first, second = (Hazard(tmp_path, spark, name) for name in ("tp1", "tp2"))
    both = [first.store(), first.east_alone()]
    joined = first.audit("1", both, both)
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
        f"{both[1]}: the store was not read in this run; the store no longer lists 5 of 5 ledgers" in message
    )
    now, _ = read_run_inputs(RunReader(run.out))
    assert set(now.owner_stores) < {*before.owner_stores}
    assert len(now.owner_stores) == 1
    assert "owner-dangling" in now.reasons_lacking_input(before)


def test_of_a_store_that_is_proved_complete_leaks_are_deleted_after_two_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Hazard(tmp_path, spark, name, has_east=False) for name in ("tp1", "tp2"))
    once = first.audit("1", complete=[first.store()])
    assert (unowned(once), suspect(once)) == (dict.fromkeys(T2, "suspect"), [])
    assert deleted(once) == []
    twice = second.audit("2", complete=[second.store()])
    assert (unowned(twice), suspect(twice)) == (dict.fromkeys(T2, "confirmed"), [])
    assert deleted(twice) == []  # the saved data is older than a day
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: twice.report.run.scan_time)
    assert [int(ledger) for ledger in deleted(twice)] == T2
    assert held(twice) == []
    # A grace below a rollover confirms nothing.
    short = second.audit("3", complete=[second.store()], owner_grace=600.0)
    assert unowned(short) == dict.fromkeys(T2, "suspect")
    assert deleted(short) == []


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
    both = [f"pulsar:zk://{server.hosts}", f"pulsar:zk://{server.hosts}/east"]
    options = AuditOptions(owners=both, owners_complete=both, owner_grace=0.0, witness="no")
    Audit(f"zk://{server.hosts}/ledgers", [], str(tmp_path / "run"), options).run(spark)
    run = RunReader(tmp_path / "run")
    rows = run.table("ownership").to_pylist()
    assert {row["ledger_id"]: row["store"] for row in rows if row["standing"] == "owned"} == {
        **dict.fromkeys(T1, both[0]),
        **dict.fromkeys(T2, both[1]),
    }
    assert run.table("owner_stores")["reason"].to_pylist() == [None, None]
