"""A run with a damaged, missing or foreign part: one sentence with the way out, and exit code 5."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.test_doors import bkaudit
from tests.made_runs import change_row, made_run
from tests.reports.samples import BELOW, LOST, coverage, report, tally

BELOW_ACK = replace(BELOW, fingerprint="fedcba9876543210")
COMMANDS = (
    ("report", "RUN"),
    ("report", "RUN", "--all"),
    *(("report", "RUN", "--format", form) for form in ("json", "jsonl", "csv", "html", "junit", "sarif")),
    *(("report", "RUN", "--format", form) for form in ("markdown", "openmetrics")),
    ("report", "RUN", "--severity", "error"),
    ("explain", "run", "RUN"),
    ("explain", "ledger", "7", "--run", "RUN"),
    ("explain", "bookie", "bk-a:3181", "--run", "RUN"),
    ("status", "RUN"),
)
DIFF = ("diff", "OLD", "RUN")
LEDGER = {
    "scope_id": 0,
    "path": "/l/7",
    "status": "ok",
    "state": "CLOSED",
    "version": 1,
    "length": 70,
    "last_entry_id": 6,
    "ensemble_size": 1,
    "write_quorum": 1,
    "ack_quorum": 1,
    "segments": [{"first_entry_id": 0, "ensemble": ["bk-a:3181"]}],
}
VERDICT = {"scope_id": 0, "class": "entry-lost", "potential_class": "entry-lost"}
REPORTS = [command for command in COMMANDS if command[0] == "report"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    tallies = [tally("entry-lost", "critical"), tally("below-ack-quorum", "error", confidence="suspect")]
    run_report = report(tallies, (LOST, BELOW_ACK), coverage(True), changes=None, suppressions=[])
    bookie = {
        "bookie_id": "bk-a:3181",
        "named": True,
        "found": True,
        "read": "read",
        "replicas": 2,
        "ledgers": 2,
        "depending": 2,
    }
    for name in ("old", "run"):
        made_run(
            runs / name,
            (LOST, BELOW_ACK),
            run_report,
            changes=[change_row(finding, run_report.run.finished, "new") for finding in (LOST, BELOW_ACK)],
            bookies=[bookie],
            identities=[{"bookie_id": "bk-a:3181", "aliases": []}],
            ledgers=[LEDGER | {"ledger_id": finding.ledger_id} for finding in (LOST, BELOW_ACK)],
            verdicts=[VERDICT | {"ledger_id": finding.ledger_id} for finding in (LOST, BELOW_ACK)],
        )
        options = {"fail_on": "error", "fail_on_suspect": False}
        (runs / name / "tables" / "changes" / "_SUCCESS").touch()
        sizes = {part.name: part.stat().st_size for part in (runs / name / "findings").iterdir()}
        manifest = {"identity": {"options": options}, "findings": sizes}
        (runs / name / "manifest.json").write_text(json.dumps(manifest))
    return runs


def test_complete_run_can_be_shown_by_every_command(whole: Path) -> None:
    for command in COMMANDS:
        done = run_command(command, whole)
        assert done.exit_code in (0, 1), (command, done.output)


def run_command(command: tuple[str, ...], runs: Path) -> Any:
    paths = {"RUN": str(runs / "run"), "OLD": str(runs / "old")}
    return bkaudit(*(paths.get(word, word) for word in command))


def failed_commands(
    whole: Path,
    tmp_path: Path,
    damage: Callable[[Path], object],
    commands: tuple[tuple[str, ...], ...] = COMMANDS,
) -> Iterator[tuple[str, ...]]:
    """Yield the commands that exit with 5; no command may print a traceback or more than one line."""
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    damage(runs / "run")
    for command in commands:
        done = run_command(command, runs)
        messages = [line for line in done.stderr.splitlines() if line.startswith("bkaudit: ")]
        assert done.exit_code in (0, 1, 5), (command, done.output)
        if done.exit_code == 5:
            [line] = messages
            assert f"{runs}/run/" in line, command
            assert line.endswith(": restore a complete copy of it, or audit again"), line
            yield command


def change_field(*path: str | int, value: object) -> Callable[[Path], object]:
    def spoil(run: Path) -> None:
        whole = json.loads((run / "report.json").read_text())
        part = whole
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        (run / "report.json").write_text(json.dumps(whole))

    return spoil


def overwrite_report(data: bytes) -> Callable[[Path], object]:
    return lambda run: (run / "report.json").write_bytes(data)


def without_verdict(run: Path) -> None:
    whole = json.loads((run / "report.json").read_text())
    del whole["verdict"]
    (run / "report.json").write_text(json.dumps(whole))


REPORT_DAMAGE = {
    "empty": overwrite_report(b""),
    "cut": lambda run: overwrite_report((run / "report.json").read_bytes()[:900])(run),
    "foreign": overwrite_report(b'{"a": 1}'),
    "a list": overwrite_report(b"[]"),
    "binary": overwrite_report(bytes(range(256))),
    "no verdict": without_verdict,
    "a tally that is null": change_field("run", "tally", value=None),
    "a count that is text": change_field("run", "tally", 0, "count", value="1"),
    "a severity that is none": change_field("run", "tally", 0, "severity", value="bad"),
    "a time that is none": change_field("run", "finished", value=10**30),
    "a remark that is a number": change_field("run", "remarks", value=[1]),
    "a coverage that is text": change_field("coverage", "ledgers", "total", value="7"),
    "a finding without its message": change_field("findings", 0, "message", value=None),
    "evidence that is null": change_field("findings", 0, "evidence", value=None),
    "a verdict that is none": change_field("verdict", value="fine"),
}


@pytest.mark.parametrize("name", REPORT_DAMAGE)
def test_damaged_report_is_a_one_line_error_of_every_command(name: str, whole: Path, tmp_path: Path) -> None:
    commands = (*COMMANDS, DIFF)
    assert {*failed_commands(whole, tmp_path, REPORT_DAMAGE[name], commands)} == {*commands}


def first_part(run: Path, below: str) -> Path:
    return max((run / below).glob("*.parquet"))


def flip_byte(run: Path) -> None:
    """Damage the last byte of the messages: checksums cover pages, but not page headers."""
    part = first_part(run, "findings")
    row_group = pq.read_metadata(part).row_group(0)
    columns = [row_group.column(number) for number in range(row_group.num_columns)]
    [messages] = [column for column in columns if column.path_in_schema == "message"]
    start = messages.dictionary_page_offset or messages.data_page_offset
    data = bytearray(part.read_bytes())
    data[start + messages.total_compressed_size - 1] ^= 0xFF
    part.write_bytes(data)


FINDINGS_DAMAGE: dict[str, Callable[[Path], object]] = {
    "all gone": lambda run: shutil.rmtree(run / "findings"),
    "a part gone": lambda run: first_part(run, "findings").unlink(),
    "a part empty": lambda run: first_part(run, "findings").write_bytes(b""),
    "a part cut": lambda run: first_part(run, "findings").write_bytes(
        first_part(run, "findings").read_bytes()[:-50]
    ),
    "a part of text": lambda run: first_part(run, "findings").write_text("hello" * 99),
    "a part of another table": lambda run: shutil.copy(
        first_part(run, "tables/bookies"), first_part(run, "findings")
    ),
    "a byte": flip_byte,
}


@pytest.mark.parametrize("name", FINDINGS_DAMAGE)
def test_damaged_findings_part_lets_no_report_exit_with_0(name: str, whole: Path, tmp_path: Path) -> None:
    assert {*REPORTS} <= {*failed_commands(whole, tmp_path, FINDINGS_DAMAGE[name])}


@pytest.mark.parametrize("table", ["changes", "bookies", "ledgers", "verdicts", "identities", "judged"])
@pytest.mark.parametrize("how", ["gone", "cut", "foreign"])
def test_damaged_table_is_a_one_line_error_wherever_it_is_read(
    table: str, how: str, whole: Path, tmp_path: Path
) -> None:
    def spoil(run: Path) -> None:
        part = first_part(run, f"tables/{table}")
        if how == "gone":
            shutil.rmtree(part.parent)
        elif how == "cut":
            part.write_bytes(part.read_bytes()[:-50])
        else:
            shutil.copy(first_part(run, "tables/marks"), part)

    ended = [*failed_commands(whole, tmp_path, spoil)]
    # Without the table changes a run is as those of the versions that had none: diff says so.
    assert ended or (table, how) == ("changes", "gone")


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}'])
def test_damaged_manifest_is_a_one_line_error(text: str, whole: Path, tmp_path: Path) -> None:
    ended = {*failed_commands(whole, tmp_path, lambda run: (run / "manifest.json").write_text(text))}
    assert ("explain", "run", "RUN") in ended


RUNS_COMMANDS = (("history", "RUNS"), ("prune", "RUNS", "--keep-last", "1"))


@pytest.mark.parametrize("command", RUNS_COMMANDS, ids=lambda command: command[0])
def test_commands_of_many_runs_name_a_damaged_run_and_exit_5_if_no_other_is_left(
    whole: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    (runs / "run" / "report.json").write_bytes(b"{")
    arguments = [str(runs) if word == "RUNS" else word for word in command]
    mixed = bkaudit(*arguments)
    assert mixed.exit_code == 0
    assert "old" in mixed.stdout
    assert f"{runs}/run/report.json is damaged" in mixed.stderr
    shutil.rmtree(runs / "old")
    damaged = bkaudit(*arguments)
    assert damaged.exit_code == 5
    assert f"{runs}/run/report.json is damaged" in damaged.stderr
    assert (runs / "run").is_dir()


@pytest.mark.parametrize("command", [("space", "RUN"), ("explain", "topic", "a/b/c", "--run", "RUN")])
def test_space_and_topic_of_a_damaged_run_exit_with_5(
    whole: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert [*failed_commands(whole, tmp_path, overwrite_report(b"{"), (command,))] == [command]
