"""Ledger rows of an earlier run, the key ranges that they cover, and the errors of invalid rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import RunError
from auditor.sources.metadata.earlier_ledgers import (
    PIECE_BYTES,
    EarlierLedgers,
    find_ledgers,
    read_earlier_pieces,
)
from auditor.sources.metadata.ledger_rows import LEDGERS

START, END = b"/bk/ledgers/", b"/bk/ledgers0"


def row(name: str, status: str = "ok", **fields: Any) -> dict[str, Any]:
    return {"path": f"/bk/ledgers/{name}", "status": status, "version": 7, **fields}


def write(folder: Path, files: list[list[dict[str, Any]]], statistics: bool = True) -> list[str]:
    folder.mkdir(exist_ok=True)
    names = [f"part-{number:05}.parquet" for number in range(len(files))]
    for name, rows in zip(names, files, strict=True):
        table = pa.Table.from_pylist(rows, LEDGERS)
        pq.write_table(table, folder / name, row_group_size=2, write_statistics=statistics)
    return names


def write_and_find(folder: Path, *files: list[dict[str, Any]], statistics: bool = True) -> EarlierLedgers:
    return find_ledgers(str(folder), write(folder, list(files), statistics))


@pytest.mark.parametrize("part_count", [1, 2, 3, 9])
def test_pieces_cover_every_key_once_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_count: int
) -> None:
    monkeypatch.setattr("auditor.sources.metadata.earlier_ledgers.PIECE_ROWS", 2)
    names = [f"{number:02}" for number in range(9)]
    files = [[row(name) for name in part] for part in (names[:5], [], names[5:6], names[6:])]
    earlier = write_and_find(tmp_path, *files)
    assert (len(earlier.files), earlier.whole) == (3, True)
    groups = earlier.group_files(START, END, part_count)
    assert len(groups) == min(3, part_count)
    cut = [piece for group, start, end in groups for piece in read_earlier_pieces(group, start, end)]
    assert (cut[0].start, cut[-1].end) == (START, END)
    assert all(piece_before.end == piece_after.start for piece_before, piece_after in pairwise(cut))
    for piece in cut:
        paths = [path.encode() for path in piece.rows["path"].to_pylist()]
        assert len(paths) in (1, 2)
        assert all(piece.start <= path < piece.end for path in paths)
    assert [path[-2:] for piece in cut for path in piece.rows["path"].to_pylist()] == names


def test_no_rows_give_one_piece_of_all_keys(tmp_path: Path) -> None:
    earlier = write_and_find(tmp_path, [], [row("~", "misplaced")])
    assert earlier.files == ()
    assert not earlier.whole
    [(group, *ends)] = earlier.group_files(START, END, 4)
    [piece] = read_earlier_pieces(group, *ends)
    assert (piece.start, piece.end, piece.rows.num_rows) == (START, END, 0)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("odd", "whole"),
    [
        ([], True),
        ([row("03", "unreadable"), row("04", "broken")], True),
        ([row("03", "broken"), row("00z", "misplaced")], False),
        ([row("03"), row("\\xff", "gap")], False),
    ],
)
def test_only_ledgers_in_place_are_returned_and_other_rows_clear_the_whole_flag(
    tmp_path: Path, odd: list[dict[str, Any]], whole: bool, statistics: bool
) -> None:
    earlier = write_and_find(tmp_path, [row("01"), row("02"), *odd], [row("05")], statistics=statistics)
    assert earlier.whole == whole
    assert [file.first_path[-2:] for file in earlier.files] == ["01", "05"]
    rows = [
        ledger_row
        for piece in read_earlier_pieces(earlier, START, END)
        for ledger_row in piece.rows.to_pylist()
    ]
    listed = [
        ledger_row["path"][-2:]
        for ledger_row in odd
        if ledger_row["status"] in ("ok", "broken", "unreadable")
    ]
    assert [ledger_row["path"][-2:] for ledger_row in rows] == ["01", "02", *listed, "05"]


def test_large_rows_are_read_in_small_pieces(tmp_path: Path) -> None:
    large = "x" * (PIECE_BYTES // 3)
    rows = [row(f"{number:02}", "unreadable", damage=large) for number in range(10)]
    sizes = [piece.rows.num_rows for piece in read_earlier_pieces(write_and_find(tmp_path, rows), START, END)]
    assert sum(sizes) == 10
    assert max(sizes) <= 3


@pytest.mark.parametrize(
    "files",
    [
        [[row("02"), row("01")]],
        [[row("01"), row("01")]],
        [[row("01"), row("03")], [row("02")]],
        [[row("03")], [row("01")]],
    ],
)
def test_rows_in_wrong_order_are_an_error(tmp_path: Path, files: list[list[dict[str, Any]]]) -> None:
    with pytest.raises(RunError, match="not in the order of their keys"):
        list(read_earlier_pieces(write_and_find(tmp_path, *files), START, END))


def test_damaged_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    names = write(tmp_path, [[row("01"), row("02")]])
    (tmp_path / names[0]).write_bytes(b"PAR1")
    with pytest.raises(RunError, match=f"{tmp_path}/{names[0]}: "):
        find_ledgers(str(tmp_path), names)


def test_other_columns_are_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": ["/bk/ledgers/01"]}), tmp_path / "part-00000.parquet")
    with pytest.raises(RunError, match="the table's columns differ from those of this version"):
        find_ledgers(str(tmp_path), ["part-00000.parquet"])


def test_damaged_footer_never_ends_the_process(tmp_path: Path) -> None:
    """Arrow ends the process if it reads a column whose type in the footer differs from the schema's."""
    [name] = write(tmp_path, [[row("01"), row("02"), row("03")]])
    file = tmp_path / name
    content = file.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for offset in range(len(content) - 8 - size, len(content) - 8, 3):
        file.write_bytes(content[:offset] + bytes([content[offset] ^ 4]) + content[offset + 1 :])
        try:
            find_ledgers(str(tmp_path), [name])
        except RunError:
            refused += 1
    assert 0 < refused < size
