"""Unreadable metadata: commands exit with 4 before any work, and report what the data seems to be."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.audit import audit as audit_module
from auditor.cli import main

COMMANDS = {
    "audit": ("audit", "--bookies", ".", "--out", "run"),
    "scan": ("scan", "--out", "run"),
    "show": ("ledger", "show", "--ledger-id", "1"),
    "list": ("ledger", "list"),
}


def bkaudit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture(autouse=True)
def without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(audit_module, "build_session", no_session)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("scheme", ["dump", "zk-snapshot", "etcd-snapshot"])
@pytest.mark.parametrize("command", COMMANDS)
def test_unreadable_metadata_ends_a_command_with_4_before_spark_starts(
    command: str, scheme: str, tmp_path: Path
) -> None:
    (tmp_path / "backup").write_bytes(gzip.compress(os.urandom(5_000)))
    done = bkaudit(*COMMANDS[command], "--metadata", f"{scheme}://{tmp_path}/backup")
    assert (done.exit_code, done.stdout) == (4, "")
    assert f"{tmp_path}/backup is not " in done.stderr
    assert "compressed with gzip" in done.stderr
    assert not (tmp_path / "run").exists()


def test_doctor_reports_unreadable_metadata_and_ends_with_4(tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"")
    done = bkaudit("doctor", "--metadata", f"dump://{tmp_path}/backup")
    assert done.exit_code == 4
    assert "it seems to be empty" in " ".join(done.stdout.split())


def test_damaged_dump_of_another_root_is_a_read_error(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text(
        '{"path": "/other", "data": "", "czxid": 1, "mzxid": 1, "ctime": 5, '
        '"mtime": 5, "version": 0, "ephemeralOwner": 0}\n{"path": "/le'
    )
    done = bkaudit("ledger", "list", "--metadata", f"dump://{tmp_path}/dump")
    assert done.exit_code == 4
    assert (
        "pass the right root with ?root=/path (1 places could not be read, first: line at byte" in done.stderr
    )
