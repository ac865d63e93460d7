"""Ledgers of several scopes in one cluster: the faults of each are found as if the others were not there.

The same faults are made three times: in scope 0 of one cluster, and in two other scopes of a second one,
beside ledgers of scope 0 that have the same ids and nothing wrong. One of the scopes has negative ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor.model.ledger_id import LedgerId
from tests.cli.test_doors import bkaudit
from tests.corpora.audited import Audited, audit, entries
from tests.corpora.cluster import Cluster, Ledger, index_bytes, ledger_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKIES = A, B, C, D = tuple(f"bk{letter}.example:3181" for letter in "abcd")
IDS = range(1, 13)
FIRST, SECOND = 1, -3
UNREADABLE = b"BookieMetadataFormatVersion\t3\n\x05x"


def faults(cluster: Cluster, named: Callable[[int], Ledger]) -> None:
    """One ledger of each kind; ``named`` says which ledger a number is."""
    three, two = {0: [A, B, C]}, {0: [A, B, C], 10: [A, B, D]}
    cluster.ledger(named(1), three, (3, 2), 9)
    cluster.ledger(named(2), three, (3, 2), 9, without={B: [4]})
    cluster.ledger(named(3), three, (3, 2), 9, without={A: [4], B: [4, 5]})
    cluster.ledger(named(4), three, (2, 2), 9, without={A: range(10), B: range(10), C: range(10)})
    cluster.ledger(named(5), three, (3, 2), 9, extra={D: range(10)})
    cluster.hold(named(6), A, range(3))
    cluster.ledger(named(7), two, (3, 2), 19, extra={C: [12, 13]})
    cluster.ledger(named(8), three, (3, 2), 9)
    cluster.index(named(8), C, b"spoiled")
    cluster.node(f"/ledgers/{ledger_path(cluster.layout, named(9))}", UNREADABLE)
    cluster.hold(named(9), A, range(10))
    cluster.ledger(named(10), two, (3, 2), None, state="OPEN", written=20, without={A: [2]})
    cluster.ledger(named(11), three, (3, 2), 9)
    cluster.index(named(11), B, index_bytes(range(10))[:1029])
    cluster.ledger(named(12), three, (2, 3), 9)


class Told(NamedTuple):
    """A finding without the name of its ledger's scope, and with the ledger's number."""

    id: str
    number: int
    bookie: str | None
    severity: str
    confidence: str
    missing: tuple[tuple[str, frozenset[int]], ...]
    unknown: tuple[str, ...]


def told(run: Audited, scope: int, sign: int = 1) -> list[Told]:
    rows = [row for row in run.findings() if row["ledger_id"] is not None and row["scope_id"] == scope]
    return sorted(
        Told(
            row["id"],
            sign * row["ledger_id"],
            row["bookie_id"],
            row["severity"],
            row["confidence"],
            tuple((each["bookie_id"], entries(each["groups"])) for each in row["missing"]),
            tuple(row["unknown"]),
        )
        for row in rows
    )


def bare() -> Cluster:
    cluster = Cluster(layout="longhierarchical")
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    for ledger in range(1000, 1004):
        cluster.ledger(ledger, {0: BOOKIES}, (4, 2), 9)
    return cluster


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Audited, Audited]:
    """The twin, and the mixed cluster."""
    twin, mixed = bare(), bare()
    faults(twin, lambda number: number)
    faults(mixed, lambda number: LedgerId(number, FIRST))
    faults(mixed, lambda number: LedgerId(-number, SECOND))
    for number in IDS:
        mixed.ledger(number, {0: [D, C, B]}, (2, 2), 30)
    found = []
    for name, cluster in (("twin", twin), ("mixed", mixed)):
        root = cluster.write(tmp_path_factory.mktemp(name))
        found.append(audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run"))
    return found[0], found[1]


def test_each_scope_has_the_findings_of_its_twin_in_scope_0(runs: tuple[Audited, Audited]) -> None:
    twin, mixed = runs
    expected = told(twin, 0)
    assert {each.id for each in expected} >= {
        "below-ack-quorum",
        "below-write-quorum",
        "entry-lost",
        "index-unreadable",
        "metadata-unreadable",
        "orphan-ledger",
        "over-replicated-ledger",
        "quorum-invalid",
        "stale-segment",
    }
    assert told(mixed, FIRST) == expected
    assert told(mixed, SECOND, -1) == expected
    assert told(mixed, 0) == []
    scopes = {row["scope_id"] for row in mixed.findings() if row["ledger_id"] is not None}
    assert scopes == {FIRST, SECOND}


def test_each_ledger_of_each_scope_has_its_own_verdict(runs: tuple[Audited, Audited]) -> None:
    twin, mixed = runs
    classes = {number: row["class"] for number, row in twin.verdicts().items()}
    found = {(row["scope_id"], row["ledger_id"]): row["class"] for row in mixed.table("verdicts")}
    in_both = [number for number in classes if number < 1000]
    assert {n: found[FIRST, n] for n in in_both} == {n: classes[n] for n in in_both}
    assert {n: found[SECOND, -n] for n in in_both} == {n: classes[n] for n in in_both}
    assert {found[0, n] for n in (*IDS, *range(1000, 1004))} == {"healthy"}


def test_the_scope_is_told_wherever_a_ledger_is_named(runs: tuple[Audited, Audited]) -> None:
    _, mixed = runs
    report = json.loads((mixed.out / "report.json").read_text())
    named = {(each["scope_id"], each["ledger_id"]) for each in report["findings"]}
    assert {("1", "3"), ("-3", "-3")} <= named
    for ledger in (LedgerId(3, FIRST), LedgerId(-3, SECOND)):
        outcome = bkaudit(
            "explain", "ledger", "--ledger-qualified-name", ledger.qualified_name, "--run", str(mixed.out)
        )
        assert outcome.exit_code == 0, outcome.output
        assert f"ledger {ledger.id} of scope {ledger.scope}: below-ack-quorum" in outcome.stdout
