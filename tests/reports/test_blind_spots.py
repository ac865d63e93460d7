"""What a run could not see, and that every form says the same of it."""

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


def of(report: Report) -> dict[str, set[str]]:
    """Why, and what is blind for that."""
    return {spot.reason: set(spot.ids) for spot in make_blind_spots(AvailableInputs.from_report(report))}


def changed(of: Report = WHOLE, **run: Any) -> Report:
    return replace(of, run=replace(of.run, **run))


def unlisted(hidden: str | None = None, *unclear: str) -> Report:
    return changed(bookies_listed={"hidden": hidden, "unclear": [*unclear]})


def test_a_run_that_saw_all_has_no_blind_spot() -> None:
    assert make_blind_spots(AvailableInputs.from_report(WHOLE)) == make_blind_spots(AvailableInputs()) == []


def test_what_a_check_rests_on_it_needs() -> None:
    for check in CHECK_BY_ID.values():
        if check.rests_on in (Basis.OWNERS, Basis.OBJECTS):
            assert Need.OWNERS in check.needs, check.id
            assert (Need.OBJECTS in check.needs) == (check.rests_on is Basis.OBJECTS), check.id
        elif check.rests_on is Basis.PLACEMENT:
            assert Need.LOCATIONS in check.needs, check.id
        elif check.rests_on is not Basis.METADATA:
            assert check.needs & {Need.COPIES, Need.DISKS, Need.ENTRY_LOGS}, check.id
        assert Need.METADATA not in check.needs, check.id


def test_checks_of_marks_and_of_storage_say_so() -> None:
    assert {id for id in CHECK_BY_ID if rests_on_marks(id)} <= set(MARKS)
    of_logs = {*checks_that_need(Need.ENTRY_LOGS)}
    assert {each.id for each in CHECK_BY_ID.values() if GROUP_BY_ID[each.id] == "storage"} <= {
        *COPIES
    } | of_logs


def test_checks_that_use_times_say_so() -> None:
    assert {"lock-without-mark", "mark-directory-empty"} <= {*checks_that_need(Need.TIMES)}


def test_entry_logs_that_were_not_read_say_nothing() -> None:
    assert of(changed(entry_logs=False)) == {
        "entry logs were not read; add --entry-logs": {*checks_that_need(Need.ENTRY_LOGS)}
    }


def test_entries_that_were_not_read_whole_say_nothing_of_their_digests() -> None:
    shallow = changed(operations={"open": 340})
    assert of(shallow) == {
        "no entry was read completely; add --deep to read a sample": {*checks_that_need(Need.DIGESTS)}
    }


def test_without_owners_nobody_leaks_and_without_a_listing_no_copy_is_missed() -> None:
    [(why, ids)] = of(changed(owners=False, offload_listing=False)).items()
    assert "--owners" in why
    assert {"ledger-unowned", "owner-dangling", "object-orphan"} <= ids
    [(why, ids)] = of(changed(offload_listing=False)).items()
    assert "--offload-listing" in why
    assert ids == {"object-orphan", "offload-object-missing"}


@pytest.mark.parametrize("layout", ["etcd", "hierarchical"])
def test_what_a_store_does_not_keep_is_its_own_fact_and_not_its_layout(layout: str) -> None:
    etcd = replace(WHOLE, cluster=replace(WHOLE.cluster, layout=layout))
    found = of(changed(etcd, keeps_marks=False, keeps_times=False, marks_listed=False))
    times = set(checks_that_need(Need.TIMES))
    assert found == {
        "the store keeps no under-replication marks and no locks": set(MARKS),
        "the store keeps no times, so ages are unknown": times,
    }
    # Pulsar's metadata-store:etcd keeps ZooKeeper's paths, marks among them, and no times.
    assert of(changed(etcd, keeps_times=False)) == {"the store keeps no times, so ages are unknown": times}


def test_marks_that_could_not_be_listed_say_nothing_by_being_absent() -> None:
    assert of(changed(marks_listed=False)) == {
        "not all under-replication marks could be listed": {
            "mark-missing",
            "mark-directory-empty",
            "lock-without-mark",
            "no-auditor",
            "no-replication-workers",
        }
    }


def test_bookies_that_could_not_be_listed_are_none_of_the_checks_that_ask_who_is_absent() -> None:
    absent = set(checks_that_need(Need.ALL_BOOKIES))
    assert {"ghost-bookie", "bookie-down", "cookie-missing", "cookie-unused", "mark-missing"} <= absent
    assert of(unlisted("the dump is cut")) == {"the dump is cut": absent}
    [spot] = make_blind_spots(AvailableInputs.from_report(unlisted(None, "a:1", "b:1")))
    assert (set(spot.ids), spot.objects_text) == (absent, "a:1, b:1")


def test_bookies_that_were_only_asked_show_no_disk() -> None:
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
def test_where_nobody_could_be_asked_no_index_is_known_to_be_incomplete(live: bool, why: str) -> None:
    unasked = changed(live=live, witness_asked=False)
    assert of(unasked) == {why: {"index-incomplete"}}
    assert of(changed(unasked, directories_read=0)) == of(changed(directories_read=0))


def test_without_any_bookie_nothing_is_known_of_copies_once() -> None:
    none = replace(WHOLE.coverage, bookies=BookiesRead(3, 0, ("a:1", "b:1", "c:1")))
    unread = replace(changed(directories_read=0), coverage=none)
    of_bookies = {*COPIES, *checks_that_need(Need.ENTRY_LOGS)}
    assert of(unread) == {"no bookie was read": of_bookies}
    assert of(changed(unread, bookie_sources=[])) == {"no --bookies was given": of_bookies}


def test_a_bookie_that_was_not_read_is_a_blind_spot_by_name() -> None:
    of_bookies = checks_that_need(Need.COPIES, Need.DISKS, Need.ENTRY_LOGS)
    [spot] = make_blind_spots(AvailableInputs.from_report(report()))
    assert (spot.ids, spot.objects_text) == (of_bookies, "bk-c:3181")
    many = replace(coverage(), bookies=BookiesRead(40, 3, tuple(f"b{n}:1" for n in range(37))))
    [spot] = make_blind_spots(AvailableInputs.from_report(report(coverage=many)))
    assert spot.objects_text == "37 bookies that were not fully read"


def test_one_scan_cannot_see_a_change() -> None:
    [spot] = make_blind_spots(AvailableInputs.from_report(changed(positions=["0x16f"])))
    assert set(spot.ids) == {"orphan-ledger-deleting", "registered-twice"}


def test_ids_in_doubt_hide_marks_of_deleted_ledgers_and_what_records_say_and_no_orphan() -> None:
    holed = changed(in_doubt={"ids": "1", "reasons": ["/ledgers/L5: not at the path of a ledger"]})
    [(why, ids)] = of(holed).items()
    assert why == "part of the ledger tree could not be read or is at the wrong path"
    assert {"mark-of-deleted-ledger", "segment-gap"} <= ids
    assert not ids & {"orphan-ledger", "entry-lost"}
    misplaced = report([*TALLIES, tally("metadata-misplaced", "error")], coverage=coverage(True))
    assert of(misplaced) == {}


def test_a_gap_of_the_metadata_could_hide_what_any_check_looks_at() -> None:
    [(why, ids)] = of(changed(gaps=["/ledgers/00: no children"])).items()
    assert why == "not all of the metadata could be read"
    assert {"segment-gap", "owner-dangling", "entry-lost", "orphan-ledger"} <= ids


def test_without_an_instance_id_nothing_differs_from_it() -> None:
    unnamed = replace(WHOLE, cluster=replace(WHOLE.cluster, instance_id=None))
    assert list(of(unnamed).values()) == [{"instance-mismatch"}]


def test_a_run_of_an_earlier_version_opens_and_what_it_does_not_say_is_unknown() -> None:
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


BLIND = {
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


@pytest.mark.parametrize("name", BLIND)
def test_every_form_calls_the_same_checks_blind(name: str) -> None:
    run = replace(BLIND[name], run=replace(BLIND[name].run, tally=[]))
    blind, nothing = {*find_blind_spots(run)}, {*checks_without_input(run)}
    assert nothing <= blind
    cases = ET.fromstring(junit.render(run)).iter("testcase")
    assert {case.get("name") for case in cases if case.find("skipped") is not None} == blind
    [invocation] = json.loads("".join(sarif.render(run, ())))["runs"][0]["invocations"]
    rules = [each.get("associatedRule") for each in invocation["toolExecutionNotifications"]]
    assert {rule["id"] for rule in rules if rule} == blind
    metrics = openmetrics.render(run)
    assert {*re.findall(r'^bkaudit_check_blind{.*id="([^"]+)"', metrics, re.MULTILINE)} == blind
    seeing = {*re.findall(r'^bkaudit_findings{.*id="([^"]+)"', metrics, re.MULTILINE)}
    assert seeing == {check.id for check in ALL_CHECKS} - nothing
    rows = [line for line in markdown.render(run).splitlines() if line.startswith("| skipped checks |")]
    assert {id for id in CHECK_BY_ID if any(re.search(rf"[ ,]{id}[ ,]", row) for row in rows)} == blind
    said = f"{len(nothing)} of {len(ALL_CHECKS)} checks had no input"
    for text in (first_screen.render(run), cells.run_cell(run)):
        assert (said in text) == bool(nothing)
    audited = changed(run, blind=[*checks_without_input(run)])  # as an audit writes it
    assert (f"; {len(nothing)} checks skipped; " in history.status_line(audited, "r", 0)) == (
        len(nothing) > 1
    )
