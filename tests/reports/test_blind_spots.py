"""Tests of the blind spots of a run, which every form of the report states alike."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from auditor.checks import ALL_CHECKS, CHECK_BY_ID, GROUP_BY_ID, Basis, Need
from auditor.checks.needs import AvailableInputs
from auditor.findings.basis import rests_on_marks
from auditor.model.report import BookiesRead, Report
from auditor.reports import cells, first_screen, history, junit, markdown, openmetrics, sarif
from auditor.reports.blind_spots import (
    checks_that_need,
    checks_without_input,
    find_blind_spots,
    make_blind_spots,
)
from tests.reports.samples import TALLIES, coverage, report, tally

COPIES = checks_that_need(Need.COPIES, Need.DISKS)
DISKS = checks_that_need(Need.DISKS)
MARKS = checks_that_need(Need.MARKS)

WHOLE = report(coverage=coverage(True))
UNKNOWN = "an earlier bkaudit version made this run and did not record whether "


def ids_by_reason(report: Report) -> dict[str, set[str]]:
    """Return the ids of the blind checks by the reason for it."""
    return {spot.reason: set(spot.ids) for spot in make_blind_spots(AvailableInputs.from_report(report))}


def changed(base_report: Report = WHOLE, **run: Any) -> Report:
    return replace(base_report, run=replace(base_report.run, **run))


def unlisted(hidden: str | None = None, *unclear: str) -> Report:
    return changed(bookies_listed={"hidden": hidden, "unclear": [*unclear]})


def test_complete_run_has_no_blind_spot() -> None:
    assert make_blind_spots(AvailableInputs.from_report(WHOLE)) == make_blind_spots(AvailableInputs()) == []


def test_every_check_needs_its_basis() -> None:
    for check in CHECK_BY_ID.values():
        if check.rests_on in (Basis.OWNERS, Basis.OBJECTS):
            assert Need.OWNERS in check.needs, check.id
            assert (Need.OBJECTS in check.needs) == (check.rests_on is Basis.OBJECTS), check.id
        elif check.rests_on is Basis.PLACEMENT:
            assert Need.LOCATIONS in check.needs, check.id
        elif check.rests_on is not Basis.METADATA:
            assert check.needs & {Need.COPIES, Need.DISKS, Need.ENTRY_LOGS}, check.id
        assert Need.METADATA not in check.needs, check.id


def test_checks_of_marks_and_storage_declare_their_needs() -> None:
    assert {id for id in CHECK_BY_ID if rests_on_marks(id)} <= set(MARKS)
    of_logs = {*checks_that_need(Need.ENTRY_LOGS)}
    assert {check.id for check in CHECK_BY_ID.values() if GROUP_BY_ID[check.id] == "storage"} <= {
        *COPIES
    } | of_logs


def test_checks_of_times_declare_their_need() -> None:
    assert {"lock-without-mark", "mark-directory-empty"} <= {*checks_that_need(Need.TIMES)}


def test_unread_entry_logs_are_a_blind_spot() -> None:
    assert ids_by_reason(changed(entry_logs=False)) == {
        "entry logs were not read; add --entry-logs": {*checks_that_need(Need.ENTRY_LOGS)}
    }


def test_unread_entries_are_a_blind_spot_of_digests() -> None:
    shallow = changed(operations={"open": 340})
    assert ids_by_reason(shallow) == {
        "no entry was read completely; add --deep to read a sample": {*checks_that_need(Need.DIGESTS)}
    }


def test_missing_owners_or_offload_listing_are_blind_spots() -> None:
    [(why, ids)] = ids_by_reason(changed(owners=False, offload_listing=False)).items()
    assert "--owners" in why
    assert {"ledger-unowned", "owner-dangling", "object-orphan"} <= ids
    [(why, ids)] = ids_by_reason(changed(offload_listing=False)).items()
    assert "--offload-listing" in why
    assert ids == {"object-orphan", "offload-object-missing"}


@pytest.mark.parametrize("layout", ["etcd", "hierarchical"])
def test_store_without_marks_or_times_has_blind_spots_in_any_layout(layout: str) -> None:
    etcd = replace(WHOLE, cluster=replace(WHOLE.cluster, layout=layout))
    skipped_ids = ids_by_reason(changed(etcd, keeps_marks=False, keeps_times=False, marks_listed=False))
    times = set(checks_that_need(Need.TIMES))
    assert skipped_ids == {
        "the store keeps no under-replication marks and no locks": set(MARKS),
        "the store keeps no times, so ages are unknown": times,
    }
    # Pulsar's metadata-store:etcd keeps ZooKeeper's paths, marks among them, and no times.
    assert ids_by_reason(changed(etcd, keeps_times=False)) == {
        "the store keeps no times, so ages are unknown": times
    }


def test_unlisted_marks_are_a_blind_spot() -> None:
    assert ids_by_reason(changed(marks_listed=False)) == {
        "not all under-replication marks could be listed": {
            "mark-missing",
            "mark-directory-empty",
            "lock-without-mark",
            "no-auditor",
            "no-replication-workers",
        }
    }


def test_unlisted_bookies_are_a_blind_spot_of_absence_checks() -> None:
    absent = set(checks_that_need(Need.ALL_BOOKIES))
    assert {"ghost-bookie", "bookie-down", "cookie-missing", "cookie-unused", "mark-missing"} <= absent
    assert ids_by_reason(unlisted("the dump is cut")) == {"the dump is cut": absent}
    [spot] = make_blind_spots(AvailableInputs.from_report(unlisted(None, "a:1", "b:1")))
    assert (set(spot.ids), spot.objects_text) == (absent, "a:1, b:1")


def test_bookies_read_only_over_rpc_have_disk_blind_spots() -> None:
    [spot] = make_blind_spots(AvailableInputs.from_report(changed(directories_read=0)))
    assert (spot.ids, spot.objects_text) == (DISKS, "")
    assert "rpc:" in spot.reason


@pytest.mark.parametrize(
    ("live", "why"),
    [
        (False, "saved metadata: no bookie was asked for entries missing from its index"),
        (True, "--witness no: no bookie was asked for entries missing from its index"),
    ],
)
def test_unasked_bookies_are_a_blind_spot_of_index_incomplete(live: bool, why: str) -> None:
    unasked = changed(live=live, witness_asked=False)
    assert ids_by_reason(unasked) == {why: {"index-incomplete"}}
    assert ids_by_reason(changed(unasked, directories_read=0)) == ids_by_reason(changed(directories_read=0))


def test_run_without_read_bookies_has_one_blind_spot_for_copies() -> None:
    no_bookies = replace(WHOLE.coverage, bookies=BookiesRead(3, 0, ("a:1", "b:1", "c:1")))
    unread = replace(changed(directories_read=0), coverage=no_bookies)
    of_bookies = {*COPIES, *checks_that_need(Need.ENTRY_LOGS)}
    assert ids_by_reason(unread) == {"no bookie was read": of_bookies}
    assert ids_by_reason(changed(unread, bookie_sources=[])) == {"no --bookies was given": of_bookies}


def test_unread_bookies_are_named_in_a_blind_spot() -> None:
    of_bookies = checks_that_need(Need.COPIES, Need.DISKS, Need.ENTRY_LOGS)
    [spot] = make_blind_spots(AvailableInputs.from_report(report()))
    assert (spot.ids, spot.objects_text) == (of_bookies, "bk-c:3181")
    many = replace(coverage(), bookies=BookiesRead(40, 3, tuple(f"b{n}:1" for n in range(37))))
    [spot] = make_blind_spots(AvailableInputs.from_report(report(coverage=many)))
    assert spot.objects_text == "37 bookies that were not fully read"


def test_single_scan_is_a_blind_spot_of_changes() -> None:
    [spot] = make_blind_spots(AvailableInputs.from_report(changed(positions=["0x16f"])))
    assert set(spot.ids) == {"orphan-ledger-deleting", "registered-twice"}


def test_damaged_ledger_tree_is_a_blind_spot_of_records_but_not_of_orphans() -> None:
    holed = changed(in_doubt={"ids": "1", "reasons": ["/ledgers/L5: not at the path of a ledger"]})
    [(why, ids)] = ids_by_reason(holed).items()
    assert why == "part of the ledger tree could not be read or is at the wrong path"
    assert {"mark-of-deleted-ledger", "segment-gap"} <= ids
    assert not ids & {"orphan-ledger", "entry-lost"}
    misplaced = report([*TALLIES, tally("metadata-misplaced", "error")], coverage=coverage(True))
    assert ids_by_reason(misplaced) == {}


def test_metadata_gap_is_a_blind_spot_of_many_checks() -> None:
    [(why, ids)] = ids_by_reason(changed(gaps=["/ledgers/00: no children"])).items()
    assert why == "not all of the metadata could be read"
    assert {"segment-gap", "owner-dangling", "entry-lost", "orphan-ledger"} <= ids


def test_missing_instance_id_is_a_blind_spot_of_instance_mismatch() -> None:
    unnamed = replace(WHOLE, cluster=replace(WHOLE.cluster, instance_id=None))
    assert list(ids_by_reason(unnamed).values()) == [{"instance-mismatch"}]


def test_run_of_an_earlier_version_has_unknown_blind_spots() -> None:
    value = json.loads(WHOLE.to_json())
    value["schema"] = "bookkeeper-auditor/report/4"
    for name in ("keeps_marks", "keeps_times", "marks_listed", "bookies_listed", "directories_read"):
        del value["run"][name]
    del value["run"]["witness_asked"], value["run"]["blind"], value["run"]["placement"]
    old = Report.from_json(json.dumps(value))
    assert (old.run.keeps_marks, old.run.directories_read) == (None, None)
    spots = find_blind_spots(old)
    assert {*spots} == {
        *MARKS,
        *DISKS,
        *checks_that_need(Need.TIMES, Need.ALL_BOOKIES, Need.BOOKIE_ANSWERS, Need.LOCATIONS),
    }
    assert not any(spot.is_known for spot in spots.values())
    assert spots["recovery-stuck"].sentence == f"unknown whether skipped: {UNKNOWN}the store keeps times"
    assert checks_without_input(old) == ()
    assert f"it is unknown whether {len(spots)} checks had input" in cells.run_cell(old)
    assert "; it is unknown which checks were skipped; " in history.status_line(old, "r", 0)


SAMPLE_RUNS = {
    "rpc: alone": changed(directories_read=0),
    "metadata alone": replace(
        changed(bookie_sources=[], directories_read=0, entry_logs=False, witness_asked=False),
        coverage=replace(WHOLE.coverage, bookies=BookiesRead(3, 0, ("a:1", "b:1", "c:1"))),
    ),
    "saved": changed(live=False, witness_asked=False, positions=["0x16f"]),
    "metadata-store:etcd": changed(keeps_times=False),
    "no instance id": replace(WHOLE, cluster=replace(WHOLE.cluster, instance_id=None)),
    "in part": report(gaps=["/ledgers/00: no children"]),
    "all": WHOLE,
}


@pytest.mark.parametrize("name", SAMPLE_RUNS)
def test_every_report_format_has_the_same_blind_checks(name: str) -> None:
    run = replace(SAMPLE_RUNS[name], run=replace(SAMPLE_RUNS[name].run, tally=[]))
    blind, nothing = {*find_blind_spots(run)}, {*checks_without_input(run)}
    assert nothing <= blind
    cases = ET.fromstring(junit.render(run)).iter("testcase")
    assert {case.get("name") for case in cases if case.find("skipped") is not None} == blind
    [invocation] = json.loads("".join(sarif.render(run, ())))["runs"][0]["invocations"]
    rules = [notification.get("associatedRule") for notification in invocation["toolExecutionNotifications"]]
    assert {rule["id"] for rule in rules if rule} == blind
    metrics = openmetrics.render(run)
    assert {*re.findall(r'^bkaudit_check_blind{.*id="([^"]+)"', metrics, re.MULTILINE)} == blind
    seeing = {*re.findall(r'^bkaudit_findings{.*id="([^"]+)"', metrics, re.MULTILINE)}
    assert seeing == {check.id for check in ALL_CHECKS} - nothing
    rows = [line for line in markdown.render(run).splitlines() if line.startswith("| skipped checks |")]
    assert {id for id in CHECK_BY_ID if any(re.search(rf"[ ,]{id}[ ,]", row) for row in rows)} == blind
    summary = f"{len(nothing)} of {len(ALL_CHECKS)} checks had no input"
    for text in (first_screen.render(run), cells.run_cell(run)):
        assert (summary in text) == bool(nothing)
    audited = changed(run, blind=[*checks_without_input(run)])  # as an audit writes it
    assert (f"; {len(nothing)} checks skipped; " in history.status_line(audited, "r", 0)) == (
        len(nothing) > 1
    )
