"""Rows of the table ledgers, made from the znodes that a store returns."""

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
    """Return ledger metadata of format 1 with these lines."""
    return ("BookieMetadataFormatVersion\t1\n" + "\n".join(lines)).encode()


def rows(znodes: dict[str, bytes], gaps: list[tuple[str, str]] | None = None) -> list[dict[str, Any]]:
    batch = ZnodeBatch.from_znodes(
        [Znode(f"/ledgers/{path}", data, 1, 2, 3, 4, 5, 0) for path, data in znodes.items()], gaps
    )
    table = ledger_rows(batch, "/ledgers", KIND)
    assert table.schema == LEDGERS
    # A second look is a narrower one at the same rows.
    again = ledger_rows(batch, "/ledgers", KIND, REREAD_LEDGERS)
    assert again.equals(table.select(REREAD_LEDGERS.names))
    result: list[dict[str, Any]] = table.to_pylist()
    return result


def entries_by_bookie(row: dict[str, Any]) -> dict[str, list[int]]:
    return {
        replica["bookie_id"]: expand(groups_of(replica["groups"])).tolist() for replica in row["replicas"]
    }


def test_closed_ledger_lists_the_expected_entries_of_each_member() -> None:
    (row,) = rows({to_path(KIND, 7): metadata("2", "3", "0", "0\ta\tb\tc", "4\ta\tb\td", "6\tCLOSED")})
    assert (row["ledger_id"], row["status"], row["version"], row["ctime"], row["mtime"]) == (7, "ok", 5, 3, 4)
    assert entries_by_bookie(row) == {"a": [0, 2, 3, 5, 6], "b": [0, 1, 3, 4, 6], "c": [1, 2], "d": [4, 5]}
    assert all(replica["depends"] for replica in row["replicas"])


def test_segments_after_the_last_entry_expect_no_entries() -> None:
    segments = ("0\ta\tb", "3\ta\tc", "9\ta\td")
    (row,) = rows({to_path(KIND, 7): metadata("2", "2", "0", *segments, "2\tCLOSED")})
    assert entries_by_bookie(row) == {"a": [0, 1, 2], "b": [0, 1, 2], "c": [], "d": []}
    assert [replica["bookie_id"] for replica in row["replicas"] if not replica["depends"]] == ["c", "d"]


def test_open_ledger_expects_no_entries_that_its_writer_may_still_send() -> None:
    (row,) = rows({to_path(KIND, 7): metadata("2", "3", "0", "0\ta\tb\tc", "6\ta\tb\td") + b"\n"})
    assert entries_by_bookie(row) == {"a": [0, 2, 3], "b": [0, 1, 3], "c": [1, 2], "d": []}
    assert {replica["bookie_id"]: replica["depends"] for replica in row["replicas"]}["d"]


def test_short_segments_of_an_open_ledger_expect_the_same_as_one_long_segment() -> None:
    """Each new segment shows that all entries before it were acknowledged."""
    short = [f"{first}\t{'abc'[first % 3]}\td" for first in range(61)]
    one_by_one, at_once = rows(
        {
            to_path(KIND, 7): metadata("2", "2", "0", *short) + b"\n",
            to_path(KIND, 8): metadata("2", "2", "0", "0\ta\td", "60\tb\td") + b"\n",
        }
    )
    assert entries_by_bookie(one_by_one)["d"] == entries_by_bookie(at_once)["d"] == [*range(58)]
    assert entries_by_bookie(one_by_one)["a"] == [*range(0, 58, 3)]


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
def test_broken_metadata_rule_is_reported(value: bytes, rule: str, undecidable: bool) -> None:
    (row,) = rows({to_path(KIND, 7): value})
    assert row["status"] == "broken"
    assert rule in [broken["rule"] for broken in row["rules"]]
    assert row["undecidable"] is undecidable
    assert undecidable is not any(entries_by_bookie(row).values())


def test_damaged_metadata_is_a_row_with_its_offset() -> None:
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
def test_ledger_with_an_implausible_last_entry_is_unreadable_and_others_are_read(
    last: int, first: int
) -> None:
    endless = metadata("1", "1", "0", "0\ta", f"{first + 1}\ta", f"{last}\tCLOSED")
    fine = metadata("1", "1", "0", "0\ta", "0\tCLOSED")
    result_rows = rows({to_path(KIND, 7): endless, to_path(KIND, 8): fine})
    assert [row["status"] for row in result_rows] == ["unreadable", "ok"]


def test_misplaced_znode_keeps_the_range_of_ids_it_could_hide() -> None:
    result_rows = rows({"00": b"", "00/0000": b"", "00/0000/L12": b"", "00/0000/X12": b"", "cookies": b""})
    assert [(row["status"], row["ledger_id"], row["low"], row["high"]) for row in result_rows] == [
        ("misplaced", 12, 12, 12),
        ("misplaced", 12, None, None),
    ]


def test_ledger_path_of_another_layout_is_reported() -> None:
    closed = metadata("1", "1", "0", "0\ta", "5\tCLOSED")
    znodes = {"L0000000012": closed, "000/0000/0000/0000/L0013": closed, "00/0000/L0014": closed}
    result_rows = rows({**dict.fromkeys(("000", "000/0000", "L7", "Lost+found"), b""), **znodes})
    assert [(row["status"], row["ledger_id"], row["low"], row["damage"]) for row in result_rows] == [
        ("ok", 14, None, None),
        ("misplaced", None, 12, "a path of layout flat"),
        ("misplaced", 13, 13, "a path of layout longhierarchical"),  # the server lists both trees
    ]


def test_gap_has_the_range_of_ids_below_it() -> None:
    result_rows = rows(
        {}, [("/ledgers/00/0003", "vanished"), ("/ledgers", "no answer"), ("/ledgers/notes", "no")]
    )
    assert [(row["status"], row["low"], row["high"]) for row in result_rows] == [
        ("gap", 30_000, 39_999),
        ("gap", MIN_LEDGER_ID, MAX_LEDGER_ID),
        ("gap", None, None),
    ]


def test_etcd_ledgers_have_their_scope_and_no_times() -> None:
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
    result_rows = ledger_rows(batch, "/bk", LayoutKind.ETCD).to_pylist()
    expected = [value for value in keys.values() if value]
    assert [(r["status"], r["scope_id"], r["ledger_id"]) for r in result_rows[:4]] == expected
    assert all((row["ctime"], row["mtime"]) == (None, None) for row in result_rows)
    assert [(r["low"], r["high"]) for r in result_rows[3:]] == [
        (9, 9),
        (8, 8),
        (MIN_LEDGER_ID, MAX_LEDGER_ID),
    ]
    # A gap that is not a ledger's place can hide ledgers of any scope.
    assert [(r["status"], r["scope_id"]) for r in result_rows[4:]] == [("gap", 4), ("gap", None)]


@pytest.mark.parametrize("layout", [kind for kind in LayoutKind if kind is not LayoutKind.ETCD])
def test_scoped_ledgers_in_any_zookeeper_layout_have_their_scope(layout: LayoutKind) -> None:
    closed = metadata("1", "1", "0", "0\ta", "5\tCLOSED")
    first, second = (
        ledger_path.to_scope_id_path(LedgerId(7, scope=1)),
        ledger_path.to_scope_id_path(LedgerId(-7, scope=-3)),
    )
    steps = [first.rsplit("/", up)[0] for up in range(8, 0, -1)]
    znodes = {to_path(layout, 7): closed, **dict.fromkeys(steps, b""), first: closed, second: closed}
    strays = {"scopes/x": closed, f"{first}/x": closed}
    numbers = (2, 3, 4, 5, 0, 0)
    batch = ZnodeBatch.from_znodes(
        [Znode(f"/bk/{rel}", data, *numbers) for rel, data in (znodes | strays).items()],
        [("/bk/scopes", "refused"), (f"/bk/{steps[4]}", "refused")],
    )
    result_rows = ledger_rows(batch, "/bk", layout).to_pylist()
    everything = (MIN_LEDGER_ID, MAX_LEDGER_ID)
    assert [(r["status"], r["scope_id"], r["ledger_id"], r["low"], r["high"]) for r in result_rows] == [
        ("ok", 0, 7, None, None),
        ("ok", 1, 7, None, None),
        ("ok", -3, -7, None, None),
        ("misplaced", None, None, None, None),
        ("misplaced", 1, None, 7, 7),
        ("gap", None, None, *everything),
        ("gap", 1, None, *everything),
    ]
