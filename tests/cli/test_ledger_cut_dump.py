"""``bkaudit ledger`` on a truncated dump: it reports that missing ledgers may have been in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_doors import bkaudit
from tests.corpora.cluster import Cluster

BOOKIES = ("a:3181", "b:3181", "c:3181")


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    """Return the lines of a complete dump. The first line announces an end line."""
    cluster = Cluster(layout="flat")
    for number in (1, 2, 3):
        cluster.ledger(number, {0: BOOKIES}, (3, 2), 10)
    path = tmp_path / "whole.jsonl"
    cluster.write_dump(path)
    records = path.read_bytes().splitlines(keepends=True)
    assert b'"end"' in records[-1]
    return records if b'"begin"' in records[0] else [b'{"begin": {}}\n', *records]


def list_ledgers(lines: list[bytes], path: Path) -> tuple[int, str, str]:
    path.write_bytes(b"".join(lines))
    outcome = bkaudit("ledger", "list", "--metadata", f"dump://{path}")
    return outcome.exit_code, outcome.stdout, outcome.stderr


def test_complete_dump_is_listed_without_a_message(lines: list[bytes], tmp_path: Path) -> None:
    code, out, err = list_ledgers(lines, tmp_path / "dump.jsonl")
    assert (code, len(out.splitlines()), err) == (0, 3, "")


def test_cut_dump_is_listed_with_an_error(lines: list[bytes], tmp_path: Path) -> None:
    code, out, err = list_ledgers(lines[:-1], tmp_path / "dump.jsonl")
    assert (code, len(out.splitlines())) == (3, 3)
    assert 'cut off: the "begin" line announces an "end" line, which is missing' in err


def test_ledger_missing_from_a_cut_dump_is_a_read_error(lines: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_bytes(b"".join(lines[:-1]))
    outcome = bkaudit("ledger", "show", "--metadata", f"dump://{path}", "--ledger-id", "9")
    assert outcome.exit_code == 4
    assert "could not be read: line at byte" in outcome.stderr
    assert 'cut off: the "begin" line' in outcome.stderr
    path.write_bytes(b"".join(lines))
    outcome = bkaudit("ledger", "show", "--metadata", f"dump://{path}", "--ledger-id", "9")
    assert outcome.exit_code == 2


def test_ledger_at_a_path_of_another_layout_is_named(lines: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "moved.jsonl"
    path.write_bytes(b"".join(lines).replace(b"/ledgers/L0000000002", b"/ledgers/00/0000/L0002"))
    outcome = bkaudit("ledger", "show", "2", "--metadata", f"dump://{path}")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        f"bkaudit: dump://{path} has no ledger 2 (no znode /ledgers/L0000000002); "
        "/ledgers/00/0000/L0002 exists, which is its path in layout hierarchical (see metadata-misplaced)\n"
    )
