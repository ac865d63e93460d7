"""The HTML report: how long it takes to write, and how soon Chromium shows it.

A run of BKAUDIT_FINDINGS findings (100,000) is made by hand, its page written and opened three times.
Where BKAUDIT_PAGE names a page that another version wrote, that is the rival, opened in turn.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.findings.table import FINDINGS
from auditor.model.finding import Confidence, Finding, Missing, Severity, fingerprint
from benchmarks.measure import ROUNDS, Line
from tests.made_runs import finding_row, made_run
from tests.reports.samples import report, tally

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COUNT = int(os.environ.get("BKAUDIT_FINDINGS", "100_000"))
RIVAL = os.environ.get("BKAUDIT_PAGE")
_BATCH = 20_000


def lines() -> Iterator[Line]:
    """Writing, first paint, all findings unpacked, a search."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder, sync_playwright() as playwright:
        of = report([tally("below-write-quorum", "warning", COUNT)], (), changes=None, suppressions=[])
        run = made_run(Path(folder) / "run", report=of)
        _write_findings(Path(folder) / "run" / "findings" / "part-00000.parquet")
        page = Path(folder) / "page.html"
        began = time.perf_counter()
        run.write("html", page)
        size = f"{page.stat().st_size / 1e6:.1f} MB"
        yield Line("write", COUNT, "findings", time.perf_counter() - began, note=size)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(_opened(browser, page))
            if RIVAL:
                theirs.append(_opened(browser, Path(RIVAL)))
        browser.close()
        for number, stage in enumerate(("first paint", "all findings there", "search")):
            best = min(each[number] for each in ours)
            line = Line(stage, 1, "pages", best)
            if theirs and number == 0:
                before = min(each[0] for each in theirs)
                line = replace(line, rival="before", rival_amount=1, rival_seconds=before, most=True)
            yield line


def _opened(browser: Browser, page: Path) -> tuple[float, float, float]:
    """Seconds until something is seen, until all findings are there, and that a search takes."""
    tab = browser.new_page()
    began = time.perf_counter()
    tab.goto(page.as_uri(), timeout=120_000)
    ready = search = 0.0
    if tab.locator("#list").count():
        tab.wait_for_selector("#list.virtual", timeout=120_000)
        ready = time.perf_counter() - began
        began = time.perf_counter()
        tab.locator("[name=find]").fill("bk-17:3181 entries")
        tab.wait_for_selector("#shown:has-text(' of ')")
        search = time.perf_counter() - began
    paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
    tab.close()
    return paint, ready, search


def _write_findings(file: Path) -> None:
    for other in file.parent.iterdir():
        other.unlink()
    with pq.ParquetWriter(file, FINDINGS, write_page_checksum=True) as writer:
        for first in range(0, COUNT, _BATCH):
            rows = [finding_row(_finding(number)) for number in range(first, min(first + _BATCH, COUNT))]
            writer.write_table(pa.Table.from_pylist(rows, schema=FINDINGS))


def _finding(number: int) -> Finding:
    bookie, entries = f"bk-{number % 97}:3181", number % 500 + 1
    what = f"{entries} of 900 entries have fewer copies than the write quorum of 2"
    return Finding(
        "below-write-quorum",
        Severity.WARNING,
        Confidence.CONFIRMED,
        0,
        number * 37,
        missing=(Missing(bookie, ((0, 0, entries, 0),), entries),),
        message=f"ledger {number * 37}: {what}",
        evidence={"state": "CLOSED", "write_quorum": 2, "ack_quorum": 2, "metadata_version": number % 7},
        fingerprint=fingerprint("below-write-quorum", "one", 0, number * 37, None),
    )
