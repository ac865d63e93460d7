"""Causes of real clusters' findings: those that the faults which were planted make, and no others."""

from __future__ import annotations

from math import ceil

import pytest

from auditor.model.finding import Urgency
from auditor.model.report import Report
from auditor.model.run_facts import RemarkKind
from auditor.reports import first_screen, text
from auditor.reports.plain_text import columns_of
from tests.corpora.audited import Audited
from tests.corpora.corpora import Corpus
from tests.corpora.shared import SOURCES, Corpora, Runs


def report_of(audited: Audited) -> Report:
    return Report.from_json((audited.out / "report.json").read_text("utf-8"))


def planted(corpus: Corpus) -> set[tuple[str, tuple[str, ...]]]:
    """The causes that a corpus's list of faults says there are, and that are certain.

    A bookie that was renamed is only suspected where its disks are swapped: neither id is a cause then.
    """
    found: set[tuple[str, tuple[str, ...]]] = set()
    for fault in corpus.oracle["faults"]:
        if fault["kind"] == "unknown-bookie-in-ensemble":
            found.add(("not-registered", (fault["bookie"],)))
        elif fault["kind"] == "disks-swapped":
            found.add(("disks-swapped", tuple(sorted(each.split()[0] for each in fault["between"]))))
    return found


def test_the_causes_are_the_planted_ones(corpus: Corpus, audited: Audited) -> None:
    causes = report_of(audited).run.causes
    assert causes is not None
    several = {(cause["kind"], tuple(cause["bookies"])) for cause in causes if cause["kind"] != "not-read"}
    assert several == planted(corpus)


@pytest.mark.parametrize("name", ["etcd", "etcd-snapshot"])
def test_the_causes_on_etcd_are_the_planted_ones(name: str, runs: Runs, corpora: Corpora) -> None:
    faults = corpora.of("etcd").oracle["faults"]
    unknown = {fault["unknownBookie"] for fault in faults if "unknownBookie" in fault}
    causes = report_of(runs.of(name)).run.causes
    assert causes is not None
    assert [(cause["kind"], cause["bookies"]) for cause in causes] == [("not-registered", sorted(unknown))]


def test_a_bookie_that_nobody_knows_does_not_explain_what_others_lack(
    corpus: Corpus, audited: Audited
) -> None:
    rows = audited.findings()
    [fault] = [
        each
        for each in corpus.oracle["faults"]
        if "bookie" in each and "alsoMissing" in each and "unknown" in each["kind"]
    ]
    [mine] = [row for row in rows if row["ledger_id"] == fault["ledger"] and not row["bookie_id"]]
    assert fault["bookie"] in mine["unknown"]
    assert mine["cause"] is None
    ghost = [
        row["cause"] for row in rows if row["id"] == "ghost-bookie" and row["bookie_id"] == fault["bookie"]
    ]
    assert ghost != [None]


@pytest.mark.parametrize("width", [80, 100, text.UNLIMITED_WIDTH])
def test_the_first_screen_fits_a_terminal_and_has_what_to_act_on(runs: Runs, width: int) -> None:
    columns = width if width <= 100 else 80
    for name in SOURCES:
        report = runs.of(name).report
        lines = first_screen.render(report, "runs/20261121T050749Z", width).splitlines()
        assert sum(max(1, ceil(columns_of(line) / columns)) for line in lines) <= first_screen.MAX_LINES, name
        urgent = [each for each in report.run.tally if each["urgency"] != Urgency.NOT_URGENT]
        shown = " ".join(lines)
        assert {each["id"] for each in urgent if f"{each['id']} " not in shown} == set(), name
        said = [each["text"] for each in report.run.remarks if RemarkKind(each["kind"]).asks_for_action]
        assert [text for text in said if len(text) > 69 and "/" not in text] == [], "a line beside its label"
        acted_on = lines[lines.index("") :]
        assert any(line.startswith("first action ") for line in acted_on)
        assert not any(line.endswith("...") for line in acted_on)
