"""An audit of a packed dump that is cut says that ids are in doubt.

One of a packed dump that is whole says what an audit of the dump says: `tests.corpora.test_cut_dumps`.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from auditor.cli import main
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


def audited(dump: Path, data: bytes, bookies: Path) -> tuple[list[Row], Row, str]:
    """Findings, report and screen of an audit of a dump with these bytes, whatever it is called."""
    dump.write_bytes(data)
    out = dump.with_name(f"run-{dump.name}")
    sources = ["--metadata", f"dump://{dump}", "--bookies", str(bookies)]
    ran = CliRunner().invoke(main, ["audit", *sources, "--out", str(out)])
    assert ran.exit_code in (1, 3), ran.output
    return *finished(out), ran.stdout


def finished(out: Path) -> tuple[list[Row], Row]:
    """Findings and report of a run."""
    found = CliRunner().invoke(main, ["report", str(out), "--format", "jsonl"]).stdout.splitlines()
    return [json.loads(row) for row in found], json.loads((out / "report.json").read_text())


def test_packed_and_cut(corpora: Corpora, runs: Runs, spark: SparkSession, tmp_path: Path) -> None:
    corpus = corpora.of("interleaved-hier")
    plain = corpus.dump.read_bytes()
    findings, report = finished(runs.of("interleaved-hier").out)
    cut, doubted, screen = audited(tmp_path / "gzip", gzip.compress(plain)[:-4], corpus.bookies)
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
