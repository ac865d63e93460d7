"""A run without a table that a command needs: exit code 5, and the table's name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from auditor.cli.options import REQUIRED_TABLES
from auditor.tables.run_tables import TABLES
from tests.cli.stream_cells import CASES, functions, prepare
from tests.cli.test_doors import bkaudit

DECLARED = {
    " ".join(words): tables
    for words, function in functions()
    if (tables := getattr(function, REQUIRED_TABLES, None)) is not None
}
EXPLICIT = {
    "diff": ("bookies", "verdicts"),
    "decommission": ("bookies", "cluster", "judged", "ledgers", "marks", "verdicts"),
    "plan check": ("bookies", "cluster", "cookies", "ledgers", "verdicts"),
}
"""Commands that are always given their run, and what they declare where they open it."""

CELLS = [(name, table) for name, tables in (DECLARED | EXPLICIT).items() for table in tables]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs")
    prepare(directory)
    ended = bkaudit("plan", str(directory / "runs" / "1"), "--out", str(directory / "plan.toml"))
    assert ended.exit_code == 0, ended.output
    return directory


def test_commands_declare_the_verdicts_table_except_bookie_and_space() -> None:
    assert {"report", "plan make", "simulate", "explain run", "explain ledger"} <= DECLARED.keys()
    without = {name for name, tables in (DECLARED | EXPLICIT).items() if "verdicts" not in tables}
    assert without == {"explain bookie", "space"}


def test_declared_tables_are_tables_of_every_run() -> None:
    for tables in (DECLARED | EXPLICIT).values():
        assert all(TABLES[name].run_kind is None for name in tables)


@pytest.mark.parametrize(("name", "table"), CELLS)
def test_run_without_a_required_table_is_damaged(place: Path, tmp_path: Path, name: str, table: str) -> None:
    for run in ("1", "2"):
        shutil.copytree(place / "runs" / run, tmp_path / "runs" / run)
    shutil.copy(place / "plan.toml", tmp_path / "plan.toml")
    arguments = [word.format(place=tmp_path, new=tmp_path / "new") for word in CASES[name]]
    for run in ("1", "2"):
        shutil.rmtree(tmp_path / "runs" / run / "tables" / table)
    ended = bkaudit(*arguments)
    assert ended.exit_code == 5, ended.output
    [line] = ended.stderr.splitlines()
    assert f"/tables/{table} is damaged (missing): " in line
    for run in ("1", "2"):
        (tmp_path / "runs" / run / "tables" / table).mkdir()
    assert bkaudit(*arguments).exit_code == 5
