"""The program accepts every command that a document shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from auditor.cli import main
from tests.command_lines import program_context

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def document_commands(page: Path) -> list[str]:
    """Return the commands of a page: lines of code and inline code that begin with ``bkaudit``."""
    text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
    lines = re.findall(r"^(?:    )?(?:\$ )?(bkaudit .*)$", text, re.MULTILINE)
    return [line.split("  #")[0].split("   ")[0].strip() for line in lines] + re.findall(
        r"`(bkaudit [^`]+)`", text
    )


COMMANDS = sorted({(page.name, command) for page in PAGES for command in document_commands(page)})


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[" ".join(pair) for pair in COMMANDS])
def test_command_in_document_is_accepted_by_the_program(page: str, command: str) -> None:
    words = shlex.split(re.split(r" (?:\||>|&&) ", command)[0])[1:]
    context = program_context()
    group: click.Command = main
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        subcommand = group.get_command(context, name)
        if subcommand is None:
            assert name.isupper() or name == "...", f"{page}: no command {name!r} in {command}"
            return
        group = subcommand
    options = {
        option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    used_options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert used_options <= options | {"--help"}, f"{page}: {command}"


def test_documents_contain_many_commands() -> None:
    assert len(COMMANDS) > 40


def test_version_option_prints_the_version() -> None:
    output = CliRunner().invoke(main, ["--version"]).output
    assert re.fullmatch(r"bkaudit, version \d+\.\d+\.\d+\n", output)


def test_shell_completion_script_is_printed() -> None:
    environment = {**os.environ, "_BKAUDIT_COMPLETE": "zsh_source"}
    program = [str(Path(sys.executable).with_name("bkaudit"))]
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
    assert "_BKAUDIT_COMPLETE=zsh_complete bkaudit" in done.stdout
    assert '"$(_BKAUDIT_COMPLETE=bash_source bkaudit)"' in (ROOT / "docs" / "getting-started.md").read_text(
        "utf-8"
    )


FILE = re.compile(
    r"(?<![\w/.$~-])((?:[\w.-]+/)+[\w.-]+\.(?:py|toml|json|proto|yml|yaml|md|ipynb|service|timer|j2)(?:\.gz)?)\b"
)
BASES = (ROOT, ROOT / "auditor", ROOT / "tests", ROOT / "proofs", ROOT / "conf")
"""What paths of documents are relative to, besides the page itself."""

READER_PATHS = ("RUN/", "checkout/")
"""How paths begin that are not of the project: in a run, or wherever a reader has the checkout."""

DOTTED = re.compile(r"`((?:auditor|tests|proofs|benchmarks)(?:\.\w+)+)")


def is_module_or_in_one(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        place = ROOT.joinpath(*parts[:length])
        if place.with_suffix(".py").is_file() or place.is_dir():
            return len(parts) - length <= 2  # a name in it, or a name of a class in it
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_modules_named_in_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    paths = [name for name in FILE.findall(text) if not name.startswith(READER_PATHS)]
    bases = (*BASES, page.parent)
    assert [name for name in paths if not any((base / name).is_file() for base in bases)] == []
    assert [name for name in DOTTED.findall(text) if not is_module_or_in_one(name)] == []


def test_packages_listed_in_architecture_page_exist() -> None:
    """The list in docs/architecture.md has lines of code, each with a path and its content."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    _, _, house = page.partition("## Packages\n")
    lines = re.findall(
        r"^    ([a-z_]+(?:/|\.py)(?: [a-z_]+/)*)(?:  |$)", house.partition("\n## ")[0], re.MULTILINE
    )
    listed = [name for line in lines for name in line.split()]
    assert len(listed) > 20
    assert [name for name in listed if not any((base / name).exists() for base in BASES[:2])] == []
    packages = {f"{path.parent.name}/" for path in (ROOT / "auditor").glob("*/__init__.py")}
    assert packages <= set(listed)


INSTALL = re.compile(r"(?:pip3?|pipx|uv tool|uv pip) install (.*)|\b(?:uvx|pipx run) (.*)")
INSTALL_DOCUMENTS = (
    *PAGES,
    *(path for folder in ("conf", "notebooks", "auditor") for path in sorted((ROOT / folder).rglob("*"))),
)
TEXT_ENDINGS = {".md", ".py", ".ipynb", ".toml", ".yaml", ".yml", ".service", ".timer", ".j2", ".conf", ""}


def test_no_install_line_installs_this_project_from_an_index() -> None:
    """The project is in no index, so a project of that name there would be somebody else's."""
    lines = [
        (path.relative_to(ROOT), match[0])
        for path in INSTALL_DOCUMENTS
        if path.is_file() and path.suffix in TEXT_ENDINGS and "__pycache__" not in path.parts
        for match in INSTALL.finditer(path.read_text("utf-8", "replace"))
    ]
    assert len(lines) > 5
    by_name = re.compile(r"(?<![\w./-])(?:bookkeeper[-_.]auditor|bkaudit)(?![\w/-]|\.whl)", re.IGNORECASE)
    assert [(path, line) for path, line in lines if by_name.search(line)] == []


MOST_WORDS_OF_A_DECISION = 120
DECISION = re.compile(r"\*\*Context\.\*\*\s.+\s\*\*Decision\.\*\*\s.+\s\*\*Consequences\.\*\*\s.+", re.DOTALL)


def decisions() -> list[tuple[str, str]]:
    """Return the title and the text of each entry of docs/decisions.md."""
    page = (ROOT / "docs" / "decisions.md").read_text("utf-8")
    entries = re.split(r"^### ", re.sub(r"^## .*$", "", page, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return [(title, text.strip()) for title, _, text in (entry.partition("\n") for entry in entries)]


@pytest.mark.parametrize(("title", "text"), decisions(), ids=[title for title, _ in decisions()])
def test_a_decision_has_three_parts_and_is_short(title: str, text: str) -> None:
    assert DECISION.fullmatch(text), f"{title}: Context, Decision and Consequences, in this order"
    words = len(text.split())
    assert words <= MOST_WORDS_OF_A_DECISION, f"{title}: {words} words"


def test_decisions_have_different_titles() -> None:
    titles = [title for title, _ in decisions()]
    assert len(titles) == len({*titles}) > 50
