"""Tests of files in a bookie's directory other than entry logs: sizes by kind, and unreadable ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.sources.bookies.entry_logs.rows import SIZES, sizes_of

FILES = {
    "1a1fc86e72f.txn": ("journal", 100),
    "0/1f/a.idx": ("index", 1024),
    "scopes/1/0/1f/a.idx": ("index", 2048),
    "locations/000012.sst": ("rocksdb", 7),
    "locations/000014.log": ("rocksdb", 8),
    "ledgers/MANIFEST-000004": ("rocksdb", 9),
    "metadata-cache/000003.sst": ("rocksdb", 10),
    "locations.TEMP-2026/000001.sst": ("rocksdb", 11),
    "VERSION": ("other", 12),
    "lastMark": ("other", 16),
    "heap.hprof": ("other", 5000),
    "0/1.txn": ("other", 3),
    "1f.log": (None, 4096),
    "20.log.compacting": (None, 55),
    "20.log.1f.compacted": (None, 66),
}


def write_files(root: Path) -> Path:
    for name, (_, size) in FILES.items():
        file = root / "current" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    return root


def test_every_file_except_entry_logs_is_counted_once_under_its_kind(tmp_path: Path) -> None:
    row = sizes_of(str(write_files(tmp_path)))
    assert list(row) == SIZES.names
    for kind in ("journal", "index", "rocksdb", "other"):
        assert row[f"{kind}_bytes"] == sum(size for file_kind, size in FILES.values() if file_kind == kind)
    status = os.statvfs(tmp_path)
    assert row["capacity_bytes"] == status.f_blocks * status.f_frsize
    assert 0 < row["free_bytes"] <= row["capacity_bytes"]
    assert (row["device"], row["reason"]) == (tmp_path.stat().st_dev, None)


def test_links_to_directories_and_broken_links_do_not_change_sizes(
    tmp_path: Path,
) -> None:
    current = write_files(tmp_path) / "current"
    before = sizes_of(str(tmp_path))
    (current / "loop").symlink_to(current)
    (current / "nowhere").symlink_to(tmp_path / "gone")
    after = sizes_of(str(tmp_path))
    assert {**after, "seen": 0, "free_bytes": 0} == {**before, "seen": 0, "free_bytes": 0}


def test_missing_current_directory_is_reported_and_free_space_is_kept(tmp_path: Path) -> None:
    row = sizes_of(str(tmp_path))
    assert row["reason"] == f"{tmp_path}/current: No such file or directory"
    assert row["free_bytes"] > 0
    assert row["journal_bytes"] == 0


def test_unlistable_directory_is_reported_and_the_other_files_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("/ledgers"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    row = sizes_of(str(tmp_path))
    assert row["reason"] == f"{tmp_path}/current/ledgers: Permission denied"
    assert row["rocksdb_bytes"] == 7 + 8 + 10 + 11
    assert row["index_bytes"] == 3072
