"""Notebook displays of runs, findings, ledgers and bookies."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.errors import RunError
from tests.made_runs import made_run
from tests.notebook.test_frames import ledger, striped
from tests.reports.hostile import BOOKIE, HOSTILE
from tests.reports.samples import BELOW, LOST, report, tally


def test_ledger_has_text_and_html_displays(tmp_path: Path) -> None:
    view = striped(tmp_path).ledger(42)
    assert "bk-b  #X#" in repr(view)
    assert ">×<" in view._repr_html_()
    assert view == striped(tmp_path).ledger(42)
    assert pickle.loads(pickle.dumps(view)) == view


def test_bookie_has_text_and_html_displays(tmp_path: Path) -> None:
    run = made_run(
        tmp_path,
        [BELOW],
        bookies=[
            {"bookie_id": "bk-a:3181", "read": "read", "suspect": False, "foreign_instance": False,
             "marked": False, "ledgers": 3, "depending": 2, "replicas": 2}
        ],
        identities=[{"bookie_id": "bk-a:3181", "aliases": []}],
    )  # fmt: skip
    bookie = run.bookie("bk-a:3181")
    assert "3 name this bookie; 2 depend on it" in repr(bookie)
    shown = bookie._repr_html_()
    assert "below-ack-quorum" in shown
    assert re.findall(r"width:(\d+)px", shown) == ["300", "200", "200", "0"], (
        "named, depending, judged, orphans"
    )
    with pytest.raises(RunError, match="did you mean bk-a:3181"):
        run.bookie("bk-b:3181")


def test_findings_display_counts_without_reading_findings(tmp_path: Path) -> None:
    run = made_run(tmp_path, [LOST], report=report([tally("a", "note", 10**7), tally("b", "error", 2)]))
    for part in (tmp_path / "findings").iterdir():
        part.unlink()
    assert len(run.findings) == 10**7 + 2
    assert repr(run.findings).endswith("2 error, 10,000,000 note; iterate to read them>")
    assert "10,000,002 findings" in run.findings._repr_html_()


def test_run_display_is_its_first_screen(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert "NOT HEALTHY" in repr(run)
    assert len(repr(run).splitlines()) <= 25
    assert "NOT HEALTHY" in run._repr_html_()
    assert "stripes" in repr(run.frames)
    assert "stripes" in repr(run.plot)


def test_hostile_text_is_escaped_in_every_display(tmp_path: Path) -> None:
    availability_row = {
        "scope_id": 0,
        "ledger_id": 1,
        "bookie_id": BOOKIE,
        "state": "ok",
        "groups": b"",
        "reason": BOOKIE,
    }
    hostile = replace(HOSTILE, evidence={})
    row = {"bookie_id": BOOKIE, "read": "partial", "reason": BOOKIE, "suspect": False, "marked": False,
           "foreign_instance": False, "ledgers": 3, "depending": 2, "replicas": 2}  # fmt: skip
    run = made_run(
        tmp_path,
        [hostile],
        report=report([tally(HOSTILE.id, "error")], (hostile,)),
        ledgers=[ledger(1, None, path=BOOKIE, damage=BOOKIE, undecidable=True)],
        availability=[availability_row],
        bookies=[row],
        identities=[{"bookie_id": BOOKIE, "aliases": []}],
    )
    for shown in (run, run.findings, run.ledger(1), run.bookie(BOOKIE)):
        assert "\x1b" not in repr(shown)
        assert "\u202e" not in repr(shown)
        assert "<script" not in shown._repr_html_()
