"""The table of formats: which program wrote the bytes that test each reader."""

from __future__ import annotations

import ast
import fnmatch
import gzip
import json
import re
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Sized
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

`python -m tests.truth > docs/truth.md` writes this page from `tests/truth/formats.toml` and
`tests/truth/proofs.toml`.

## Foreign bytes

Tests read foreign bytes, which other programs wrote: files, parts of files, and answers of servers that
tests start ("live"). If a reader has no such bytes, `tests/truth/formats.toml` must state the reason.
"""
_PROOFS = """\
## Proofs

Each of these commands shows a property of the whole program. The date after it is the date of the result.
"""


@dataclass(frozen=True)
class Format:
    """One format, or one version of it, written by one program.

    ``readers`` are files below ``auditor/``, or ``decode:KIND``, ``metadata:SCHEME``, ``bookies:SOURCE``,
    ``owners:APPLICATION`` and ``form:FORM``. ``bytes`` has the locations: ``PATH``, a glob, or ``PATH!PART``
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
        """Return whether bytes of a program other than ours exist."""
        return bool(self.writer and (self.bytes or self.live))


@cache
def formats() -> tuple[Format, ...]:
    """Return all rows, in their order in the file."""
    return tuple(Format(**_tuples(row)) for row in tomllib.loads(TABLE.read_text("utf-8"))["format"])


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@dataclass(frozen=True)
class Proof:
    """A property of the whole program: the command that shows it, its dated result, and its tests.

    ``rows`` is a table that the command printed, with the column names first. The page shows the rows whose
    first cell is in ``shown``, or all rows.

    ``columns`` are the columns that the page shows; the default is all.
    ``sum_by`` names a column: the page has a row for each of its values, with the sums of the numbers.
    "all" gives one row. If ``counted``, the page counts each cell after the first column.
    """

    claim: str
    command: str
    day: str
    figure: str
    tests: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    shown: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    sum_by: str = ""
    counted: bool = False


@cache
def proofs() -> tuple[Proof, ...]:
    """Return all proofs, in their order in the file."""
    return tuple(Proof(**_tuples(row)) for row in tomllib.loads(PROOFS.read_text("utf-8"))["proof"])


def count_of(where: str) -> int:
    """Count the files, or the parts of a file, at this location.

    In a tar, they are members; in JSON lines, the lines whose path matches the glob after ``!``. In JSON,
    they are the elements at the key; in a Python file, those of the constant.
    """
    path, _, part = where.partition("!")
    files = sorted(ROOT.glob(path))
    return sum(_parts(file, part) for file in files) if part else len(files)


def _parts(file: Path, part: str) -> int:
    if ".tar" in file.suffixes:
        with tarfile.open(file) as archive:
            return len(
                [member for member in archive if member.isfile() and fnmatch.fnmatch(member.name, part)]
            )
    if file.suffix == ".py":
        return _count_elements(_constants(file)[part])
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


def _count_elements(value: ast.expr) -> int:
    if isinstance(value, ast.Dict):
        return len(value.keys)
    return len(value.elts) if isinstance(value, (ast.List, ast.Tuple)) else 1


def page() -> str:
    """Return the text of docs/truth.md."""
    rows = formats()
    lines = [_TEXT, *_table("program", "versions", "formats", "samples"), *_program_rows(rows)]
    forms = [
        f"{row.name.removeprefix('reports as ')} ({row.read_by.partition(',')[0]})"
        for row in rows
        if row.read_by
    ]
    unavailable = [row.name.partition(", in")[0] for row in rows if row.lacks]
    own = [_family(row.name) for row in rows if row.own]
    lines += ["", f"In tests, other programs read the report forms: {', '.join(forms)}."]
    lines += ["", f"No test reads another program's bytes in these formats: {'; '.join(unavailable)}."]
    lines += ["", f"No other program writes these formats: {'; '.join(own)}."]
    lines += ["", _PROOFS.rstrip("\n")]
    for proof in proofs():
        lines += ["", f"### {proof.claim}", "", f"`{proof.command}`, {proof.day}. {proof.figure}", ""]
        lines += _result_table(proof)
    return "\n".join(lines) + "\n"


def _program_rows(rows: tuple[Format, ...]) -> list[str]:
    """Return a row for each foreign program, with the families of its formats."""
    by_program: dict[str, list[Format]] = {}
    for row in rows:
        if row.is_foreign:
            by_program.setdefault(_program(row.writer), []).append(row)
    lines = []
    for program, written in by_program.items():
        versions = sorted({version for row in written for version in _versions(row.writer)}, key=_version_key)
        families = {_family(row.name): None for row in written}
        samples = sum(count_of(where) for row in written for where in row.bytes)
        amounts = [f"{samples:,}"] * bool(samples) + ["live"] * any(row.live for row in written)
        lines.append(_line(program, ", ".join(versions), "; ".join(families), ", ".join(amounts)))
    return lines


def _family(name: str) -> str:
    """Return the name of a format without its version and its variant.

    >>> _family("ZooKeeper's snapshots of four versions, plain")
    'snapshots'
    """
    name = re.sub(r"^(?:Pulsar|DistributedLog)(?:, by Pulsar)?: ", "", name)
    family = re.split(r"[,:(]| of (?:four|old) ", name)[0].strip()
    return re.sub(r"^(?:ZooKeeper|etcd|RocksDB|Pulsar)'s ", "", family)


def _writer(writer: str) -> str:
    """Return the program and its versions, without remarks."""
    return re.sub(r" ?\(.*?\)|;.*|, filled .*", "", writer)


def _program(writer: str) -> str:
    return re.split(r"\s+\d", _writer(writer))[0]


def _versions(writer: str) -> list[str]:
    return re.findall(r"\d+\.[\w.-]*\w", _writer(writer))


def _version_key(version: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", version)], version


def _result_table(proof: Proof) -> list[str]:
    """Return the shown rows, without columns that have one value in all rows; a sentence names those."""
    head, *rows = proof.rows
    if proof.counted:
        cells = Counter(cell for row in rows for cell in row[1:])
        return [*_table("result", "number"), *(_line(cell, f"{n}") for cell, n in cells.most_common())]
    columns = {
        name: cells
        for name, cells in zip(head, zip(*rows, strict=True), strict=True)
        if not proof.columns or name in proof.columns
    }
    constant = {name: cells[0] for name, cells in columns.items() if len(rows) > 1 and len({*cells}) == 1}
    varying = {name: cells for name, cells in columns.items() if name not in constant}
    lines = []
    if constant:
        values = ", ".join(f"column `{name}` is `{value}`" for name, value in constant.items())
        lines += [f"In all {len(rows)} result rows, {values}.", ""]
    if proof.sum_by:
        return lines + _sums(varying, len(rows), proof.sum_by)
    lines += _table(*varying)
    for number, row in enumerate(rows):
        if not proof.shown or row[0] in proof.shown:
            lines.append(_line(*(cells[number] for cells in varying.values())))
    return lines


def _sums(columns: dict[str, tuple[str, ...]], length: int, by: str) -> list[str]:
    """Return a row for each value of the column ``by``, with the sums of all numeric columns."""
    groups = columns.get(by) or ("all",) * length
    numbers = {
        name: cells
        for name, cells in columns.items()
        if name != by and all(re.fullmatch(r"\d+( of \d+)?", cell) for cell in cells)
    }
    lines = _table(by if by in columns else "", "rows", *numbers)
    for group in dict.fromkeys(groups):
        members = [number for number, value in enumerate(groups) if value == group]
        sums = [_sum(cells[number] for number in members) for cells in numbers.values()]
        lines.append(_line(group, f"{len(members)}", *sums))
    return lines


def _sum(cells: Iterable[str]) -> str:
    """Add up cells such as "19" or "19 of 19".

    >>> _sum(["19 of 19", "16 of 17"])
    '35 of 36'
    """
    numbers = zip(*(map(int, cell.split(" of ")) for cell in cells), strict=True)
    return " of ".join(f"{sum(column):,}" for column in numbers)


def _table(*names: str) -> list[str]:
    """Return the header lines of a table."""
    return [_line(*names), f"|{'---|' * len(names)}"]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
