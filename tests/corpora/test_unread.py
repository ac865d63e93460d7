"""Data that could not be read is unknown: never lost, and never healthy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.corpora.audited import FinishedRun, audit, missing
from tests.corpora.brute_force import World, judge, ledger_coverage, orphans, undecided
from tests.corpora.corpora import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class UnreadCorpus(NamedTuple):
    """An audited corpus in which some bookies cannot be read."""

    world: World
    run: FinishedRun
    unread: set[str]  # bookies with a directory on disk that could not be read to the end, or none at all
    ghost: str


def _delete(path: Path) -> None:
    shutil.rmtree(path)


def _replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


def _dangle(path: Path) -> None:
    """Replace a directory by a dangling link, like a mount point without its disk."""
    shutil.rmtree(path)
    path.symlink_to(path.parent / "unmounted")


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one of two directories deleted, an index directory unmounted": (
        "interleaved-hier",
        {"127.0.101.3_3181/ledgers1": _delete, "127.0.101.4_3181/index0": _dangle},
    ),
    "a directory is a file, a whole bookie is gone": (
        "flat-v1",
        {"bookie2.dc1.example_3181/ledgers0": _replace_by_file, "bookie4.dc1.example_3181": _delete},
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def blinded(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> UnreadCorpus:
    name, damage = CASES[request.param]
    corpus = unpack(name, tmp_path_factory.mktemp("unread") / name)
    for path, blind in damage.items():
        blind(corpus.bookies / path)
    unread = {path.split("/")[0].replace("_", ":") for path in damage}
    world = World.from_files(corpus.dump, corpus.bookies, unread)
    run = audit(spark, f"dump://{corpus.dump}", corpus.bookies, corpus.root / "run")
    ghosts = {bookie for ledger in world.ledgers.values() for _, e in ledger.segments for bookie in e}
    return UnreadCorpus(
        world, run, unread, next(b for b in ghosts if b.endswith(("99:3181", "9.dc1.example:3181")))
    )


def test_no_copy_of_an_unread_bookie_is_missing(blinded: UnreadCorpus) -> None:
    for row in blinded.run.findings():
        assert not missing(row).keys() & (blinded.unread | {blinded.ghost})


def test_classes_match_brute_force_when_unread_copies_are_unknown(blinded: UnreadCorpus) -> None:
    rows = blinded.run.verdicts()
    for ledger in blinded.world.ledgers:
        row, verdict = rows[ledger], judge(blinded.world, ledger)
        assert (row["class"], row["potential_class"]) == (verdict.name, verdict.potential), ledger
        assert (row["m"], row["mu"], row["unread_bookies"]) == (verdict.m, verdict.mu, list(verdict.unknown))


def test_missing_entries_on_read_bookies_are_still_found(blinded: UnreadCorpus) -> None:
    losses = {
        row["ledger_id"]: (row["id"], missing(row), row["unknown"])
        for row in blinded.run.findings()
        if row["id"] in ("entry-lost", "below-ack-quorum", "below-write-quorum")
    }
    verdicts = {ledger: judge(blinded.world, ledger) for ledger in blinded.world.ledgers}
    assert losses == {
        ledger: (verdict.name, verdict.missing, list(verdict.unknown))
        for ledger, verdict in verdicts.items()
        if verdict.unhealthy
    }


def test_each_unread_bookie_is_one_finding_however_many_ledgers_it_has(blinded: UnreadCorpus) -> None:
    rows = blinded.run.findings_of("bookie-unread")
    assert [row["bookie_id"] for row in rows] == sorted(blinded.unread | {blinded.ghost})
    for row in rows:
        assert (row["severity"], row["confidence"]) == ("note", "unknown")
    undecided_ids = {row["ledger_id"] for row in blinded.run.findings_of("replication-undecided")}
    assert undecided_ids == {ledger for ledger in blinded.world.ledgers if undecided(blinded.world, ledger)}


def test_orphans_on_read_bookies_match_brute_force(blinded: UnreadCorpus) -> None:
    orphan_pairs = {(row["ledger_id"], row["bookie_id"]) for row in blinded.run.findings_of("orphan-ledger")}
    assert orphan_pairs == orphans(blinded.world)


def test_coverage_lists_unread_bookies_and_counts_unknown_replicas(blinded: UnreadCorpus) -> None:
    coverage = json.loads((blinded.run.out / "report.json").read_text())["coverage"]
    verdicts = [judge(blinded.world, ledger) for ledger in blinded.world.ledgers]
    assert coverage["bookies"] == {
        "expected": 5,
        "read": 2,
        "unread": sorted(blinded.unread | {blinded.ghost}),
    }
    assert coverage["ledgers"] == ledger_coverage(blinded.world)
    replicas = coverage["replicas"]
    unknown = sum(len(verdict.unknown) for verdict in verdicts)
    assert replicas["expected"] - replicas["decided"] == unknown
