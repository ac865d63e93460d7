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
# Truth: foreign bytes and proofs

`python -m tests.truth > docs/truth.md` writes this page. Its first half lists, for every format that the
program reads or writes, which other program wrote the bytes that the tests read, and how many there are.
"Started": the tests start the writer, and its bytes are new in every run. `tests/truth/formats.toml` has
the paths and the tests of each row; `tests/truth/test_truth.py` counts the bytes, and fails for a reader
without a foreign writer. [Adding things](adding.md) says how to add a row.
"""
_PROOFS = """\
## Proofs

Each shows a property of the whole program: the command, its last day, and its result. The tables and the
tests of each are in `tests/truth/proofs.toml`.
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
    """A property of the whole program: the command that shows it, its result on a day, and its tests.

    ``rows``, the names of the columns first, are a table that the command printed. The page shows the rows
    whose first cells are ``shown``, or all.
    """

    claim: str
    command: str
    day: str
    figure: str
    tests: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    shown: tuple[str, ...] = ()


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
    """Return the text of docs/truth.md."""
    rows = formats()
    by_writer: dict[str, list[str]] = {}
    for row in rows:
        if row.is_foreign:
            by_writer.setdefault(row.writer, []).append(f"{row.name} ({_amount_of_bytes(row)})")
    lines = [_TEXT, *_table("written by", "formats (how many)")]
    lines += [_line(writer, "; ".join(names)) for writer, names in by_writer.items()]
    lines += ["", "Written by this program, and read by another:", "", *_table("format", "read by")]
    lines += [_line(row.name, row.read_by) for row in rows if row.read_by]
    lines += ["", "Not available from a foreign writer:", "", *_table("format", "why")]
    lines += [_line(row.name, row.lacks) for row in rows if row.lacks]
    lines += ["", "Only this project writes:", "", *_table("format", "why")]
    lines += [_line(row.name, row.own) for row in rows if row.own]
    lines += ["", _PROOFS.rstrip("\n")]
    for proof in proofs():
        lines += ["", f"### {proof.claim}", "", f"`{proof.command}`, {proof.day}: {proof.figure}"]
        lines += _result_table(proof)
    return "\n".join(lines) + "\n"


def _result_table(proof: Proof) -> list[str]:
    """Return the shown rows, without columns that have one value in all rows: a sentence says these."""
    if not proof.rows:
        return []
    head, *rows = proof.rows
    columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    constant = {name: cells[0] for name, cells in columns.items() if len({*cells}) == 1}
    varying = [number for number, name in enumerate(head) if name not in constant]
    shown = [row for row in rows if not proof.shown or row[0] in proof.shown]
    lines = [""]
    if constant:
        lines += [f"In all {len(rows)} rows: {', '.join(map(' '.join, constant.items()))}.", ""]
    lines += _table(*(head[number] for number in varying))
    return lines + [_line(*(row[number] for number in varying)) for row in shown]


def _table(*names: str) -> list[str]:
    """Return the head of a table."""
    return [_line(*names), f"|{' --- |' * len(names)}"]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _amount_of_bytes(row: Format) -> str:
    return f"{sum(map(count_of, row.bytes)):,}" if row.bytes else "started"
