"""The files that come with the program can be shown and found, from a checkout and from a wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.cli import conf, main

ROOT = Path(__file__).parents[2]


def bkaudit(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["conf", *arguments], prog_name="bkaudit")


def test_every_shipped_file_is_listed_and_shown_unchanged() -> None:
    names = bkaudit("list").stdout.split()
    assert {"audit.toml", "suppressions.toml", "schemas/report.schema.json", "jobs/audit.py"} <= {*names}
    assert {path.name for path in (ROOT / "conf").iterdir() if path.is_file()} <= {*names}
    for name in names:
        file = Path(bkaudit("path", name).stdout.rstrip())
        assert bkaudit("show", name).stdout == file.read_text("utf-8")


def test_wheel_has_shipped_files_where_the_command_looks_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {folder: f"auditor/shipped/{folder}" for folder in conf.SHIPPED_FOLDERS}
    (tmp_path / "auditor" / "shipped" / "conf").mkdir(parents=True)
    (tmp_path / "auditor" / "shipped" / "conf" / "audit.toml").write_text("x = 1\n")
    monkeypatch.setattr(conf, "_PACKAGE_DIRECTORY", tmp_path / "auditor")
    assert bkaudit("show", "audit.toml").stdout == "x = 1\n"


def test_unknown_file_name_is_answered_with_the_known_names() -> None:
    refused = bkaudit("show", "audit.tml")
    assert (
        refused.exit_code,
        "'audit.tml': no such file. It must be one of Dockerfile, " in refused.stderr,
    ) == (2, True)
