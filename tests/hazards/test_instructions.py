"""The program's output for each hazard case has no instruction that a hold forbids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Answer, Cause
from auditor.reports.decommission import decommission_text
from auditor.runs.load_space import space_view
from tests.hazards.cases import HOUR_MS, Hazards

if TYPE_CHECKING:
    from auditor.runs.reader import RunReader

WRITES = re.compile(
    r"bookkeeper shell (deleteledger|recover -l \d|recover -sk -sku bk|decommissionbookie"
    r"|cookie_(delete|create|update|generate) )"
)


def command_output(monkeypatch: pytest.MonkeyPatch, run: RunReader, *command: str) -> str:
    """Return the output of a command of the program, run as of one hour after a run's scan."""
    now_ms = run.report.run.scan_time + HOUR_MS
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: now_ms)
    result = CliRunner().invoke(main, [*command, "--run", run.path])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("case", "name", "reasons"),
    [
        pytest.param("h10", "bk4:3181", {"gc-would-delete-live", "foreign-copy"}, id="last copy elsewhere"),
        pytest.param("h6", "bk1new:3181", {"bookie-alias"}, id="alias"),
        pytest.param("h5", "bk4:3181", {"metadata-suspect"}, id="metadata is suspect"),
    ],
)
def test_a_bookie_with_needed_data_is_not_decommissioned(
    case: str, name: str, reasons: set[str], hazards: Hazards
) -> None:
    rehearsal = rehearse(hazards.run(case, 2), [name])
    certain = {hold.reason for hold in rehearsal.together.holds if hold.certain}
    assert rehearsal.answer is (Answer.NEVER if certain else Answer.UNKNOWN)
    assert rehearsal.exit_code == (1 if certain else 3)
    assert reasons & {hold.reason for hold in rehearsal.together.holds}
    text = decommission_text(rehearsal)
    assert not WRITES.search(text)
    assert "lifted when" in text


def test_last_copy_outside_its_ensembles_refuses_decommissioning_for_certain(hazards: Hazards) -> None:
    rehearsal = rehearse(hazards.run("h10", 2), ["bk4:3181"])
    assert rehearsal.exit_code == 1
    first = decommission_text(rehearsal).split("(exit 1)")[0]
    assert first.startswith("decommission bk4:3181: refused.")
    assert "1 live ledger (30)" in " ".join(first.split())


def test_holders_of_a_dangling_ledger_are_not_decommissioned(hazards: Hazards) -> None:
    run = hazards.run("h2", 2)
    for name in {row["bookie_id"] for row in run.table("orphans").to_pylist()}:
        rehearsal = rehearse(run, [name])
        assert rehearsal.answer is not Answer.NOW
        assert "owner-dangling" in {hold.reason for hold in rehearsal.together.holds}


def test_a_first_run_permits_no_decommissioning(hazards: Hazards) -> None:
    rehearsal = rehearse(hazards.run("h10"), ["bk3:3181"])
    assert rehearsal.answer is not Answer.NOW
    assert Cause.NO_EARLIER_RUN in {blocker.cause for blocker in rehearsal.together.blockers}


def test_a_ledger_that_a_stopped_bookie_has_is_neither_deleted_nor_recovered(
    hazards: Hazards, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = command_output(monkeypatch, hazards.run("h17", 2), "explain", "ledger", "30")
    assert "copies-on-down-bookies" in text
    assert not WRITES.search(text)
    assert "do not recover, delete ledger:" in text


@pytest.mark.parametrize("ledger", range(20, 25))
def test_ledger_without_registered_member_has_no_writing_command(
    ledger: int, hazards: Hazards, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = command_output(monkeypatch, hazards.run("h20", 2), "explain", "ledger", str(ledger))
    assert "do not recover, wait, delete ledger:" in text
    assert "(no-member-registered)" in text
    assert not WRITES.search(text)


def test_explain_bookie_forbids_to_start_a_bookie_without_its_disk(
    hazards: Hazards, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = command_output(monkeypatch, hazards.run("h16", 2), "explain", "bookie", "bk1:3181")
    assert re.search(r"do not start, make cookie, .* until:", text)
    assert re.search(r"do not .* start, rebuild index: .* would not restart", text)
    assert "Do not: create a cookie for bk1:3181" in text
    # Its ledgers may be copied to others; nothing else may be done before the disk is mounted.
    assert {*WRITES.findall(text)} <= {("recover -sk -sku bk", "")}


def test_bookie_with_suspect_metadata_gets_no_writing_command(
    hazards: Hazards, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = command_output(monkeypatch, hazards.run("h5", 2), "explain", "bookie", "bk4:3181")
    assert not WRITES.search(text)
    assert "metadata-suspect" in text


def test_space_offers_no_collection_of_logs_of_owner_named_ledgers(
    hazards: Hazards, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = hazards.run("h2", 2)
    view = space_view(run, "bookie")
    holders = {row["bookie_id"] for row in run.table("orphans").to_pylist()}
    assert holders
    assert holders.isdisjoint(step.bookie_id for step in view.steps)
    assert all("owner-dangling" in row.reasons for row in view.refused if row.bookie_id in holders)
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: run.report.run.scan_time + HOUR_MS)
    text = CliRunner().invoke(main, ["space", run.path]).stdout
    assert "bytes" in text
    assert "curl" not in text
