"""Help: -h, examples that the commands take, forms of URIs, options that mean something; and completion."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from auditor.cli import COMMANDS, main
from auditor.cli.examples import EXAMPLES
from tests.made_runs import made_run


def bkaudit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


def words_of_all() -> list[str]:
    """The words of every command that does something."""
    found = []
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        found += (
            [f"{name} {part}" for part in command.commands] if isinstance(command, click.Group) else [name]
        )
    return found


@pytest.mark.parametrize("words", words_of_all())
def test_every_help_ends_with_examples_and_h_shows_it(words: str) -> None:
    shown = bkaudit(*words.split(), "-h")
    assert shown.exit_code == 0
    for example in EXAMPLES[words]:
        assert f"\n    {example}\n" in f"{shown.output}\n", shown.output


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_examples_are_taken_by_their_commands(example: str) -> None:
    if example.startswith("spark-submit "):
        example = example.partition("$(")[2].partition(")")[0]
    arguments = shlex.split(example.partition(" | ")[0].partition(" < ")[0])[1:]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, arguments.pop(0))
        assert found is not None
        command = found
    command.make_parser(context).parse_args(arguments)  # which opens no file


def test_the_forms_of_uris_stand_in_help() -> None:
    shown = "".join(bkaudit("audit", "--help").output.split())
    for scheme in ("zk://", "etcd://", "zk-snapshot://", "etcd-snapshot://", "dump://"):
        assert scheme in shown


def test_scan_and_demo_have_only_options_that_they_use() -> None:
    scan, demo = (bkaudit(name, "--help").output for name in ("scan", "demo"))
    for flag in (
        "--fail-on",
        "--samples",
        "--suppressions",
        "--witness",
        "--index-time",
        "--bookie-rate-limit",
    ):
        assert f"{flag} " not in scan
    for flag in ("--scan-time", "--index-time", "--credentials", "--since", "--witness "):
        assert flag not in demo
    assert "--rate-limit" in scan
    assert "--samples" in demo


def test_a_ledger_is_named_by_its_id_alone() -> None:
    refused = bkaudit("ledger", "show", "5", "--metadata", "dump:///nowhere", "--ledger-id", "6")
    assert (refused.exit_code, "the argument says ledger 5" in refused.stderr) == (2, True)
    name = "0000000000000007000000000000002a"
    both = bkaudit("ledger", "show", name, "--metadata", "dump:///nowhere", "--ledger-id", "6")
    assert (both.exit_code, "leave the options out" in both.stderr) == (2, True)
    odd = bkaudit("explain", "ledger", "abc", "--run", "/nowhere")
    assert (odd.exit_code, "'abc' is not a qualified ledger name" in odd.stderr) == (2, True)
    scopes = bkaudit("ledger", "list", "5", "--metadata", "dump:///nowhere", "--ledger-scope-id", "6")
    assert (scopes.exit_code, "the argument says scope 5" in scopes.stderr) == (2, True)
    missing = bkaudit("ledger", "show", "5", "--metadata", "dump:///nowhere/a")
    assert "/nowhere/a" in missing.stderr


def test_commands_have_only_options_that_they_use() -> None:
    for words in (("history",), ("status",), ("report",), ("space",), ("explain", "bookie"), ("prune",)):
        shown = bkaudit(*words, "--help").output
        assert "--metadata" not in shown
        assert "--bookies" not in shown
    for words in (("ledger", "show"), ("ledger", "list"), ("dump",)):
        shown = bkaudit(*words, "--help").output
        assert "--bookies" not in shown
        assert "--master" not in shown
    assert "--metadata" not in bkaudit("collect", "--help").output


def completed(*arguments: str) -> list[str]:
    shell = ShellComplete(main, {}, "bkaudit", "_BKAUDIT_COMPLETE")
    return [item.value for item in shell.get_completions([*arguments[:-1]], arguments[-1])]


def test_a_shell_completes_runs_checks_forms_and_bookies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    row: dict[str, Any] = {"bookie_id": "bk1:3181"}
    made_run(Path("runs/20261121T050749Z"), bookies=[row])
    assert completed("report", "") == ["runs/20261121T050749Z"]
    assert completed("explain", "check", "entry-los") == ["entry-lost"]
    assert completed("report", "runs/x", "--format", "js") == ["json", "jsonl"]
    assert completed("explain", "bookie", "bk") == ["bk1:3181"]
    assert completed("explain", "ledger", "5", "--run", "runs/2") == ["runs/20261121T050749Z"]
