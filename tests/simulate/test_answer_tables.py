"""Tests of complete answers of simulate and decommission as tables, and of the commands that screens name."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.placement import Level
from auditor.reports.layout import LabelledText, NameTable, UnfoldedCommand, lay_out
from auditor.reports.simulation import MAX_ROWS, text
from auditor.runs.reader import RunReader
from auditor.simulate.simulation import MAX_LEDGERS_SHOWN, simulate_all, simulate_failure
from tests.made_runs import made_run
from tests.reports.samples import report
from tests.simulate.small_clusters import Ledger

LEDGERS = tuple(Ledger(number, "CLOSED", 2, 2, 2, 9, ((0, ("a", "b")),)) for number in range(45))
BOOKIES = ("a", "b", "c")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with 45 ledgers on the same two bookies. Each ledger but the last has its own topic."""
    path = tmp_path_factory.mktemp("simulated") / "run"
    owner = {"scope_id": 0, "standing": "owned", "kind": "data", "tenant": "shop", "borrowed": False}
    made_run(
        path,
        ledgers=[ledger.metadata() for ledger in LEDGERS],
        bookies=[
            {"bookie_id": name, "named": name != "c", "read": "read", "registered": "writable"}
            for name in BOOKIES
        ],
        ownership=[
            owner | {"ledger_id": number, "namespace": f"n{number % 25}", "topic": f"=t{number}"}
            for number in range(44)
        ],
        report=report(findings=()),
    )
    return path


def bkaudit(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="bkaudit")


def simulate_loss(run: Path, *options: str) -> Result:
    done = bkaudit("simulate", run, "--lose", "bookie", "a,b", *options)
    assert done.exit_code == 0, done.stderr
    return done


def rows_of(done: Result, form: str) -> list[dict[str, Any]]:
    if form == "csv":
        return list(csv.DictReader(io.StringIO(done.stdout)))
    if form == "jsonl":
        return [json.loads(line) for line in done.stdout.splitlines()]
    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(done.stdout_bytes)).to_pylist()
    return rows


FORMS = ("csv", "jsonl", "parquet")


@pytest.mark.parametrize("form", FORMS)
def test_every_ledger_of_a_failure_is_in_the_table(run: Path, form: str) -> None:
    rows = rows_of(simulate_loss(run, "--format", form), form)
    assert [int(row["ledger_id"]) for row in rows] == list(range(45))
    assert {(int(row["entries"]), int(row["bytes"]), row["fate"]) for row in rows} == {(10, 100, "lost")}
    assert rows[7]["topic"] == "shop/n7/=t7"
    assert rows[44]["topic"] == ("" if form == "csv" else None)
    assert type(rows[0]["ledger_id"]) is (int if form == "parquet" else str)
    topics = rows_of(simulate_loss(run, "--table", "topics", "--format", form), form)
    names = [row["name"] for row in topics]
    assert sorted(names) == sorted(["", *(f"shop/n{number % 25}/=t{number}" for number in range(44))])
    namespaces = rows_of(simulate_loss(run, "--table", "namespaces", "--format", form), form)
    assert sum(int(row["ledgers"]) for row in namespaces) == 45
    assert len(namespaces) == 26


@pytest.mark.parametrize("form", FORMS)
def test_every_single_failure_is_in_the_table(run: Path, form: str) -> None:
    done = bkaudit("simulate", run, "--format", form)
    assert done.exit_code == 0, done.stderr
    rows = rows_of(done, form)
    assert sorted(row["name"] for row in rows) == [*BOOKIES]
    assert {row["name"]: int(row["below_ack_quorum"]) for row in rows} == {"a": 45, "b": 45, "c": 0}
    assert {int(row["lost_ledgers"]) for row in rows} == {0}


def test_screen_counts_omitted_rows_and_names_commands_that_print_all(run: Path) -> None:
    shown = simulate_loss(run).stdout
    for omission in (
        f"and {45 - MAX_LEDGERS_SHOWN} more ledgers",
        f"and {45 - MAX_LEDGERS_SHOWN} more topics",
    ):
        assert f"{omission}; to print all, run:\n" in shown
    assert f"and {26 - MAX_LEDGERS_SHOWN} more namespaces; to print all, run:\n" in shown
    commands = [line.strip() for line in shown.splitlines() if line.startswith("  bkaudit simulate ")]
    counts = []
    for command in commands:
        done = bkaudit(*shlex.split(command)[1:])
        assert done.exit_code == 0, done.stderr
        counts.append(len(rows_of(done, "csv")))
    assert counts == [45, 26, 45]


def test_json_has_the_first_rows_and_counts_all(run: Path) -> None:
    value = json.loads(simulate_loss(run, "--format", "json").stdout)
    for name, count in (("ledgers", 45), ("topics", 45), ("namespaces", 26)):
        assert (len(value[name]), value[f"{name}_concerned"]) == (MAX_LEDGERS_SHOWN, count)


@pytest.mark.parametrize(
    ("options", "error_text"),
    [
        (["--table", "ledgers", "--format", "csv"], "select a failure with --lose or --any"),
        (["--table", "ledgers"], "--format text is not a table. Use csv, jsonl, parquet"),
        (["--lose", "bookie", "a", "--table", "topics", "--format", "json"], "--format json is not a table"),
    ],
)
def test_table_of_an_invalid_request_is_refused(run: Path, options: list[str], error_text: str) -> None:
    refused = bkaudit("simulate", run, *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert error_text in refused.stderr


def test_topics_of_a_run_without_owners_are_refused(tmp_path: Path) -> None:
    made_run(
        tmp_path / "run",
        ledgers=[LEDGERS[0].metadata()],
        bookies=[{"bookie_id": name, "named": True, "registered": "writable"} for name in ("a", "b")],
        report=report(findings=()),
    )
    for path in (tmp_path / "run" / "tables" / "ownership").iterdir():
        path.unlink()
    (tmp_path / "run" / "tables" / "ownership").rmdir()
    refused = bkaudit(
        "simulate", tmp_path / "run", "--lose", "bookie", "a", "--table", "topics", "--format", "csv"
    )
    assert refused.exit_code == 2
    assert "this run read no owners: audit with --owners" in refused.stderr


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_simulation_screen_fits_the_terminal_width(run: Path, width: int) -> None:
    reader = RunReader(run)
    for simulation in (simulate_all(reader), simulate_failure(reader, [(Level.BOOKIE, ["a", "b"])])):
        lines = text(simulation, width).splitlines()
        table_columns = 44  # numbers of a table are never folded
        folded = [line for line in lines if not line.startswith("  bkaudit ")]
        assert max(map(len, folded)) <= max(width, table_columns)


def test_names_are_whole_in_a_pipe_and_wrapped_at_a_terminal() -> None:
    name = "bk-with-a-long-name." * 5
    table = NameTable(("bookie", "lost"), [(name, "1,000")])
    assert [*lay_out([table], 60, 20, whole_names=True)][1].startswith(f"{name}  1,000")
    [head, row] = lay_out([table], 60, 20)
    assert (len(row), row.endswith("  1,000"), head.startswith("bookie ")) == (60, True, True)
    wide = NameTable(("bookie", *("number" * 2,) * 3), [(name, *("1,000",) * 3)])
    lines = [*lay_out([wide], 44, 20)]
    assert lines[0] == "bookie"
    assert max(map(len, lines)) <= 44
    assert lines[3].split() == ["1,000"] * 3
    sentences = [*lay_out([wide], 40, 20)]
    assert "".join(line.strip() for line in sentences[1:4]) == name
    assert max(map(len, sentences)) <= 40
    assert " ".join(sentences).count("numbernumber 1,000") == 3
    assert [*lay_out([LabelledText("label", "words"), "", UnfoldedCommand("bkaudit x")], 40, 8)] == [
        "label   words",
        "",
        "  bkaudit x",
    ]
    assert MAX_ROWS == 20
