"""Tests of commands on runs whose tables have no row, one row or unknown words, or are missing."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.holds import LiftCondition
from auditor.model.states import TimeBasis, WitnessAnswer
from auditor.runs.directory import RunDirectory
from auditor.tables.run_tables import TABLES
from tests.cli.stream_cells import CASES, prepare
from tests.made_runs import write, write_tables

COMMANDS = (
    {
        name: words
        for name, words in CASES.items()
        if "{place}/runs" in " ".join(words) and words[:2] != ("plan", "show")
    }
    | {
        f"report --format {form}": ("report", "{place}/runs/1", "--format", form)
        for form in ("jsonl", "csv", "html", "junit", "sarif", "markdown", "openmetrics")
    }
    | {
        "report --by": ("report", "{place}/runs/1", "--by", "topic"),
        "report --leaks": ("report", "{place}/runs/1", "--leaks"),
        "space --by ledger": ("space", "{place}/runs/1", "--by", "ledger"),
        "simulate --any": ("simulate", "{place}/runs/1", "--any", "1", "bookie"),
    }
)
USUAL: dict[str, Any] = {
    "scope_id": 0,
    "ledger_id": 7,
    "bookie_id": "bk-a:3181",
    "path": "/l/7",
    "state": "CLOSED",
    "status": "ok",
    "class": "healthy",
    "potential_class": "healthy",
    "groups": b"",
    "read": "read",
    "severity": "error",
    "confidence": "confirmed",
    "kind": "mark",
    "mode": "writable",
    "storage": "idx",
    "change": "same",
    "fingerprint": "0123456789abcdef",
    "id": "entry-lost",
    "last_entry_id": 6,
    "ensemble_size": 1,
    "write_quorum": 1,
    "ack_quorum": 1,
    "application": "pulsar",
    "standing": "owned",
    "reach": "single-copy",
    "owner": "a/b/c",
    "tenant": "a",
    "namespace": "a/b",
    "topic": "a/b/c",
    "location": "/r1",
    "object": "bookie",
    "index_time_basis": TimeBasis.LAST_WRITE.value,
    "answer": WitnessAnswer.SERVED.value,
    "lift": LiftCondition.FINDING_GONE.value,
}
"""Values of columns, by name, that the program knows words or bounds of."""


def run_command(words: tuple[str, ...], place: Path) -> Result:
    new = place / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    arguments = [word.format(place=place, new=new / "out") for word in words]
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("few-rows")
    prepare(place)
    for run in ("1", "2"):  # as an audit notes what it has written
        manifest = place / "runs" / run / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"tables": [*TABLES]}))
    ended = run_command(("plan", "{place}/runs/1", "--out", "{place}/plan.toml"), place)
    assert ended.exit_code == 0, ended.output
    return place


@pytest.fixture(scope="module")
def readers(ground: Path) -> dict[str, dict[str, Result]]:
    """Return the commands that read each table, with their results on the complete run."""
    commands_by_table: defaultdict[str, set[str]] = defaultdict(set)
    outcomes: dict[str, Result] = {}
    with pytest.MonkeyPatch.context() as patch:
        for method in ("dataset", "sizes", "names", "exists"):
            real = getattr(RunDirectory, method)

            def recorded(run: RunDirectory, below: str, real: Any = real) -> Any:
                commands_by_table[below].add(name)
                return real(run, below)

            patch.setattr(RunDirectory, method, recorded)
        for name, words in COMMANDS.items():
            ended = outcomes[name] = run_command(words, ground)
            assert ended.exit_code in (0, 1, 2, 3), (name, ended.output)
    return {
        below.removeprefix("tables/"): {name: outcomes[name] for name in sorted(names)}
        for below, names in commands_by_table.items()
    }


def value_of(name: str, kind: pa.DataType) -> Any:
    """Return a value for a column: a usual one, or the first of its type."""
    if name in USUAL:
        return USUAL[name]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return []
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.name, field.type) for field in kind}
    if pa.types.is_map(kind):
        return []
    if pa.types.is_boolean(kind):
        return False
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return 1
    return b"" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "x"


def one_row(name: str) -> dict[str, Any]:
    return {field.name: value_of(field.name, field.type) for field in TABLES[name].columns}


@pytest.mark.parametrize("rows", ["empty", "one row", "missing"])
@pytest.mark.parametrize("name", TABLES)
def test_commands_handle_empty_one_row_and_missing_tables(
    ground: Path, readers: dict[str, dict[str, Result]], tmp_path: Path, name: str, rows: str
) -> None:
    place = tmp_path / "ground"
    shutil.copytree(ground, place)
    for run in ("1", "2"):
        directory = place / "runs" / run / "tables" / name
        shutil.rmtree(directory)
        if rows == "empty":
            write_tables(place / "runs" / run, **{name: []})
        elif rows != "missing":
            write(directory, [one_row(name)], TABLES[name].columns)
    for command, undisturbed in readers.get(name, {}).items():
        ended = run_command(COMMANDS[command], place)
        text = f"{command}: {ended.output[-2000:]}"
        assert ended.exit_code in (0, 1, 2, 3, 5), text
        assert "Traceback" not in ended.output, text
        if rows == "missing" and ended.exit_code != 5:
            same = ended.stdout.replace(str(place), "") == undisturbed.stdout.replace(str(ground), "")
            assert (same, ended.exit_code) == (True, undisturbed.exit_code), text
        if ended.exit_code == 5:
            assert "tables/" in ended.stderr, text


@pytest.mark.parametrize("name", [name for name in TABLES if set(USUAL) & {*TABLES[name].columns.names}])
def test_unknown_word_in_a_table_causes_no_traceback(
    ground: Path, readers: dict[str, dict[str, Result]], tmp_path: Path, name: str
) -> None:
    place = tmp_path / "ground"
    shutil.copytree(ground, place)
    columns = [field.name for field in TABLES[name].columns if isinstance(USUAL.get(field.name), str)]
    for column in columns:
        for run in ("1", "2"):
            directory = place / "runs" / run / "tables" / name
            shutil.rmtree(directory)
            write(directory, [one_row(name) | {column: "no-such-word"}], TABLES[name].columns)
        for command in readers.get(name, {}):
            ended = run_command(COMMANDS[command], place)
            text = f"{column}, {command}: {ended.output[-2000:]}"
            assert ended.exit_code in (0, 1, 2, 3, 5), text
            assert "Traceback" not in ended.output, text
            if ended.exit_code == 5:
                assert f"{place}/runs/" in ended.stderr, text
