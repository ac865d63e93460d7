"""Causes of real clusters' findings: those of the planted faults, and no others."""

from __future__ import annotations

from math import ceil

import pytest

from auditor.model.finding import Urgency
from auditor.model.report import Report
from auditor.model.run_facts import RemarkKind
from auditor.reports import first_screen, text
from auditor.reports.plain_text import columns_of
from tests.corpora.audited import FinishedRun
from tests.corpora.corpora import Corpus
from tests.corpora.shared import SOURCES, Corpora, Runs


def report_of(audited: FinishedRun) -> Report:
    return Report.from_json((audited.out / "report.json").read_text("utf-8"))


def planted(corpus: Corpus) -> set[tuple[str, tuple[str, ...]]]:
    """Return the certain causes according to a corpus's list of faults.

    A renamed bookie is only suspected where its disks are swapped: neither id is a cause then.
    """
    causes: set[tuple[str, tuple[str, ...]]] = set()
    for fault in corpus.oracle["faults"]:
        if fault["kind"] == "unknown-bookie-in-ensemble":
            causes.add(("not-registered", (fault["bookie"],)))
        elif fault["kind"] == "disks-swapped":
            causes.add(("disks-swapped", tuple(sorted(disk.split()[0] for disk in fault["between"]))))
    return causes


def test_causes_equal_the_planted_causes(corpus: Corpus, audited: FinishedRun) -> None:
    causes = report_of(audited).run.causes
    assert causes is not None
    several = {(cause["kind"], tuple(cause["bookies"])) for cause in causes if cause["kind"] != "not-read"}
    assert several == planted(corpus)


@pytest.mark.parametrize("name", ["etcd", "etcd-snapshot"])
def test_causes_on_etcd_equal_the_planted_causes(name: str, runs: Runs, corpora: Corpora) -> None:
    faults = corpora.get("etcd").oracle["faults"]
    unknown = {fault["unknownBookie"] for fault in faults if "unknownBookie" in fault}
    causes = report_of(runs.get(name)).run.causes
    assert causes is not None
    assert [(cause["kind"], cause["bookies"]) for cause in causes] == [("not-registered", sorted(unknown))]


def test_unknown_bookie_does_not_explain_copies_missing_on_other_bookies(
    corpus: Corpus, audited: FinishedRun
) -> None:
    rows = audited.findings()
    [fault] = [
        candidate
        for candidate in corpus.oracle["faults"]
        if "bookie" in candidate and "alsoMissing" in candidate and "unknown" in candidate["kind"]
    ]
    [finding] = [row for row in rows if row["ledger_id"] == fault["ledger"] and not row["bookie_id"]]
    assert fault["bookie"] in finding["unknown"]
    assert finding["cause"] is None
    ghost = [
        row["cause"] for row in rows if row["id"] == "ghost-bookie" and row["bookie_id"] == fault["bookie"]
    ]
    assert ghost != [None]


@pytest.mark.parametrize("width", [80, 100, text.UNLIMITED_WIDTH])
def test_first_screen_fits_the_terminal_and_lists_the_urgent_findings(runs: Runs, width: int) -> None:
    columns = width if width <= 100 else 80
    for name in SOURCES:
        report = runs.get(name).report
        lines = first_screen.render(report, "runs/20261121T050749Z", width).splitlines()
        assert sum(max(1, ceil(columns_of(line) / columns)) for line in lines) <= first_screen.MAX_LINES, name
        urgent = [row for row in report.run.tally if row["urgency"] != Urgency.NOT_URGENT]
        screen = " ".join(lines)
        assert {row["id"] for row in urgent if f"{row['id']} " not in screen} == set(), name
        texts = [row["text"] for row in report.run.remarks if RemarkKind(row["kind"]).asks_for_action]
        assert [text for text in texts if len(text) > 69 and "/" not in text] == [], "a line beside its label"
        acted_on = lines[lines.index("") :]
        assert any(line.startswith("first action ") for line in acted_on)
        assert not any(line.endswith("...") for line in acted_on)
