"""Help: -h, examples that the commands accept, forms of URIs, and options with an effect; and completion."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from auditor.cli import COMMAND_HELP_TEXTS, COMMAND_MODULES, main
from auditor.cli.decode import FILE_KINDS
from auditor.cli.examples import EXAMPLES
from auditor.cli.options import OPTION_GROUPS, GroupedCommand
from auditor.model.options import option_types
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.command_lines import parse_command_line, program_context
from tests.made_runs import made_run
from tests.syntax import syntax_nodes, syntax_tree

ROOT = Path(__file__).parents[2]
UNLISTED = {
    "explain ledger id",
    "ledger show id",
    "explain topic name",
    "report accept",
    "report ledger",
    "report topic",
} | {"decode bookie_id"}


def bkaudit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


def all_commands() -> dict[str, click.Command]:
    """Return every command and group by its words."""
    commands: dict[str, click.Command] = {}
    for name in COMMAND_HELP_TEXTS:
        command = main.get_command(program_context(), name)
        assert command is not None
        commands[name] = command
        if isinstance(command, click.Group):
            commands |= {f"{name} {part}": subcommand for part, subcommand in command.commands.items()}
    return commands


COMMANDS = all_commands()
LEAF_COMMANDS = {
    words: command for words, command in COMMANDS.items() if not isinstance(command, click.Group)
}
"""Commands that are no groups."""


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_every_help_page_ends_with_examples_and_short_option_shows_it(words: str) -> None:
    shown = bkaudit(*words.split(), "-h")
    assert shown.exit_code == 0
    for example in EXAMPLES[words]:
        assert f"\n    {example}\n" in f"{shown.output}\n", shown.output
    assert bkaudit(*words.split(), "--help").output == shown.output
    assert not re.search(r"^  .*\.\.\.$", shown.output, re.MULTILINE), "no subcommand's sentence is cut"


@pytest.mark.parametrize("example", [line for examples in EXAMPLES.values() for line in examples])
def test_examples_are_accepted_by_their_commands(example: str) -> None:
    if example.startswith("spark-submit "):
        example = example.partition("$(")[2].partition(")")[0]
    parse_command_line(shlex.split(example.partition(" | ")[0].partition(" < ")[0])[1:])


@pytest.mark.parametrize("words", ["audit", "scan", "doctor", "compare", "ledger show", "ledger list"])
def test_uri_forms_are_shown_unbroken_in_help_at_80_columns(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in bkaudit(*words.split(), "--help").output.splitlines()]
    for form in (
        "zk://HOST:2181;HOST:2181/ledgers",
        "etcd://HOST:2379/SCOPE",
        "zk-snapshot:///DIR/version-2?root=/ledgers",
        "etcd-snapshot:///FILE.db?scope=/SCOPE",
        "dump:///FILE.jsonl?root=/ledgers",
    ):
        assert form in lines
        assert parse_metadata_uri(form.replace("HOST", "host"))


def test_file_kinds_are_listed_in_help_and_files_in_conf_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = bkaudit("decode", "--help").output.replace(",", "").split()
    assert set(FILE_KINDS) <= set(shown)
    bare = bkaudit("conf", "show")
    assert (bare.exit_code, bare.output) == (0, bkaudit("conf", "list").output)
    nameless = bkaudit("conf", "path")
    assert (nameless.exit_code, "audit.toml" in nameless.stderr) == (2, True)


@pytest.mark.parametrize("words", LEAF_COMMANDS)
def test_a_command_reads_every_parameter_that_it_has(words: str) -> None:
    function = inspect.unwrap(LEAF_COMMANDS[words].callback or main)
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    read = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert set(inspect.signature(function).parameters) <= read


@pytest.mark.parametrize("words", LEAF_COMMANDS)
def test_a_command_has_only_options_that_its_code_reads(words: str) -> None:
    options = {parameter.name for parameter in LEAF_COMMANDS[words].params} & set(option_types())
    assert options <= options_read_from(
        f"auditor.cli.{COMMAND_MODULES.get(words.split()[0], words.split()[0])}"
    )


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("scan", "--fail-on --samples --suppressions --witness --index-time --bookie-rate-limit"),
        ("demo", "--fail-on --fail-on-suspect --scan-time --index-time --credentials --since --witness"),
        ("dump", "--verbose --bookies --master --out"),
        ("collect", "--metadata --rate-limit --credentials"),
        ("doctor", "--samples --suppressions --since --threads"),
    ],
)
def test_meaningless_options_are_not_offered_by_a_command(words: str, flags: str) -> None:
    refused = {option for parameter in LEAF_COMMANDS[words].params for option in parameter.opts} & {
        *flags.split()
    }
    assert refused == set()


def test_spark_options_are_refused_without_spark() -> None:
    refused = bkaudit("collect", "--bookies", "/nowhere", "--out", "/nowhere", "--master", "local[1]")
    assert refused.exit_code == 2
    assert refused.stderr == "bkaudit: --master: only valid with --spark\n"


def options_read_from(command: str) -> set[str]:
    """Return the audit options that are read in any module that a command reaches."""
    visited, pending = {"auditor.cli.options", "auditor.model.options"}, [command]
    options: set[str] = set()
    while pending:
        if (module := pending.pop()) not in visited:
            visited.add(module)
            names, read = imports_and_options(module)
            pending += names
            options |= read
    return options


@cache
def imports_and_options(module: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the project modules that a module imports at run time, and the options that it reads."""
    file = ROOT / f"{module.replace('.', '/')}.py"
    if not file.exists():
        file = ROOT / module.replace(".", "/") / "__init__.py"
    if not file.exists():
        return frozenset(), frozenset()  # a name in a module
    tree = syntax_tree(file)
    conditions = [node for node in tree.body if isinstance(node, ast.If)]
    for_types = {id(inner) for node in conditions for inner in ast.walk(node)}
    names: set[str] = set()
    read: set[str] = set()
    has_options = module.startswith("auditor.cli.")
    for node in syntax_nodes(file):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("auditor"):
            imported = {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
            has_options |= any(name.endswith(("AuditOptions", "StoreOptions")) for name in imported)
            names |= imported if id(node) not in for_types else set()
        elif isinstance(node, ast.Attribute):
            read.add(node.attr)
    return frozenset(names), frozenset(read & set(option_types()) if has_options else ())


def test_ledger_argument_excludes_ledger_id_options() -> None:
    refused = bkaudit("ledger", "show", "5", "--metadata", "dump:///nowhere", "--ledger-id", "6")
    assert (refused.exit_code, "the argument has ledger 5" in refused.stderr) == (2, True)
    name = "0000000000000007000000000000002a"
    doubled = bkaudit("ledger", "show", name, "--metadata", "dump:///nowhere", "--ledger-id", "6")
    assert (doubled.exit_code, "Omit --ledger-id and similar options" in doubled.stderr) == (2, True)
    odd = bkaudit("explain", "ledger", "abc", "--run", "/nowhere")
    assert (odd.exit_code, "'abc' is not a qualified ledger name" in odd.stderr) == (2, True)
    scopes = bkaudit("ledger", "list", "5", "--metadata", "dump:///nowhere", "--ledger-scope-id", "6")
    assert (scopes.exit_code, "the argument has scope 5" in scopes.stderr) == (2, True)
    missing = bkaudit("ledger", "show", "5", "--metadata", "dump:///nowhere/a")
    assert "/nowhere/a" in missing.stderr


def test_commands_have_only_options_that_they_use() -> None:
    for words in (("history",), ("status",), ("report",), ("space",), ("explain", "bookie"), ("prune",)):
        shown = bkaudit(*words, "--help").output
        assert "--metadata" not in shown
        assert "--bookies" not in shown


def completions(*arguments: str) -> list[str]:
    shell = ShellComplete(main, {}, "bkaudit", "_BKAUDIT_COMPLETE")
    return [completion.value for completion in shell.get_completions([*arguments[:-1]], arguments[-1])]


def test_a_shell_completes_runs_checks_forms_and_bookies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    row: dict[str, Any] = {"bookie_id": "bk1:3181"}
    made_run(Path("runs/20261121T050749Z"), bookies=[row])
    assert completions("report", "") == ["runs/20261121T050749Z"]
    assert completions("explain", "check", "entry-los") == ["entry-lost"]
    assert completions("report", "runs/x", "--format", "js") == ["json", "jsonl"]
    assert completions("explain", "bookie", "bk") == ["bk1:3181"]
    assert completions("explain", "ledger", "5", "--run", "runs/2") == ["runs/20261121T050749Z"]
    assert completions("report", "--bookie", "bk") == ["bk1:3181"]
    assert completions("report", "runs/20261121T050749Z", "--bookie", "") == ["bk1:3181"]
    assert completions("audit", "--since", "") == ["runs/20261121T050749Z", "last"]
    assert completions("conf", "show", "audit") == ["audit.toml"]
    assert completions("status", "/var/li") == ["/var/li"]  # a directory, which the shell completes


@pytest.mark.parametrize("words", LEAF_COMMANDS)
def test_shell_completes_every_file_run_or_listed_name(words: str) -> None:
    """URIs, addresses, times, amounts, ledger ids and topic names are exempt, because nothing lists them."""
    free = {"URI", "URI URI", "TIME", "MASTER", "SIZE", "SOURCE", "COPY", "HEX", "HOST:PORT"}
    for parameter in LEAF_COMMANDS[words].params:
        plain = isinstance(parameter.type, click.types.StringParamType) and not getattr(
            parameter, "is_flag", False
        )
        if plain and parameter.metavar not in free and f"{words} {parameter.name}" not in UNLISTED:
            assert parameter._custom_shell_complete is not None, parameter


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("adit", "'audit'"), ("repot", "'report'"), ("explain leger 4", "'ledger'"), ("ledger lst", "'list'")],
)
def test_mistyped_command_is_answered_with_similar_commands(typed: str, meant: str) -> None:
    answer = bkaudit(*typed.split())
    assert answer.exit_code == 2
    assert f"Did you mean {meant}" in answer.stderr
    assert "Did you mean" not in bkaudit("xyzzy").stderr


@pytest.mark.parametrize(
    "words", [words for words, entry in COMMANDS.items() if isinstance(entry, GroupedCommand)]
)
def test_every_option_of_a_grouped_command_is_under_one_heading(words: str) -> None:
    names = [name for group in OPTION_GROUPS.values() for name in group]
    assert len(names) == len(set(names))
    assert {parameter.name for parameter in COMMANDS[words].params} <= set(names)
    output = bkaudit(*words.split(), "--help").output
    assert output.index("\nWhat to read:\n") < output.index("\nSpark:\n")
    assert output.index("\nOther options:\n  -h, --help") > output.index("\nSpark:\n")
    options = output[output.index("\nWhat to read:\n") :]
    for parameter in COMMANDS[words].params:
        assert len(re.findall(rf"(?m)^  {parameter.opts[0]}[ ,]", options)) == 1, parameter.name


def test_no_group_names_an_option_that_no_command_has() -> None:
    assert {name for group in OPTION_GROUPS.values() for name in group} <= {
        parameter.name for command in COMMANDS.values() for parameter in command.params
    }


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_help_command_prints_what_the_help_option_prints(words: str) -> None:
    assert bkaudit("help", *words.split()).output == bkaudit(*words.split(), "--help").output


def test_version_command_prints_what_the_version_option_prints() -> None:
    outcome = bkaudit("version")
    assert outcome.exit_code == 0
    assert outcome.output == bkaudit("--version").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("repot", "Did you mean 'report'"),
        ("explain leger", "Did you mean 'ledger'"),
        ("report 5", "bkaudit report has no subcommand '5'."),
        ("--man report", "Omit COMMAND"),
    ],
)
def test_help_for_an_unknown_command_is_wrong_usage(words: str, message: str) -> None:
    answer = bkaudit("help", *words.split())
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert message in answer.stderr


def test_a_shell_completes_the_commands_of_help() -> None:
    assert completions("help", "repo") == ["report"]
    assert completions("help", "explain", "l") == ["ledger"]
    assert completions("help", "nothing", "l") == []
    assert completions("help", "report", "l") == []
