"""What a run could not see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.checks import BY_ID, Basis, Need
from auditor.findings.basis import of_marks
from auditor.model.report import BookiesRead, Report
from auditor.model.run_view import RunView, UnreadBookie
from auditor.reports.blind_spots import blind_spots, checks_that_need
from tests.reports.samples import TALLIES, coverage, report, tally

COPIES = checks_that_need(Need.COPIES, Need.DISKS)
DISKS = checks_that_need(Need.DISKS)
MARKS = checks_that_need(Need.MARKS)

WHOLE = report(coverage=coverage(True))
SEEN = RunView("runs/1", WHOLE, directories=9, marks_listed=True)


def of(run: RunView) -> dict[str, set[str]]:
    """Why, and what is blind for that."""
    return {spot.why: set(spot.ids) for spot in blind_spots(run)}


def changed(of: Report = WHOLE, **run: Any) -> Report:
    return replace(of, run=replace(of.run, **run))


def test_a_run_that_saw_all_has_no_blind_spot() -> None:
    assert blind_spots(SEEN) == []


def test_what_a_check_rests_on_it_needs() -> None:
    for check in BY_ID.values():
        if check.rests_on in (Basis.OWNERS, Basis.OBJECTS):
            assert Need.OWNERS in check.needs, check.id
            assert (Need.OBJECTS in check.needs) == (check.rests_on is Basis.OBJECTS), check.id
        elif check.rests_on is not Basis.METADATA:
            assert check.needs & {Need.COPIES, Need.DISKS, Need.ENTRY_LOGS}, check.id


def test_checks_of_marks_and_of_storage_say_so() -> None:
    assert {id for id in BY_ID if of_marks(id)} <= set(MARKS)
    of_logs = {*checks_that_need(Need.ENTRY_LOGS)}
    assert {each.id for each in BY_ID.values() if each.group == "storage"} <= {*COPIES} | of_logs


def test_entry_logs_that_were_not_read_say_nothing() -> None:
    unread = replace(SEEN, report=changed(entry_logs=False))
    assert of(unread) == {
        "entry logs were not read: --entry-logs reads them": {*checks_that_need(Need.ENTRY_LOGS)}
    }


def test_entries_that_were_not_read_whole_say_nothing_of_their_digests() -> None:
    shallow = replace(SEEN, report=changed(operations={"open": 340}))
    assert of(shallow) == {"no entry was read whole: --deep does": {*checks_that_need(Need.DIGESTS)}}


def test_without_owners_nobody_leaks_and_without_a_listing_no_copy_is_missed() -> None:
    nobody = replace(SEEN, report=changed(owners=False, offload_listing=False))
    [(why, ids)] = of(nobody).items()
    assert "--owners" in why
    assert {"ledger-unowned", "owner-dangling", "object-orphan"} <= ids
    [(why, ids)] = of(replace(SEEN, report=changed(offload_listing=False))).items()
    assert "--offload-listing" in why
    assert ids == {"object-orphan", "offload-object-missing"}


def test_etcd_keeps_neither_marks_nor_times() -> None:
    etcd = replace(WHOLE, cluster=replace(WHOLE.cluster, layout="etcd"))
    found = of(replace(SEEN, report=etcd, marks_listed=False))
    assert found["etcd keeps no under-replication marks and no locks"] == set(MARKS)
    assert found["etcd keeps no times, so no age is known"] == {"index-incomplete", "recovery-stuck"}
    assert len(found) == 2


def test_marks_that_could_not_be_listed_say_nothing_by_being_absent() -> None:
    assert of(replace(SEEN, marks_listed=False)) == {
        "not all under-replication marks could be listed": {
            "mark-missing",
            "mark-directory-empty",
            "lock-without-mark",
        }
    }


def test_bookies_that_could_not_be_listed_are_none_of_the_checks_that_ask_who_is_absent() -> None:
    absent = set(checks_that_need(Need.ALL_BOOKIES))
    assert {"ghost-bookie", "bookie-down", "cookie-missing", "cookie-unused", "mark-missing"} <= absent
    assert of(replace(SEEN, bookies_hidden="the dump is cut")) == {"the dump is cut": absent}
    [spot] = blind_spots(replace(SEEN, unclear_bookies=("a:1", "b:1")))
    assert (set(spot.ids), spot.where) == (absent, "a:1, b:1")


def test_bookies_that_were_only_asked_show_no_disk() -> None:
    [spot] = blind_spots(replace(SEEN, directories=0))
    assert (spot.ids, spot.where) == (DISKS, "")
    assert "rpc:" in spot.why


@pytest.mark.parametrize(
    ("live", "why"),
    [
        (False, "saved metadata: no bookie was asked what its index lacks"),
        (True, "--witness no: no bookie was asked what its index lacks"),
    ],
)
def test_where_nobody_could_be_asked_no_index_is_known_to_be_incomplete(live: bool, why: str) -> None:
    unasked = replace(SEEN, report=changed(live=live), witness=False)
    assert of(unasked) == {why: {"index-incomplete"}}
    assert of(replace(unasked, directories=0)).keys() == of(replace(SEEN, directories=0)).keys()


def test_without_any_bookie_nothing_is_known_of_copies_once() -> None:
    none = replace(WHOLE.coverage, bookies=BookiesRead(3, 0, ("a:1", "b:1", "c:1")))
    unread = (UnreadBookie("a:1", "unread", None, 7),)
    found = of(replace(SEEN, report=replace(WHOLE, coverage=none), directories=0, unread=unread))
    assert found == {"no bookie was read": set(COPIES)}
    only = replace(changed(bookie_sources=[]), coverage=none)
    assert of(replace(SEEN, report=only, directories=0, unread=unread)) == {
        "no --bookies was given": set(COPIES)
    }


def test_a_bookie_that_was_not_read_is_a_blind_spot_by_name() -> None:
    unread = (UnreadBookie("bk-c:3181", "unread", "not mounted", 20),)
    [spot] = blind_spots(replace(SEEN, report=report(), unread=unread))
    assert (spot.ids, spot.where) == (COPIES, "bk-c:3181")
    many = replace(coverage(), bookies=BookiesRead(40, 3, tuple(f"b{n}:1" for n in range(37))))
    [spot] = blind_spots(replace(SEEN, report=report(coverage=many), unread=unread))
    assert spot.where == "37 bookies that were not read whole"


def test_one_scan_cannot_see_a_change() -> None:
    [spot] = blind_spots(replace(SEEN, report=changed(positions=["0x16f"])))
    assert spot.ids == ("orphan-ledger-deleting", "registered-twice")


def test_ids_in_doubt_hide_marks_of_deleted_ledgers_and_no_orphan() -> None:
    holed = changed(in_doubt={"ids": "1", "reasons": ["/ledgers/L5: not at the path of a ledger"]})
    assert of(replace(SEEN, report=replace(holed, coverage=coverage(True)))) == {
        "a part of the ledger tree could not be read, or lies in the wrong place": {"mark-of-deleted-ledger"}
    }
    misplaced = report([*TALLIES, tally("metadata-misplaced", "error")])
    assert of(replace(SEEN, report=replace(misplaced, coverage=coverage(True)))) == {}


def test_without_an_instance_id_nothing_differs_from_it() -> None:
    unnamed = replace(WHOLE, cluster=replace(WHOLE.cluster, instance_id=None))
    assert list(of(replace(SEEN, report=unnamed)).values()) == [{"instance-mismatch"}]
