"""What leaves ids unknown, as an operator sees it: no orphan is dropped, and the first screen says why."""

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


def with_lines(corpus: Corpus, path: Path, add: list[Line]) -> Path:
    """The corpus's dump with more znodes."""
    lines = [json.loads(line) for line in corpus.dump.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *add]))
    return path


def znode(path: str, data: str = "") -> Line:
    numbers = dict.fromkeys(("czxid", "mzxid", "version", "ephemeralOwner"), 1)
    return {"path": path, "data": data, "ctime": 5, "mtime": 5, **numbers}


def audited(corpus: Corpus, dump: Path) -> tuple[str, dict[str, Any], dict[tuple[str, str], Line]]:
    """First screen, report, and orphans by ledger and bookie, of an audit of a damaged dump."""
    out = dump.with_name(f"run-{dump.stem}")
    sources = ["--metadata", f"dump://{dump}", "--bookies", str(corpus.bookies), "--out", str(out)]
    ran = CliRunner().invoke(main, ["audit", *sources])
    assert ran.exit_code in (1, 3), ran.output
    return finished(out, ran.stdout)


def finished(out: Path, screen: str) -> tuple[str, dict[str, Any], dict[tuple[str, str], Line]]:
    """The same of a run that is there."""
    found = CliRunner().invoke(main, ["report", str(out), "--format", "jsonl"]).stdout.splitlines()
    rows = [json.loads(line) for line in found]
    orphans = {(row["ledger_id"], row["bookie_id"]): row for row in rows if row["id"] == "orphan-ledger"}
    return screen, json.loads((out / "report.json").read_text()), orphans


@pytest.fixture(scope="module", params=["interleaved-hier", "flat-v1"])
def corpus(request: pytest.FixtureRequest, corpora: Corpora) -> Corpus:
    return corpora.of(request.param)


@pytest.fixture(scope="module")
def work(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doubt")


@pytest.fixture(scope="module")
def whole(corpus: Corpus, runs: Runs) -> dict[tuple[str, str], Line]:
    """The orphans of the corpus as it is."""
    out = runs.of(corpus.name).out
    screen, report, orphans = finished(out, CliRunner().invoke(main, ["report", str(out)]).stdout)
    assert orphans
    assert "in doubt" not in screen
    assert report["run"]["in_doubt"] is None
    return orphans


def confidences(orphans: dict[tuple[str, str], Line]) -> dict[tuple[str, str], str]:
    return {where: row["confidence"] for where, row in orphans.items()}


class Misnamed(NamedTuple):
    """Of a dump with names that no ledger can have, and one that is an orphan's, out of its place."""

    screen: str
    report: dict[str, Any]
    orphans: dict[tuple[str, str], Line]
    strays: list[str]
    ledger: str
    path: str


@pytest.fixture(scope="module")
def misnamed(corpus: Corpus, whole: dict[tuple[str, str], Line], spark: SparkSession, work: Path) -> Misnamed:
    below = "/ledgers/00/0000/" if corpus.name == "interleaved-hier" else "/ledgers/"
    strays = ["notes", "X9999"] if corpus.name == "interleaved-hier" else ["Lnotanumber"]
    ledger = min(int(ledger) for ledger, _ in whole)
    path = f"{below}L{ledger}"
    paths = [*(f"{below}{name}" for name in strays), path]
    dump = with_lines(corpus, work / "misnamed.jsonl", [znode(each) for each in paths])
    return Misnamed(*audited(corpus, dump), strays, str(ledger), path)


def test_names_that_no_ledger_can_have_hide_nothing(
    misnamed: Misnamed, whole: dict[tuple[str, str], Line]
) -> None:
    others = {
        where: said for where, said in confidences(misnamed.orphans).items() if where[0] != misnamed.ledger
    }
    assert others == {
        where: said for where, said in confidences(whole).items() if where[0] != misnamed.ledger
    }
    assert misnamed.orphans.keys() == whole.keys()
    assert misnamed.report["counts"]["metadata-misplaced"] == len(misnamed.strays) + 1
    # What is in doubt is the one id that a name has, and nothing of the others is.
    assert misnamed.report["run"]["in_doubt"]["ids"] == "1"
    [said] = [line for line in misnamed.screen.splitlines() if line.startswith("in doubt ")]
    told = [said, *misnamed.report["run"]["in_doubt"]["reasons"]]
    assert not [line for line in told for stray in misnamed.strays if stray in line]


def test_an_orphan_that_a_misplaced_record_could_be_is_suspected_and_no_other(
    misnamed: Misnamed, whole: dict[tuple[str, str], Line]
) -> None:
    screen, report, orphans, _, ledger, path = misnamed
    expected = confidences(whole) | {where: "suspect" for where in whole if where[0] == ledger}
    assert confidences(orphans) == expected
    why = f"{path}: not at the path of a ledger"
    assert {row["evidence"]["doubt"] for where, row in orphans.items() if where[0] == ledger} == {why}
    assert report["run"]["in_doubt"] == {"ids": "1", "reasons": [why]}
    assert f"in doubt   1 id: {why}" in screen


def test_a_line_that_cannot_be_read_puts_every_orphan_in_doubt_and_drops_none(
    corpus: Corpus, whole: dict[tuple[str, str], Line], spark: SparkSession, work: Path
) -> None:
    dump = with_lines(corpus, work / "torn.jsonl", [])
    with dump.open("a") as file:
        file.write('{"path": "/led\n')
    screen, report, orphans = audited(corpus, dump)
    assert confidences(orphans) == dict.fromkeys(whole, "suspect")
    assert report["run"]["in_doubt"]["ids"] is None
    assert "in doubt   every id: /ledgers: line at byte" in screen


def test_a_record_that_cannot_be_read_puts_its_own_ids_in_doubt(
    corpus: Corpus, whole: dict[tuple[str, str], Line], spark: SparkSession, work: Path
) -> None:
    if corpus.name == "flat-v1":
        ledger = min(int(ledger) for ledger, _ in whole)
        path, ids = f"/ledgers/L{ledger:010d}", "1 id"
    else:
        path, ids = "/ledgers/00/0000", "10,000 ids"
    dump = with_lines(corpus, work / "below.jsonl", [znode(path, data="not base64")])
    screen, _, orphans = audited(corpus, dump)
    below = {where for where in whole if corpus.name != "flat-v1" or where[0] == str(ledger)}
    assert below
    assert {where for where, each in confidences(orphans).items() if each == "suspect"} >= below
    assert orphans.keys() == whole.keys()
    assert f"in doubt   {ids}: {path}: line at byte" in screen


def test_a_tree_that_layout_does_not_name_makes_no_orphan_sure(
    corpora: Corpora, spark: SparkSession, tmp_path: Path
) -> None:
    """All ledgers but the few that are beyond 31 bits lie in the short tree."""
    corpus = corpora.of("interleaved-hier")
    lines = [json.loads(line) for line in corpus.dump.read_text().splitlines()]
    [layout] = [line for line in lines if line["path"] == "/ledgers/LAYOUT"]
    manager = base64.b64decode(layout["data"]).replace(b"Hierarchical", b"LongHierarchical")
    layout["data"] = base64.b64encode(manager).decode()
    dump = tmp_path / "long.jsonl"
    dump.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "run"
    sources = ["--metadata", f"dump://{dump}", "--bookies", str(corpus.bookies), "--out", str(out)]
    ran = CliRunner().invoke(main, ["audit", *sources])
    screen, report, orphans = finished(out, ran.stdout)
    why = "LAYOUT says longhierarchical, but 64 ledgers lie at paths of layout hierarchical, and 6 at its own"
    assert f"in doubt   every id: {why}" in screen
    assert (ran.exit_code, report["verdict"]) == (1, "not-healthy")
    assert report["run"]["in_doubt"] == {"ids": None, "reasons": [why]}
    [misplaced] = [each for each in report["findings"] if each["id"] == "metadata-misplaced"]
    assert (misplaced["severity"], misplaced["confidence"]) == ("critical", "confirmed")
    assert misplaced["message"].startswith(f"{why}; 64 znodes are not at the path of a ledger: ")
    assert len(orphans) > 150
    assert set(confidences(orphans).values()) == {"suspect"}
    rows = pq.read_table(out / "tables" / "gc_foresight").to_pylist()
    foretold = {(str(row["ledger_id"]), row["bookie_id"], row["action"], row["verdict"]) for row in rows}
    assert foretold >= {(*where, "delete", "unknown") for where in orphans}


@pytest.mark.parametrize("cut", ["at a line's end", "inside a line"])
def test_a_dump_that_is_cut_before_the_cookies_makes_no_bookie_a_ghost(
    cut: str, corpora: Corpora, spark: SparkSession, tmp_path: Path
) -> None:
    """Of flat-v1 too: `tests.corpora.test_cut_dumps`."""
    corpus = corpora.of("interleaved-hier")
    lines = [json.loads(line) for line in corpus.dump.read_text().splitlines()]
    tops = ("/ledgers/cookies", "/ledgers/available")
    kept = [json.dumps(line) for line in lines if not line["path"].startswith(tops)]
    text = "\n".join(kept) + "\n"
    dump = tmp_path / "cut.jsonl"
    dump.write_text(text if cut == "at a line's end" else text[:-20])
    screen, report, _ = audited(corpus, dump)
    told = CliRunner().invoke(main, ["explain", "run", str(tmp_path / "run-cut")]).stdout
    no_bookie_is_a_ghost(report, screen, told, "no available and no cookies")


def no_bookie_is_a_ghost(report: dict[str, Any], screen: str, told: str, lacks: str) -> None:
    """Of a dump with neither registrations nor cookies nothing is said of bookies, and why is said."""
    identity = {"ghost-bookie", "bookie-down", "cookie-missing", "cookie-unused", "on-unregistered-bookie"}
    assert not identity & report["counts"].keys()
    reason = f"the dump has {lacks}, and may be cut before it"
    assert f"/ledgers: {reason}" in report["run"]["gaps"]
    assert report["run"]["in_doubt"]["ids"] is None
    blind = " ".join(told.partition("could not be seen")[2].split())
    assert "ghost-bookie" in blind
    assert "not read" in screen
    assert report["verdict"] != "healthy"
