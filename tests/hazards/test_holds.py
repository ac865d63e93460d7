"""The holds of each hazard case, which also survive into the next run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor import Audit
from auditor.actions.gate import Refused, permit
from auditor.actions.objects import bookie, ledger
from auditor.model.holds import ActionKind
from tests.hazards.cases import Hazards, open_after_scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.runs.reader import RunReader


def refuses(run: RunReader, kind: ActionKind, *objects: Any) -> Refused:
    answer = permit(run, kind, objects)
    assert isinstance(answer, Refused)
    return answer


@pytest.mark.parametrize("kind", [ActionKind.COLLECT, ActionKind.COMPACT, ActionKind.DECOMMISSION])
def test_actions_on_holders_of_a_dangling_ledger_are_refused(kind: ActionKind, hazards: Hazards) -> None:
    run = hazards.run("h2", 2)
    holders = {row["bookie_id"] for row in run.table("orphans").to_pylist()}
    assert holders
    for name in holders:
        assert "owner-dangling" in {hold.reason for hold in refuses(run, kind, bookie(name)).holds}


def test_recovery_of_a_ledger_with_differing_copies_is_refused(hazards: Hazards) -> None:
    run = hazards.run("h3")
    [finding] = [candidate for candidate in run.findings if candidate.id == "replica-mismatch"]
    assert finding.ledger_id is not None
    assert refuses(run, ActionKind.RECOVER, ledger(finding.ledger_id)).is_certain


@pytest.mark.parametrize("kind", [ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION, ActionKind.START])
def test_actions_on_a_bookie_with_suspect_metadata_are_refused(kind: ActionKind, hazards: Hazards) -> None:
    assert refuses(hazards.run("h5", 2), kind, bookie("bk4:3181")).holds


@pytest.mark.parametrize("kind", [ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION, ActionKind.COLLECT])
def test_hold_on_an_alias_is_carried_over_after_the_alias_stopped(
    kind: ActionKind, hazards: Hazards, spark: SparkSession, tmp_path: Path
) -> None:
    case = hazards.case("h6")
    lines = Path(case.metadata.removeprefix("dump://")).read_text("utf-8").splitlines(keepends=True)
    kept_lines = [line for line in lines if "/available/bk1new" not in line]
    assert len(kept_lines) == len(lines) - 1
    end = json.loads(kept_lines[-1])["end"]
    kept_lines[-1] = json.dumps({"end": {"nodes": end["nodes"] - 1}}) + "\n"
    (tmp_path / "metadata.jsonl").write_text("".join(kept_lines), "utf-8")
    shutil.copytree(hazards.run("h6").path, tmp_path / "1")
    Audit(f"dump://{tmp_path}/metadata.jsonl", [case.bookies], str(tmp_path / "2")).run(spark)
    stopped = open_after_scan(tmp_path / "2")
    refused = refuses(stopped, kind, bookie("bk1new:3181"))
    assert {hold.reason for hold in refused.holds if hold.carried} >= {"bookie-alias"}
    assert min(hold.first_seen for hold in refused.holds) < stopped.report.run.finished


def test_run_without_entry_logs_carries_over_the_holds_based_on_entry_logs(
    hazards: Hazards, spark: SparkSession, tmp_path: Path
) -> None:
    """A started bookie's garbage collector would delete the bytes of ledger 30, which no index lists."""
    case = hazards.case("h11")
    shutil.copytree(hazards.run("h11").path, tmp_path / "1")
    Audit(case.metadata, [case.bookies], str(tmp_path / "2")).run(spark)
    later = open_after_scan(tmp_path / "2")
    for name in ("bk1:3181", "bk2:3181"):
        [start] = refuses(later, ActionKind.START, bookie(name)).holds
        assert (start.reason, start.carried) == ("gc-would-delete-live", True)
        reasons = {hold.reason for hold in refuses(later, ActionKind.DECOMMISSION, bookie(name)).holds}
        assert reasons >= {"gc-would-delete-live", "unindexed-bytes"}


@pytest.mark.parametrize("kind", [ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION, ActionKind.COLLECT])
def test_actions_on_a_last_copy_outside_its_ensembles_are_refused(kind: ActionKind, hazards: Hazards) -> None:
    assert refuses(hazards.run("h10", 2), kind, bookie("bk4:3181")).is_certain


def test_making_a_cookie_for_disks_of_another_cluster_is_refused(hazards: Hazards) -> None:
    run = hazards.run("h12")
    [finding] = [candidate for candidate in run.findings if candidate.id == "instance-mismatch"]
    assert finding.bookie_id is not None
    refuses(run, ActionKind.MAKE_COOKIE, bookie(finding.bookie_id))


def test_start_of_a_bookie_without_its_disk_is_refused(hazards: Hazards) -> None:
    refuses(hazards.run("h16"), ActionKind.START, bookie("bk1:3181"))


def test_recover_and_delete_of_a_ledger_with_only_a_down_copy_are_refused(hazards: Hazards) -> None:
    run = hazards.run("h17")
    refused = refuses(run, ActionKind.RECOVER, ledger(30))
    assert "copies-on-down-bookies" in {hold.reason for hold in refused.holds}
    refuses(run, ActionKind.DELETE_LEDGER, ledger(30))


@pytest.mark.parametrize("kind", [ActionKind.WAIT, ActionKind.RECOVER, ActionKind.DELETE_LEDGER])
def test_actions_on_ledgers_with_no_registered_member_are_refused(kind: ActionKind, hazards: Hazards) -> None:
    run = hazards.run("h20", 2)
    for number in range(20, 25):
        refused = refuses(run, kind, ledger(number))
        if kind is not ActionKind.DELETE_LEDGER:
            assert "no-member-registered" in {hold.reason for hold in refused.holds}


def test_permanent_deletions_without_an_earlier_run_are_refused(hazards: Hazards) -> None:
    for kind in (ActionKind.DELETE_LEDGER, ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION):
        assert "earlier run" in refuses(hazards.run("f1"), kind, bookie("bk2:3181")).reason
