"""A run of which a part is damaged, missing or another program's: one sentence with the way out, and 5."""

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
    said = report(tallies, (LOST, BELOW_ACK), coverage(True), changes=None, suppressions=[])
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
            said,
            changes=[change_row(each, said.run.finished, "new") for each in (LOST, BELOW_ACK)],
            bookies=[bookie],
            identities=[{"bookie_id": "bk-a:3181", "aliases": []}],
            ledgers=[LEDGER | {"ledger_id": each.ledger_id} for each in (LOST, BELOW_ACK)],
            verdicts=[VERDICT | {"ledger_id": each.ledger_id} for each in (LOST, BELOW_ACK)],
        )
        options = {"fail_on": "error", "fail_on_suspect": False}
        (runs / name / "tables" / "changes" / "_SUCCESS").touch()
        sizes = {part.name: part.stat().st_size for part in (runs / name / "findings").iterdir()}
        manifest = {"identity": {"options": options}, "findings": sizes}
        (runs / name / "manifest.json").write_text(json.dumps(manifest))
    return runs


def test_the_whole_run_can_be_shown(whole: Path) -> None:
    for command in COMMANDS:
        done = ask(command, whole)
        assert done.exit_code in (0, 1), (command, done.output)


def ask(command: tuple[str, ...], runs: Path) -> Any:
    named = {"RUN": str(runs / "run"), "OLD": str(runs / "old")}
    return bkaudit(*(named.get(word, word) for word in command))


def hold(
    whole: Path,
    tmp_path: Path,
    damage: Callable[[Path], object],
    commands: tuple[tuple[str, ...], ...] = COMMANDS,
) -> Iterator[tuple[str, ...]]:
    """Commands that end with 5; no command may end with a traceback, or with more than one line."""
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    damage(runs / "run")
    for command in commands:
        done = ask(command, runs)
        said = [line for line in done.stderr.splitlines() if line.startswith("bkaudit: ")]
        assert done.exit_code in (0, 1, 5), (command, done.output)
        if done.exit_code == 5:
            [line] = said
            assert f"{runs}/run/" in line, command
            assert line.endswith(": restore a complete copy of it, or audit again"), line
            yield command


def changed(*path: str | int, value: object) -> Callable[[Path], object]:
    def spoil(run: Path) -> None:
        whole = json.loads((run / "report.json").read_text())
        part = whole
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        (run / "report.json").write_text(json.dumps(whole))

    return spoil


def written(data: bytes) -> Callable[[Path], object]:
    return lambda run: (run / "report.json").write_bytes(data)


def without_verdict(run: Path) -> None:
    whole = json.loads((run / "report.json").read_text())
    del whole["verdict"]
    (run / "report.json").write_text(json.dumps(whole))


REPORT_DAMAGE = {
    "empty": written(b""),
    "cut": lambda run: written((run / "report.json").read_bytes()[:900])(run),
    "foreign": written(b'{"a": 1}'),
    "a list": written(b"[]"),
    "binary": written(bytes(range(256))),
    "no verdict": without_verdict,
    "a tally that is null": changed("run", "tally", value=None),
    "a count that is text": changed("run", "tally", 0, "count", value="1"),
    "a severity that is none": changed("run", "tally", 0, "severity", value="bad"),
    "a time that is none": changed("run", "finished", value=10**30),
    "a remark that is a number": changed("run", "remarks", value=[1]),
    "a coverage that is text": changed("coverage", "ledgers", "total", value="7"),
    "a finding without its message": changed("findings", 0, "message", value=None),
    "evidence that is null": changed("findings", 0, "evidence", value=None),
    "a verdict that is none": changed("verdict", value="fine"),
}


@pytest.mark.parametrize("name", REPORT_DAMAGE)
def test_a_damaged_report_is_one_sentence_of_every_command(name: str, whole: Path, tmp_path: Path) -> None:
    commands = (*COMMANDS, DIFF)
    assert {*hold(whole, tmp_path, REPORT_DAMAGE[name], commands)} == {*commands}


def first_part(run: Path, below: str) -> Path:
    return max((run / below).glob("*.parquet"))


def flip(run: Path) -> None:
    """Damage the last byte of the messages: checksums are of pages, and not of their headers."""
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
    "a byte": flip,
}


@pytest.mark.parametrize("name", FINDINGS_DAMAGE)
def test_a_damaged_part_of_the_findings_leaves_no_report_at_0(name: str, whole: Path, tmp_path: Path) -> None:
    assert {*REPORTS} <= {*hold(whole, tmp_path, FINDINGS_DAMAGE[name])}


@pytest.mark.parametrize("table", ["changes", "bookies", "ledgers", "verdicts", "identities", "judged"])
@pytest.mark.parametrize("how", ["gone", "cut", "foreign"])
def test_a_damaged_table_is_one_sentence_wherever_it_is_read(
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

    ended = [*hold(whole, tmp_path, spoil)]
    # Without the table changes a run is as those of the versions that had none: diff says so.
    assert ended or (table, how) == ("changes", "gone")


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}'])
def test_a_damaged_manifest_is_one_sentence(text: str, whole: Path, tmp_path: Path) -> None:
    ended = {*hold(whole, tmp_path, lambda run: (run / "manifest.json").write_text(text))}
    assert ("explain", "run", "RUN") in ended


OF_RUNS = (("history", "RUNS"), ("prune", "RUNS", "--keep-last", "1"))


@pytest.mark.parametrize("command", OF_RUNS, ids=lambda command: command[0])
def test_commands_of_many_runs_name_a_damaged_one_and_end_with_5_where_it_is_all(
    whole: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    (runs / "run" / "report.json").write_bytes(b"{")
    arguments = [str(runs) if word == "RUNS" else word for word in command]
    some = bkaudit(*arguments)
    assert some.exit_code == 0
    assert "old" in some.stdout
    assert f"{runs}/run/report.json is damaged" in some.stderr
    shutil.rmtree(runs / "old")
    none = bkaudit(*arguments)
    assert none.exit_code == 5
    assert f"{runs}/run/report.json is damaged" in none.stderr
    assert (runs / "run").is_dir()


@pytest.mark.parametrize("command", [("space", "RUN"), ("explain", "topic", "a/b/c", "--run", "RUN")])
def test_space_and_topics_of_a_damaged_run_are_refused_with_5(
    whole: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert [*hold(whole, tmp_path, written(b"{"), (command,))] == [command]
