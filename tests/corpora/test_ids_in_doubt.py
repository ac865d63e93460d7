"""Unknown ledger ids as an operator sees them: no orphan is dropped, and the first screen says why."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from auditor.cli import main
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Line = dict[str, Any]
Orphans = dict[str, dict[tuple[str, str], Line]]
"""By corpus; then by ledger and bookie."""

CORPORA = ("interleaved-hier", "flat-v1")


def with_lines(corpus: Corpus, path: Path, add: list[Line]) -> Path:
    """Write the corpus's dump with more znodes."""
    lines = [json.loads(line) for line in corpus.dump.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *add]))
    return path


def znode(path: str, data: str = "") -> Line:
    numbers = dict.fromkeys(("czxid", "mzxid", "version", "ephemeralOwner"), 1)
    return {"path": path, "data": data, "ctime": 5, "mtime": 5, **numbers}


def audited(corpus: Corpus, dump: Path) -> tuple[str, dict[str, Any], dict[tuple[str, str], Line]]:
    """Audit a damaged dump; return the first screen, the report, and orphans by ledger and bookie."""
    out = dump.with_name(f"run-{dump.stem}")
    sources = ["--metadata", f"dump://{dump}", "--bookies", str(corpus.bookies), "--out", str(out)]
    ran = CliRunner().invoke(main, ["audit", *sources])
    assert ran.exit_code in (1, 3), ran.output
    return read_run(out, ran.stdout)


def read_run(out: Path, screen: str) -> tuple[str, dict[str, Any], dict[tuple[str, str], Line]]:
    """Return the same three values for an existing run."""
    lines = CliRunner().invoke(main, ["report", str(out), "--format", "jsonl"]).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    orphans = {(row["ledger_id"], row["bookie_id"]): row for row in rows if row["id"] == "orphan-ledger"}
    return screen, json.loads((out / "report.json").read_text()), orphans


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doubt")


def confidences(orphans: dict[tuple[str, str], Line]) -> dict[tuple[str, str], str]:
    return {where: row["confidence"] for where, row in orphans.items()}


class Misnamed(NamedTuple):
    """An audit of flat-v1 with a name that no ledger can have, and a misplaced and an unreadable record."""

    screen: str
    report: dict[str, Any]
    orphans: dict[tuple[str, str], Line]
    stray: str
    elsewhere: str
    unreadable: str


@pytest.fixture(scope="module")
def whole(runs: Runs) -> Orphans:
    """Return the orphans of the unmodified corpora."""
    orphans = {}
    for name in CORPORA:
        out = runs.get(name).out
        screen, report, orphans[name] = read_run(out, CliRunner().invoke(main, ["report", str(out)]).stdout)
        assert orphans[name]
        assert "unknown    " not in screen
        assert report["run"]["in_doubt"] is None
    return orphans


@pytest.fixture(scope="module")
def misnamed(corpora: Corpora, whole: Orphans, spark: SparkSession, work: Path) -> Misnamed:
    misplaced, unreadable, *_ = sorted({int(ledger) for ledger, _ in whole["flat-v1"]})
    added = [
        znode("/ledgers/Lnotanumber"),
        znode(f"/ledgers/L{misplaced}"),
        znode(f"/ledgers/L{unreadable:010d}", data="not base64"),
    ]
    corpus = corpora.get("flat-v1")
    dump = with_lines(corpus, work / "misnamed.jsonl", added)
    return Misnamed(*audited(corpus, dump), "Lnotanumber", str(misplaced), str(unreadable))


def test_name_that_is_no_ledger_id_puts_no_id_in_doubt(misnamed: Misnamed, whole: Orphans) -> None:
    assert misnamed.orphans.keys() == whole["flat-v1"].keys()
    assert misnamed.report["counts"]["metadata-misplaced"] == 2
    # What is in doubt are the two ids that are meant, and nothing of the others is.
    assert misnamed.report["run"]["in_doubt"]["ids"] == "2"
    unknown_lines = [line for line in misnamed.screen.splitlines() if line.startswith("unknown ")]
    doubt_texts = [*unknown_lines, *misnamed.report["run"]["in_doubt"]["reasons"]]
    assert doubt_texts
    assert not [line for line in doubt_texts if misnamed.stray in line]


def test_only_orphans_of_misplaced_or_unreadable_records_are_suspect(
    misnamed: Misnamed, whole: Orphans
) -> None:
    screen, report, orphans, _, misplaced, unreadable = misnamed
    doubted = {where: "suspect" for where in orphans if where[0] in (misplaced, unreadable)}
    assert confidences(orphans) == confidences(whole["flat-v1"]) | doubted
    doubts = {
        ledger: {row["evidence"]["doubt"] for where, row in orphans.items() if where[0] == ledger}
        for ledger in (misplaced, unreadable)
    }
    out_of_place = f"/ledgers/L{misplaced}: not at the path of a ledger"
    [damaged] = doubts[unreadable]
    assert doubts[misplaced] == {out_of_place}
    assert damaged.startswith(f"/ledgers/L{int(unreadable):010d}: line at byte")
    assert {*report["run"]["in_doubt"]["reasons"]} == {out_of_place, damaged}
    assert "unknown    2 ids: /ledgers/L" in screen


def test_a_record_that_cannot_be_read_puts_all_ids_below_it_in_doubt(
    corpora: Corpora, whole: Orphans, spark: SparkSession, work: Path
) -> None:
    corpus, path = corpora.get("interleaved-hier"), "/ledgers/00/0000"
    dump = with_lines(corpus, work / "below.jsonl", [znode(path, data="not base64")])
    screen, _, orphans = audited(corpus, dump)
    assert orphans.keys() == whole[corpus.name].keys()
    below = {where for where in orphans if int(where[0]) < 10_000}
    assert below
    assert {where for where, confidence in confidences(orphans).items() if confidence == "suspect"} >= below
    assert f"unknown    10,000 ids: {path}: line at byte" in screen


def test_wrong_layout_znode_makes_every_orphan_suspect(
    corpora: Corpora, spark: SparkSession, tmp_path: Path
) -> None:
    """The short tree has all ledgers except the few with ids beyond 31 bits."""
    corpus = corpora.get("interleaved-hier")
    lines = [json.loads(line) for line in corpus.dump.read_text().splitlines()]
    [layout] = [line for line in lines if line["path"] == "/ledgers/LAYOUT"]
    manager = base64.b64decode(layout["data"]).replace(b"Hierarchical", b"LongHierarchical")
    layout["data"] = base64.b64encode(manager).decode()
    dump = tmp_path / "long.jsonl"
    dump.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "run"
    sources = ["--metadata", f"dump://{dump}", "--bookies", str(corpus.bookies), "--out", str(out)]
    ran = CliRunner().invoke(main, ["audit", *sources])
    screen, report, orphans = read_run(out, ran.stdout)
    why = (
        "LAYOUT says longhierarchical, but 64 ledgers are at paths of layout hierarchical; 6 are at paths of "
        "the layout in use"
    )
    assert f"unknown    every id: {why}" in screen
    assert (ran.exit_code, report["verdict"]) == (1, "not-healthy")
    assert report["run"]["in_doubt"] == {"ids": None, "reasons": [why]}
    [misplaced] = [finding for finding in report["findings"] if finding["id"] == "metadata-misplaced"]
    assert (misplaced["severity"], misplaced["confidence"]) == ("critical", "confirmed")
    assert misplaced["message"].startswith(f"{why}; 64 znodes are not at the path of a ledger: ")
    assert len(orphans) > 150
    assert set(confidences(orphans).values()) == {"suspect"}
    rows = pq.read_table(out / "tables" / "gc_foresight").to_pylist()
    foretold = {(str(row["ledger_id"]), row["bookie_id"], row["action"], row["verdict"]) for row in rows}
    assert foretold >= {(*where, "delete", "unknown") for where in orphans}
