"""What each hazard case holds, and that holds survive into the next run."""

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
from tests.hazards.cases import Hazards, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.runs.reader import RunReader


def refuses(run: RunReader, kind: ActionKind, *objects: Any) -> Refused:
    answer = permit(run, kind, objects)
    assert isinstance(answer, Refused)
    return answer


@pytest.mark.parametrize("kind", [ActionKind.COLLECT, ActionKind.COMPACT, ActionKind.DECOMMISSION])
def test_bytes_of_a_dangling_ledger_are_kept(kind: ActionKind, hazards: Hazards) -> None:
    run = hazards.run("h2", 2)
    holders = {row["bookie_id"] for row in run.table("orphans").to_pylist()}
    assert holders
    for name in holders:
        assert "owner-dangling" in {hold.reason for hold in refuses(run, kind, bookie(name)).holds}


def test_copies_that_differ_are_not_copied(hazards: Hazards) -> None:
    run = hazards.run("h3")
    [finding] = [found for found in run.findings if found.id == "replica-mismatch"]
    assert finding.ledger_id is not None
    assert refuses(run, ActionKind.RECOVER, ledger(finding.ledger_id)).is_certain


@pytest.mark.parametrize("kind", [ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION, ActionKind.START])
def test_a_bookie_whose_metadata_is_suspect_keeps_its_data(kind: ActionKind, hazards: Hazards) -> None:
    assert refuses(hazards.run("h5", 2), kind, bookie("bk4:3181")).holds


@pytest.mark.parametrize("kind", [ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION, ActionKind.COLLECT])
def test_an_alias_keeps_its_data_after_it_was_stopped(
    kind: ActionKind, hazards: Hazards, spark: SparkSession, tmp_path: Path
) -> None:
    case = hazards.case("h6")
    lines = Path(case.metadata.removeprefix("dump://")).read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if "/available/bk1new" not in line]
    assert len(kept) == len(lines) - 1
    end = json.loads(kept[-1])["end"]
    kept[-1] = json.dumps({"end": {"nodes": end["nodes"] - 1}}) + "\n"
    (tmp_path / "metadata.jsonl").write_text("".join(kept), "utf-8")
    shutil.copytree(hazards.run("h6").path, tmp_path / "1")
    Audit(f"dump://{tmp_path}/metadata.jsonl", [case.bookies], str(tmp_path / "2")).run(spark)
    stopped = opened(tmp_path / "2")
    refused = refuses(stopped, kind, bookie("bk1new:3181"))
    assert {hold.reason for hold in refused.holds if hold.carried} >= {"bookie-alias"}
    assert min(hold.first_seen for hold in refused.holds) < stopped.report.run.finished


def test_a_run_without_entry_logs_keeps_the_holds_that_rest_on_them(
    hazards: Hazards, spark: SparkSession, tmp_path: Path
) -> None:
    """A start would have the collector delete the bytes of ledger 30, which no index lists."""
    case = hazards.case("h11")
    shutil.copytree(hazards.run("h11").path, tmp_path / "1")
    Audit(case.metadata, [case.bookies], str(tmp_path / "2")).run(spark)
    later = opened(tmp_path / "2")
    for name in ("bk1:3181", "bk2:3181"):
        [start] = refuses(later, ActionKind.START, bookie(name)).holds
        assert (start.reason, start.carried) == ("gc-would-delete-live", True)
        reasons = {hold.reason for hold in refuses(later, ActionKind.DECOMMISSION, bookie(name)).holds}
        assert reasons >= {"gc-would-delete-live", "unindexed-bytes"}


@pytest.mark.parametrize("kind", [ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION, ActionKind.COLLECT])
def test_the_last_copy_outside_its_ensembles_is_kept(kind: ActionKind, hazards: Hazards) -> None:
    assert refuses(hazards.run("h10", 2), kind, bookie("bk4:3181")).is_certain


def test_disks_of_another_cluster_get_no_cookie_of_this_one(hazards: Hazards) -> None:
    run = hazards.run("h12")
    [finding] = [found for found in run.findings if found.id == "instance-mismatch"]
    assert finding.bookie_id is not None
    refuses(run, ActionKind.MAKE_COOKIE, bookie(finding.bookie_id))


def test_a_bookie_without_its_disk_is_not_started(hazards: Hazards) -> None:
    refuses(hazards.run("h16"), ActionKind.START, bookie("bk1:3181"))


def test_a_ledger_whose_only_copy_is_on_a_bookie_that_is_down_is_not_recovered(hazards: Hazards) -> None:
    run = hazards.run("h17")
    refused = refuses(run, ActionKind.RECOVER, ledger(30))
    assert "copies-on-down-bookies" in {hold.reason for hold in refused.holds}
    refuses(run, ActionKind.DELETE_LEDGER, ledger(30))


@pytest.mark.parametrize("kind", [ActionKind.WAIT, ActionKind.RECOVER, ActionKind.DELETE_LEDGER])
def test_ledgers_without_a_registered_member(kind: ActionKind, hazards: Hazards) -> None:
    run = hazards.run("h20", 2)
    for number in range(20, 25):
        refused = refuses(run, kind, ledger(number))
        if kind is not ActionKind.DELETE_LEDGER:
            assert "no-member-registered" in {hold.reason for hold in refused.holds}


def test_without_an_earlier_run_nothing_is_deleted_for_good(hazards: Hazards) -> None:
    for kind in (ActionKind.DELETE_LEDGER, ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION):
        assert "earlier run" in refuses(hazards.run("f1"), kind, bookie("bk2:3181")).reason
