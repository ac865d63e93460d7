"""The table of formats: which program wrote the bytes that each reader is tested with."""

from __future__ import annotations

import ast
import fnmatch
import gzip
import json
import tarfile
import tomllib
from collections.abc import Sized
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("formats.toml")
PROOFS = Path(__file__).with_name("proofs.toml")
PAGE = ROOT / "docs" / "truth.md"

_TEXT = """\
# Whose bytes each reader is tested with

A reader that is tested with what its own project packed agrees with itself. So every format that is read or
written has a row here: which program wrote the bytes, how many there are, where they lie (below `tests/`) and
which test reads them. "Started" is a server that the tests start: its bytes are new in every run. The table
is `tests/truth/formats.toml`; `tests/truth/test_truth.py` counts the bytes, and fails for a reader without a
foreign writer. [Adding things](adding.md) says how a row is added.
`python -m tests.truth > docs/truth.md` writes this page.
"""


@dataclass(frozen=True)
class Format:
    """One format, or one version of it, by one writer.

    ``readers`` are files below ``auditor/``, or ``decode:KIND``, ``metadata:SCHEME``, ``bookies:SOURCE``,
    ``owners:APPLICATION`` and ``form:FORM``. ``bytes`` say where they lie: ``PATH``, a glob, or ``PATH!PART``
    (`count_of`).
    """

    name: str
    readers: tuple[str, ...]
    writer: str = ""
    versions: tuple[int, ...] = ()
    bytes: tuple[str, ...] = ()
    live: bool = False
    """The tests start the writer."""
    tests: tuple[str, ...] = ()
    read_by: str = ""
    """The program that is not ours and reads in the tests what this one writes."""
    own: str = ""
    """Why nobody but this project writes it."""
    lacks: str = ""
    """What cannot be had from a foreign writer, with the error."""

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else's bytes are there."""
        return bool(self.writer and (self.bytes or self.live))


@cache
def formats() -> tuple[Format, ...]:
    """All rows, in their order."""
    return tuple(Format(**_tuples(row)) for row in tomllib.loads(TABLE.read_text("utf-8"))["format"])


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@dataclass(frozen=True)
class Proof:
    """What holds of the whole program: the command that shows it, what it gave on a day, and the tests of it.

    ``rows``, the names of the columns first, are a table that the command printed.
    """

    claim: str
    command: str
    day: str
    figure: str
    tests: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@cache
def proofs() -> tuple[Proof, ...]:
    """All of them, in their order."""
    return tuple(Proof(**_tuples(row)) for row in tomllib.loads(PROOFS.read_text("utf-8"))["proof"])


def count_of(where: str) -> int:
    """How many there are: files, or parts of a file.

    Of a tar the members, of JSON lines those whose path matches the glob behind ``!``; of JSON what lies at
    the key; of a Python file what the constant holds.
    """
    path, _, part = where.partition("!")
    files = sorted(ROOT.glob(path))
    return sum(_parts(file, part) for file in files) if part else len(files)


def _parts(file: Path, part: str) -> int:
    if ".tar" in file.suffixes:
        with tarfile.open(file) as archive:
            return len([each for each in archive if each.isfile() and fnmatch.fnmatch(each.name, part)])
    if file.suffix == ".py":
        return _held_by(_constants(file)[part])
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    if ".jsonl" in file.suffixes:
        return len(
            [line for line in text.splitlines() if fnmatch.fnmatch(json.loads(line).get("path", ""), part)]
        )
    return _amount(json.loads(text), part.split("."))


def _amount(value: Any, keys: list[str]) -> int:
    for key in keys:
        value = value[key] if key else value
    return len(value) if isinstance(value, Sized) and not isinstance(value, str) else 1


def _constants(file: Path) -> dict[str, ast.expr]:
    return {
        target.id: statement.value
        for statement in ast.parse(file.read_text("utf-8")).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def _held_by(value: ast.expr) -> int:
    if isinstance(value, ast.Dict):
        return len(value.keys)
    return len(value.elts) if isinstance(value, (ast.List, ast.Tuple)) else 1


def page() -> str:
    """docs/truth.md."""
    lines = [_TEXT, "| format | written by | how many | where | read in |", "| --- | --- | --- | --- | --- |"]
    lines += [_row(row) for row in formats() if row.is_foreign]
    lines += ["", "## Who reads what it writes", "", "| format | read by | in |", "| --- | --- | --- |"]
    lines += [f"| {row.name} | {row.read_by} | {_tests(row)} |" for row in formats() if row.read_by]
    lines += ["", "## What could not be had", "", "| format | why |", "| --- | --- |"]
    lines += [f"| {row.name} | {row.lacks} |" for row in formats() if row.lacks]
    lines += [
        "",
        "## Formats of this project's own",
        "",
        "| format | why nobody else writes it |",
        "| --- | --- |",
    ]
    lines += [f"| {row.name} | {row.own} |" for row in formats() if row.own]
    lines += ["", "## What holds of the whole program", "", "The table is `tests/truth/proofs.toml`."]
    for proof in proofs():
        lines += ["", f"### {proof.claim}", "", f"`{proof.command}`, on {proof.day}: {proof.figure}", ""]
        if proof.rows:
            head, *rest = (f"| {' | '.join(row)} |" for row in proof.rows)
            lines += [head, f"|{' --- |' * len(proof.rows[0])}", *rest, ""]
        lines.append(f"Tests: {_tests(proof)}.")
    return "\n".join(lines) + "\n"


def _row(row: Format) -> str:
    amount = f"{sum(map(count_of, row.bytes)):,}" if row.bytes else "started"
    where = ", ".join(f"`{each.removeprefix('tests/')}`" for each in row.bytes)
    return f"| {row.name} | {row.writer} | {amount} | {where} | {_tests(row)} |"


def _tests(row: Format | Proof) -> str:
    files = dict.fromkeys(each.partition("::")[0].removeprefix("tests/") for each in row.tests)
    return ", ".join(f"`{file}`" for file in files)
