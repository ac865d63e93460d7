"""Every command in a code block of a document runs here, unless its block is marked as an example.

A block of code is indented by four blanks, or fenced. The fence of a block that needs a user's own cluster,
or takes too long, is ``console example``. All other commands run in this process, page by page. A saved
Pulsar cluster replaces the names in the documents. The pages of checks are generated, and their commands
are for the cluster that a finding is about.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.demo.sample import extract
from auditor.runs.reader import RunReader
from tests.test_documents import PAGES, ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = re.compile(
    r"(?:\$ )?(?:nice .* )?"
    r"((?:bkaudit|python3?|pip|eval|spark-submit|etcdctl|cp|zip|docker|\S*/python|\S*/run) .*)"
)
OTHER_TESTS = {
    "python3 run.py demo": "tests/test_run.py",
    "python3 run.py test": "tests/test_run.py",
    "pip install .": "tests/test_packaging.py",
    'eval "$(_BKAUDIT_COMPLETE': "tests/test_documents.py",
    ".venv/bin/python -m proofs.living": "proofs/living/test_living_loop.py",
}
"""How commands begin that other tests run, and where."""

PULSAR = ROOT / "tests" / "data" / "pulsar-a"
"""A saved cluster of three bookies, with topics."""

TOPIC = "fleet/telemetry/gps"

AUDIT_PAGES = ("README", "getting-started", "space")
"""The pages that show an audit which is run; those come first."""

EXIT_CODES = {"audit": (0, 1, 3), "collect": (0, 3), "doctor": (0, 3)}
"""Exit codes of commands that say something of the cluster with them; 0 is that of all others."""


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each block of code: the text after the fence ("" if none), and lines, continued ones joined."""
    info: str | None = None
    lines: list[str] = []
    for line in [*re.sub(r"\s*\\\n\s*", " ", text).splitlines(), "the end"]:
        if line.startswith("```"):
            yield info or "", lines
            info, lines = (line.removeprefix("```") or "plain") if info is None else None, []
        elif info is not None:
            lines.append(line)
        elif line.startswith("    "):
            lines.append(line[4:])
        elif line.strip() or not lines:
            yield "", lines
            lines = []


def commands(page: Path) -> tuple[list[str], list[str]]:
    """Return a page's commands to run and its example commands, without trailing remarks."""
    kinds: tuple[list[str], list[str]] = ([], [])
    for info, lines in blocks(page.read_text("utf-8")):
        for line in lines:
            if match := PROGRAM.fullmatch(line):
                kinds["example" in info.split()].append(re.split(r" {2,}| \| | >> ", match[1])[0].strip())
    return kinds


RUN = {page: commands(page)[0] for page in PAGES if page.parent.name != "checks"}


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """Return the values that replace a document's words: the saved cluster, and the paths of its runs."""
    shutil.copytree(PULSAR / "zookeeper", tmp_path / "zookeeper")
    extract(PULSAR / "bookies.tar.gz", tmp_path)
    uri, bookies = f"zk-snapshot://{tmp_path}/zookeeper/version-2", str(tmp_path / "bookies")
    return {
        "zk://zk1:2181;zk2:2181/ledgers": uri,
        "dump://$PWD/saved/metadata.jsonl.gz": uri,  # `bkaudit dump` takes running stores only
        "URI": uri,
        "/mnt/bookies": bookies,
        "PATH": bookies,
        "FILE": str(next((tmp_path / "bookies").rglob("0.log"))),
        "runs/A": "runs/README",
        "runs/B": "runs/getting-started",
        "bk1:3181": "bookie-0.example:3181",
        "shop/orders/returns": TOPIC,
        "T": TOPIC,
    }


def words_of(command: str, page: Path, cluster: dict[str, str]) -> list[str]:
    """Return the arguments of a command, with the tests' cluster in place of the documents' cluster.

    A page that makes a run has a run of its own; other pages use the README's run.
    """
    run = f"runs/{page.stem if page.stem in AUDIT_PAGES else 'README'}"
    words = shlex.split(command.partition("bkaudit")[2])
    if "FINGERPRINT" in words:
        cluster = cluster | {"FINGERPRINT": next(iter(RunReader(run).findings)).fingerprint}
    return [cluster.get(word, run if word in ("RUN", "run-1") else word) for word in words]


def test_commands_in_documents_run_successfully(
    cluster: dict[str, str], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for page in sorted(RUN, key=lambda page: page.stem not in AUDIT_PAGES):
        for command in RUN[page]:
            if command.startswith(tuple(OTHER_TESTS)):
                continue
            words = words_of(command, page, cluster)
            done = CliRunner().invoke(main, words, prog_name="bkaudit")
            assert done.exit_code in EXIT_CODES.get(words[0], (0,)), f"{page}: {command}\n{done.output}"


def test_command_that_is_not_run_is_marked_as_an_example() -> None:
    prefixes = ("bkaudit ", *OTHER_TESTS)
    shown = [
        f"{page.name}: {command}" for page in RUN for command in RUN[page] if not command.startswith(prefixes)
    ]
    assert shown == []


def test_files_that_run_other_commands_exist() -> None:
    assert [file for file in OTHER_TESTS.values() if not (ROOT / file).exists()] == []


def test_documents_have_commands_to_run_and_examples() -> None:
    assert all(
        any("bkaudit audit " in command for command in RUN[page]) for page in RUN if page.stem in AUDIT_PAGES
    )
    assert sum(len(shown) for shown in RUN.values()) > 20
    assert sum(len(commands(page)[1]) for page in PAGES) > 10


def test_code_block_is_indented_or_fenced() -> None:
    text = "words\n\n    bkaudit a \\\n      --b   # why\n\nmore\n\n```console example\nbkaudit c\n```\n"
    assert [block for block in blocks(text) if block[1]] == [
        ("", ["bkaudit a --b   # why"]),
        ("console example", ["bkaudit c"]),
    ]
