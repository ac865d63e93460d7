"""An audit of a packed dump says what an audit of the dump says; of a cut one, that ids are in doubt."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from auditor.cli import main
from tests.corpora.corpora import Corpus, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return unpack("interleaved-hier", tmp_path_factory.mktemp("packed") / "corpus")


def audited(corpus: Corpus, name: str, data: bytes) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """Findings, report and screen of an audit of a dump with these bytes, whatever it is called."""
    (corpus.root / name).write_bytes(data)
    out = corpus.root / f"run-{name}"
    sources = ["--metadata", f"dump://{corpus.root / name}", "--bookies", str(corpus.bookies)]
    ran = CliRunner().invoke(main, ["audit", *sources, "--out", str(out)])
    assert ran.exit_code in (1, 3), ran.output
    found = CliRunner().invoke(main, ["report", str(out), "--format", "jsonl"]).stdout.splitlines()
    return [json.loads(row) for row in found], json.loads((out / "report.json").read_text()), ran.stdout


def test_packed_whole_and_cut(corpus: Corpus, spark: SparkSession) -> None:
    plain = corpus.dump.read_bytes()
    findings, report, _ = audited(corpus, "plain", plain)
    again, other, _ = audited(corpus, "zstd", pa.Codec("zstd").compress(plain, asbytes=True))
    assert again == findings
    for same in ("counts", "coverage", "verdict"):
        assert other[same] == report[same]

    cut, doubted, screen = audited(corpus, "gzip", gzip.compress(plain)[:-4])
    assert "in doubt   " in screen
    assert doubted["run"]["in_doubt"]["ids"] is None
    reason = f"/ledgers: line at byte {len(plain)}: the gzip stream is cut or damaged"
    assert any(gap.startswith(reason) for gap in doubted["run"]["gaps"])
    of = {row["fingerprint"]: row for row in findings}
    orphans = [row for row in cut if row["id"] == "orphan-ledger"]
    assert len(orphans) == report["counts"]["orphan-ledger"]
    assert {row["confidence"] for row in orphans} == {"suspect"}
    confirmed = [row for row in cut if row["confidence"] == "confirmed"]
    assert all(of[row["fingerprint"]]["confidence"] == "confirmed" for row in confirmed)
