"""Rows of the table ledgers, made from znodes as a store hands them over."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.codecs.availability.wire import expand
from auditor.keys import etcd, ledger_path
from auditor.keys.ledger_tree import LayoutKind, to_path
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID, LedgerId
from auditor.sources.metadata.ledger_rows import LEDGERS, REREAD_LEDGERS, ledger_rows
from auditor.sources.metadata.store import NO_TIME, Znode, ZnodeBatch
from auditor.tables.judge_replicas import groups_of

KIND = LayoutKind.HIERARCHICAL


def metadata(*lines: str) -> bytes:
    """Ledger metadata of format 1."""
    return ("BookieMetadataFormatVersion\t1\n" + "\n".join(lines)).encode()


def rows(znodes: dict[str, bytes], gaps: list[tuple[str, str]] | None = None) -> list[dict[str, Any]]:
    batch = ZnodeBatch.from_znodes(
        [Znode(f"/ledgers/{path}", data, 1, 2, 3, 4, 5, 0) for path, data in znodes.items()], gaps
    )
    found = ledger_rows(batch, "/ledgers", KIND)
    assert found.schema == LEDGERS
    # A second look is a narrower one at the same rows.
    again = ledger_rows(batch, "/ledgers", KIND, REREAD_LEDGERS)
    assert again.equals(found.select(REREAD_LEDGERS.names))
    result: list[dict[str, Any]] = found.to_pylist()
    return result


def held(row: dict[str, Any]) -> dict[str, list[int]]:
    return {each["bookie_id"]: expand(groups_of(each["groups"])).tolist() for each in row["replicas"]}


def test_a_closed_ledger_says_what_each_member_should_hold() -> None:
    (row,) = rows({to_path(KIND, 7): metadata("2", "3", "0", "0\ta\tb\tc", "4\ta\tb\td", "6\tCLOSED")})
    assert (row["ledger_id"], row["status"], row["version"], row["ctime"], row["mtime"]) == (7, "ok", 5, 3, 4)
    assert held(row) == {"a": [0, 2, 3, 5, 6], "b": [0, 1, 3, 4, 6], "c": [1, 2], "d": [4, 5]}
    assert all(each["depends"] for each in row["replicas"])


def test_segments_past_the_last_entry_ask_for_nothing() -> None:
    segments = ("0\ta\tb", "3\ta\tc", "9\ta\td")
    (row,) = rows({to_path(KIND, 7): metadata("2", "2", "0", *segments, "2\tCLOSED")})
    assert held(row) == {"a": [0, 1, 2], "b": [0, 1, 2], "c": [], "d": []}
    assert [each["bookie_id"] for each in row["replicas"] if not each["depends"]] == ["c", "d"]


def test_an_open_ledger_is_judged_up_to_where_its_writer_may_still_be_sending() -> None:
    (row,) = rows({to_path(KIND, 7): metadata("2", "3", "0", "0\ta\tb\tc", "6\ta\tb\td") + b"\n"})
    assert held(row) == {"a": [0, 2, 3], "b": [0, 1, 3], "c": [1, 2], "d": []}
    assert {each["bookie_id"]: each["depends"] for each in row["replicas"]}["d"]


def test_short_segments_of_an_open_ledger_are_judged_like_one_long_one() -> None:
    """Each new segment shows that all entries before it were acknowledged."""
    short = [f"{first}\t{'abc'[first % 3]}\td" for first in range(61)]
    one_by_one, at_once = rows(
        {
            to_path(KIND, 7): metadata("2", "2", "0", *short) + b"\n",
            to_path(KIND, 8): metadata("2", "2", "0", "0\ta\td", "60\tb\td") + b"\n",
        }
    )
    assert held(one_by_one)["d"] == held(at_once)["d"] == [*range(58)]
    assert held(one_by_one)["a"] == [*range(0, 58, 3)]


@pytest.mark.parametrize(
    ("value", "rule", "undecidable"),
    [
        pytest.param(metadata("1", "1", "0", "3\ta", "5\tCLOSED"), "segment-gap", False, id="a gap"),
        pytest.param(metadata("2", "2", "0", "0\ta\ta", "5\tCLOSED"), "ensemble-duplicate", True, id="twice"),
        pytest.param(metadata("3", "2", "0", "0\ta\tb", "5\tCLOSED"), "quorum-invalid", True, id="quorum"),
        pytest.param(metadata("2", "3", "0", "0\ta\tb", "5\tCLOSED"), "ensemble-size", True, id="size"),
        pytest.param(metadata("1", "1", "0", "4\ta", "0\ta", "5\tCLOSED"), "segment-order", True, id="order"),
        pytest.param(metadata("1", "1", "0", "0\ta b", "5\tCLOSED"), "bookie-id-invalid", True, id="id"),
    ],
)
def test_a_broken_rule_is_named(value: bytes, rule: str, undecidable: bool) -> None:
    (row,) = rows({to_path(KIND, 7): value})
    assert row["status"] == "broken"
    assert rule in [broken["rule"] for broken in row["rules"]]
    assert row["undecidable"] is undecidable
    assert undecidable is not any(held(row).values())


def test_damage_is_a_row_with_its_offset() -> None:
    (row,) = rows({to_path(KIND, 7): b"BookieMetadataFormatVersion\t9\n"})
    assert (row["status"], row["undecidable"], row["state"], row["replicas"]) == (
        "unreadable",
        True,
        None,
        [],
    )
    assert row["damage_offset"] == 28


@pytest.mark.parametrize("last", [1 << 51, (1 << 63) - 1])
@pytest.mark.parametrize("first", [0, 1 << 60])
def test_a_ledger_without_a_plausible_end_is_damaged_and_stops_nothing(last: int, first: int) -> None:
    endless = metadata("1", "1", "0", "0\ta", f"{first + 1}\ta", f"{last}\tCLOSED")
    fine = metadata("1", "1", "0", "0\ta", "0\tCLOSED")
    found = rows({to_path(KIND, 7): endless, to_path(KIND, 8): fine})
    assert [row["status"] for row in found] == ["unreadable", "ok"]


def test_what_is_no_ledger_keeps_the_ids_it_could_stand_for() -> None:
    found = rows({"00": b"", "00/0000": b"", "00/0000/L12": b"", "00/0000/X12": b"", "cookies": b""})
    assert [(row["status"], row["ledger_id"], row["low"], row["high"]) for row in found] == [
        ("misplaced", 12, 12, 12),
        ("misplaced", 12, None, None),
    ]


def test_a_record_in_another_layouts_place_says_which() -> None:
    closed = metadata("1", "1", "0", "0\ta", "5\tCLOSED")
    znodes = {"L0000000012": closed, "000/0000/0000/0000/L0013": closed, "00/0000/L0014": closed}
    found = rows({**dict.fromkeys(("000", "000/0000", "L7", "Lost+found"), b""), **znodes})
    assert [(row["status"], row["ledger_id"], row["low"], row["damage"]) for row in found] == [
        ("ok", 14, None, None),
        ("misplaced", None, 12, "a path of layout flat"),
        ("misplaced", 13, 13, "a path of layout longhierarchical"),  # the server lists both trees
    ]


def test_a_gap_keeps_the_ids_below_it() -> None:
    found = rows({}, [("/ledgers/00/0003", "vanished"), ("/ledgers", "no answer"), ("/ledgers/notes", "no")])
    assert [(row["status"], row["low"], row["high"]) for row in found] == [
        ("gap", 30_000, 39_999),
        ("gap", MIN_LEDGER_ID, MAX_LEDGER_ID),
        ("gap", None, None),
    ]


def test_ledgers_of_etcd_have_their_scope_and_no_times() -> None:
    closed = metadata("1", "1", "0", "0\ta", "5\tCLOSED")
    keys = {
        etcd.to_path(LedgerId(7)): ("ok", 0, 7),
        etcd.to_path(LedgerId(-7, scope=2)): ("ok", 2, -7),
        etcd.to_path(LedgerId(7, scope=-3)): ("ok", -3, 7),
        "ledgers/0-0-5-0-9": ("misplaced", 5, None),
        "layout": None,
    }
    numbers = (2, 3, NO_TIME, NO_TIME, 3, 0)
    batch = ZnodeBatch.from_znodes(
        [Znode(f"/bk/{rel}", closed, *numbers) for rel in keys],
        [(f"/bk/{etcd.to_path(LedgerId(8, scope=4))}", "gone"), ("/bk", "gone")],
    )
    found = ledger_rows(batch, "/bk", LayoutKind.ETCD).to_pylist()
    expected = [each for each in keys.values() if each]
    assert [(r["status"], r["scope_id"], r["ledger_id"]) for r in found[:4]] == expected
    assert all((row["ctime"], row["mtime"]) == (None, None) for row in found)
    assert [(r["low"], r["high"]) for r in found[3:]] == [(9, 9), (8, 8), (MIN_LEDGER_ID, MAX_LEDGER_ID)]
    # A gap that is not a ledger's place can hide ledgers of any scope.
    assert [(r["status"], r["scope_id"]) for r in found[4:]] == [("gap", 4), ("gap", None)]


@pytest.mark.parametrize("layout", [kind for kind in LayoutKind if kind is not LayoutKind.ETCD])
def test_ledgers_of_scopes_beside_any_layout_of_zookeeper_have_their_scope(layout: LayoutKind) -> None:
    closed = metadata("1", "1", "0", "0\ta", "5\tCLOSED")
    one, other = (
        ledger_path.to_scope_id_path(LedgerId(7, scope=1)),
        ledger_path.to_scope_id_path(LedgerId(-7, scope=-3)),
    )
    steps = [one.rsplit("/", up)[0] for up in range(8, 0, -1)]
    znodes = {to_path(layout, 7): closed, **dict.fromkeys(steps, b""), one: closed, other: closed}
    strays = {"scopes/x": closed, f"{one}/x": closed}
    numbers = (2, 3, 4, 5, 0, 0)
    batch = ZnodeBatch.from_znodes(
        [Znode(f"/bk/{rel}", data, *numbers) for rel, data in (znodes | strays).items()],
        [("/bk/scopes", "refused"), (f"/bk/{steps[4]}", "refused")],
    )
    found = ledger_rows(batch, "/bk", layout).to_pylist()
    everything = (MIN_LEDGER_ID, MAX_LEDGER_ID)
    assert [(r["status"], r["scope_id"], r["ledger_id"], r["low"], r["high"]) for r in found] == [
        ("ok", 0, 7, None, None),
        ("ok", 1, 7, None, None),
        ("ok", -3, -7, None, None),
        ("misplaced", None, None, None, None),
        ("misplaced", 1, None, 7, 7),
        ("gap", None, None, *everything),
        ("gap", 1, None, *everything),
    ]
