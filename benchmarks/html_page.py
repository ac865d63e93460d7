"""Time to write the HTML report, and time until Chromium shows it.

The benchmark generates a run of ``BKAUDIT_FINDINGS`` findings (default 100,000; a page holds at most a
million). The command writes the page of the run, and Chromium opens it ``BKAUDIT_OPENED`` times (default
3). If ``BKAUDIT_PAGE`` names the page of another version, Chromium opens the two pages in turns to compare
them. The least time counts. The note has the median and the largest time.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.findings.table import FINDINGS_SCHEMA
from auditor.model.finding import Confidence, Finding, Missing, Severity
from benchmarks.measure import ROUNDS, Line
from tests.findings.fingerprint import fingerprint
from tests.made_runs import finding_row, made_run
from tests.reports.samples import report, tally

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FINDING_COUNT = int(os.environ.get("BKAUDIT_FINDINGS", "100_000"))
PAGE_OPEN_COUNT = int(os.environ.get("BKAUDIT_OPENED", str(ROUNDS)))
RIVAL_NAME = os.environ.get("BKAUDIT_PAGE")
_BATCH_FINDINGS = 20_000
_SAMPLE_COUNT = 100
_FIRST_PAINT_SCRIPT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_COMMAND_PROGRAM = "import sys; from auditor.cli import main; sys.argv[0] = 'bkaudit'; main()"


def lines() -> Iterator[Line]:
    """Yield lines for writing, first paint, the display of all findings, and a search."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder, sync_playwright() as playwright:
        finding_tallies, samples = (
            [tally("below-write-quorum", "warning", FINDING_COUNT)],
            map(_make_finding, range(_SAMPLE_COUNT)),
        )
        run = made_run(
            Path(folder) / "run",
            report=report(finding_tallies, tuple(samples), changes=None, suppressions=[]),
        )
        _write_findings(Path(folder) / "run" / "findings" / "part-00000.parquet")
        page = Path(folder) / "page.html"
        start_time = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", _COMMAND_PROGRAM, "report", run.path, "--format", f"html={page}"],
            check=True,
        )
        seconds, resource_usage = (
            time.perf_counter() - start_time,
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        processor_seconds = resource_usage.ru_utime + resource_usage.ru_stime
        page_note = f"{page.stat().st_size / 1e6:.1f} MB, {processor_seconds:.1f} s of processor time"
        yield Line(
            "write",
            FINDING_COUNT,
            "findings",
            seconds,
            python_mib=resource_usage.ru_maxrss / 1024,
            note=page_note,
        )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page_times, rival_times = [], []
        for _ in range(PAGE_OPEN_COUNT):
            page_times.append(_open_page(browser, page))
            if RIVAL_NAME:
                rival_times.append(_open_page(browser, Path(RIVAL_NAME)))
        browser.close()
        for number, stage in enumerate(("first paint", "all findings there", "search")):
            least_seconds, note = _summarize_times(page_times, number)
            line = Line(stage, 1, "pages", least_seconds, note=note)
            if rival_times and number == 0:
                rival_least_seconds, rival_note = _summarize_times(rival_times, 0)
                line = replace(
                    line, rival="before", rival_amount=1, rival_seconds=rival_least_seconds, most=True,
                    note=f"{line.note}; before: {rival_note}",
                )  # fmt: skip
            yield line


def _summarize_times(pages_times: list[tuple[float, float, float]], stage: int) -> tuple[float, str]:
    """Return the least of a stage's times, and a text with their median and maximum."""
    times_of_stage = [times_of_page[stage] for times_of_page in pages_times]
    return min(
        times_of_stage
    ), f"median {median(times_of_stage):.3f} s, at most {max(times_of_stage):.3f} s of {len(times_of_stage)}"


def _open_page(browser: Browser, page: Path) -> tuple[float, float, float]:
    """Open a page, and return three times in seconds.

    They are the times until the first paint, until all findings are shown, and for a search.
    """
    browser_tab = browser.new_page()
    start_time = time.perf_counter()
    browser_tab.goto(page.as_uri(), timeout=120_000)
    list_seconds = search_seconds = 0.0
    if browser_tab.locator("#list").count():
        browser_tab.wait_for_selector("#list.virtual", timeout=120_000)
        list_seconds = time.perf_counter() - start_time
        start_time = time.perf_counter()
        browser_tab.locator("[name=find]").fill("bk-17:3181 entries")
        browser_tab.wait_for_selector("#shown:has-text(' of ')")
        search_seconds = time.perf_counter() - start_time
    while (paint_ms := browser_tab.evaluate(_FIRST_PAINT_SCRIPT)) is None:
        time.sleep(0.02)
    browser_tab.close()
    return paint_ms / 1000, list_seconds, search_seconds


def _write_findings(file: Path) -> None:
    for part in file.parent.iterdir():
        part.unlink()
    with pq.ParquetWriter(file, FINDINGS_SCHEMA, write_page_checksum=True) as writer:
        for first_finding in range(0, FINDING_COUNT, _BATCH_FINDINGS):
            rows = [
                finding_row(_make_finding(number))
                for number in range(first_finding, min(first_finding + _BATCH_FINDINGS, FINDING_COUNT))
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=FINDINGS_SCHEMA))


def _make_finding(number: int) -> Finding:
    bookie, entries = f"bk-{number % 97}:3181", number % 500 + 1
    problem_text = f"{entries} of 900 entries have fewer copies than the write quorum of 2"
    return Finding(
        "below-write-quorum",
        Severity.WARNING,
        Confidence.CONFIRMED,
        0,
        number * 37,
        missing=(Missing(bookie, ((0, 0, entries, 0),), entries),),
        message=f"ledger {number * 37}: {problem_text}",
        evidence={"state": "CLOSED", "write_quorum": 2, "ack_quorum": 2, "metadata_version": number % 7},
        fingerprint=fingerprint("below-write-quorum", "one", 0, number * 37, None),
    )
