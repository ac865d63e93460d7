"""Cut dumps: an audit of one confirms nothing that the audit of the whole dump does not confirm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from click.testing import CliRunner

from auditor.cli import main
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
BEGIN = '{"begin": {}}'
NOTE = "the dump may be cut"


class AuditOutput(NamedTuple):
    """An audit's findings by fingerprint, its report, and the output of ``explain run``."""

    findings: dict[str, Row]
    report: dict[str, Any]
    told: str
    screen: str

    def confirmed(self) -> set[str]:
        return {name for name, row in self.findings.items() if row["confidence"] == "confirmed"}


@pytest.fixture(scope="module")
def corpus(spark: SparkSession, corpora: Corpora) -> Corpus:
    return corpora.get("flat-v1")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cut")


def lines(corpus: Corpus) -> list[str]:
    return corpus.dump.read_text("utf-8").splitlines()


def audit_lines(
    corpus: Corpus, dump: Path, text: list[str], torn: int = 0, packed: str | None = None
) -> AuditOutput:
    """Audit a dump of these lines, without its last ``torn`` bytes, compressed with codec ``packed``."""
    dump_bytes = "".join(f"{line}\n" for line in text).encode()
    dump_bytes = dump_bytes[: len(dump_bytes) - torn]
    dump.write_bytes(pa.Codec(packed).compress(dump_bytes, asbytes=True) if packed else dump_bytes)
    out = str(dump.with_name(f"run-{dump.name}"))
    sources = ["--metadata", f"dump://{dump}", "--bookies", str(corpus.bookies)]
    outcome = CliRunner().invoke(main, ["audit", *sources, "--out", out])
    assert outcome.exit_code in (1, 3), outcome.output
    return read_output(out, outcome.stdout)


def read_output(out: str, screen: str) -> AuditOutput:
    rows = CliRunner().invoke(main, ["report", out, "--format", "jsonl"]).stdout.splitlines()
    explanation = " ".join(CliRunner().invoke(main, ["explain", "run", out]).stdout.split())
    findings = {row["fingerprint"]: row for row in map(json.loads, rows)}
    return AuditOutput(findings, json.loads(Path(out, "report.json").read_text()), explanation, screen)


@pytest.fixture(scope="module")
def whole(runs: Runs) -> AuditOutput:
    """Return the unmodified corpus: its dump has no end line, and the audit takes it as whole."""
    out = str(runs.get("flat-v1").out)
    return read_output(out, CliRunner().invoke(main, ["report", out]).stdout)


def end_of(text: list[str], beginning: str) -> int:
    """Return the number of lines up to the last one whose path starts with ``beginning``."""
    return max(
        number for number, line in enumerate(text, 1) if json.loads(line)["path"].startswith(beginning)
    )


def test_dump_frame_changes_no_finding_and_removes_the_cut_notice(
    corpus: Corpus, whole: AuditOutput, work: Path
) -> None:
    """The dump is also compressed, and reads the same."""
    text = lines(corpus)
    end = json.dumps({"end": {"nodes": len(text)}})
    framed = audit_lines(corpus, work / "framed", [BEGIN, *text, end], packed="zstd")
    assert framed.findings == whole.findings
    assert any(NOTE in note["text"] for note in whole.report["run"]["remarks"])
    assert not any(NOTE in note["text"] for note in framed.report["run"]["remarks"])
    for key in ("counts", "coverage", "verdict"):
        assert framed.report[key] == whole.report[key]


def test_cut_framed_dump_confirms_nothing_beyond_the_full_dump(
    corpus: Corpus, whole: AuditOutput, work: Path
) -> None:
    """The last line but one is gone, too; a cut anywhere: `tests.sources.metadata.dump.test_frame`."""
    cut = audit_lines(corpus, work / "framed-cut", [BEGIN, *lines(corpus)[:-1]])
    assert cut.confirmed() <= whole.confirmed()
    assert cut.report["run"]["in_doubt"]["ids"] is None
    assert 'the "begin" line announces an "end" line, which is missing' in cut.told
    assert "\nunknown    " in cut.screen
    assert cut.report["verdict"] != "healthy"


@pytest.mark.parametrize("place", ["/ledgers/L", "/ledgers/cookies"])
def test_dump_cut_before_or_among_the_bookies_confirms_nothing_beyond_the_full_dump(
    place: str, corpus: Corpus, whole: AuditOutput, work: Path
) -> None:
    text = lines(corpus)
    dump = work / f"plain-{place.rpartition('/')[2]}"
    # The last that begins so is the layout itself: with it the last ledger is cut, inside of its line.
    torn = 20 if place == "/ledgers/L" else 0
    cut = audit_lines(corpus, dump, text[: end_of(text, place) - 1], torn)
    if torn:
        _no_bookie_is_a_ghost(cut)
    assert cut.confirmed() <= whole.confirmed()
    assert cut.report["run"]["in_doubt"]["ids"] is None
    orphans, before = (
        {name: row["confidence"] for name, row in run.findings.items() if row["id"] == "orphan-ledger"}
        for run in (cut, whole)
    )
    assert before
    assert before.keys() <= orphans.keys(), "none is dropped"
    assert {*orphans.values()} == {"suspect"}
    blind = cut.told.partition("skipped checks")[2]
    assert "ghost-bookie" in blind
    assert "mark-missing" in blind


def _no_bookie_is_a_ghost(cut: AuditOutput) -> None:
    """Assert that a dump with no registrations or cookies gives no bookie findings, and says why."""
    identity = {"ghost-bookie", "bookie-down", "cookie-missing", "cookie-unused", "on-unregistered-bookie"}
    assert not identity & cut.report["counts"].keys()
    reason = "the dump has no LAYOUT and no available and no cookies; it may be cut off"
    assert f"/ledgers: {reason}" in cut.report["run"]["gaps"]
    assert "not read" in cut.screen
    assert cut.report["verdict"] != "healthy"


def test_unreadable_registration_excludes_only_its_bookie(
    corpus: Corpus, whole: AuditOutput, work: Path
) -> None:
    text = lines(corpus)
    paths = [json.loads(line)["path"] for line in text]
    about = {"ghost-bookie", "bookie-down", "on-unregistered-bookie", "cookie-missing", "cookie-unused"}
    expected_bookies = {row["bookie_id"] for row in whole.findings.values() if row["id"] in about}
    (position, *_) = [
        n for n, path in enumerate(paths) if path.startswith("/ledgers/available/") and ":" in path
    ]
    hidden = paths[position].rpartition("/")[2]
    assert hidden not in expected_bookies  # it is registered: without its line it would be down
    broken = json.loads(text[position]) | {"data": "?"}
    odd = audit_lines(corpus, work / "odd", [*text[:position], json.dumps(broken), *text[position + 1 :]])
    reported_bookies = {row["bookie_id"] for row in odd.findings.values() if row["id"] in about}
    assert reported_bookies == expected_bookies
    assert hidden in odd.told.partition("skipped checks")[2]
    assert odd.report["verdict"] != "healthy"
