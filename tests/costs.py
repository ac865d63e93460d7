"""The cost of each test: processor time and audits.

    .venv/bin/python -m pytest -n 0 -p tests.costs --costs FILE tests/corpora
    .venv/bin/python -m tests.costs FILE

The first command writes a line for each test and each audit. The second adds them up by file.

Processor time includes the test process and all processes that it started, such as Spark's Java. So it is
meaningful only in one process (``-n 0``), but also on a busy machine. The summary names an audit that
repeats another, with equal options on equal files: tests can share it (`tests.corpora.shared`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int | None = None) -> float:
    """Return the processor time of a process and of its descendants, those that ended included."""
    total, waiting = 0, [str(pid or os.getpid())]
    while waiting:
        process = Path("/proc", waiting.pop())
        try:
            # utime, stime, cutime and cstime, of the fields that follow the name in brackets.
            total += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
            for task in (process / "task").iterdir():
                waiting += (task / "children").read_text().split()
        except OSError:
            continue  # it has ended
    return total / _TICKS_PER_SECOND


def digest_of(places: Iterable[str]) -> str:
    """Return a digest of the names, sizes and contents of the files below some paths or URIs."""
    digest = hashlib.sha256()
    for place in places:
        path = Path(re.sub(r"^[\w+-]+://|\?.*$", "", place))
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(str(file.relative_to(path)).encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


class Costs:
    """A pytest plugin that writes a line of JSON for each test and each audit."""

    def __init__(self, out: Path) -> None:
        self._out = out.open("a", buffering=1, encoding="utf-8")
        self._test = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure a test, with the fixtures that it sets up and takes down."""
        self._test, before = item.nodeid, processor_seconds()
        result = yield
        self._write({"test": item.nodeid, "seconds": round(processor_seconds() - before, 2)})
        return result

    def pytest_collection_finish(self) -> None:
        """Measure every audit of the test process from now on."""
        from auditor import Audit

        run = Audit.run

        @wraps(run)
        def measured(audit: Audit, *arguments: Any, **options: Any) -> Any:
            before = processor_seconds()
            key = digest_of([audit.metadata, *audit.bookies]), repr(audit.options)
            try:
                return run(audit, *arguments, **options)
            finally:
                spent = round(processor_seconds() - before, 2)
                self._write({"audit": key, "test": self._test, "seconds": spent})

        setattr(Audit, "run", measured)  # noqa: B010  # for the length of this run of the tests

    def _write(self, row: dict[str, Any]) -> None:
        self._out.write(json.dumps(row) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the output file."""
    parser.addoption("--costs", type=Path, help="a file for the cost of each test and audit")


def pytest_configure(config: pytest.Config) -> None:
    """Start to measure if a file was given."""
    if out := config.getoption("--costs"):
        config.pluginmanager.register(Costs(out))


def summary(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield lines: the totals, the files by their cost, and the audits that repeat another."""
    tests: dict[str, list[float]] = defaultdict(list)
    audits: dict[str, list[float]] = defaultdict(list)
    tests_by_audit: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        file = row["test"].partition("::")[0]
        (audits if "audit" in row else tests)[file].append(row["seconds"])
        if "audit" in row:
            tests_by_audit[json.dumps(row["audit"])].append(row["test"])
    yield (
        f"{sum(map(sum, tests.values())):.0f} s of processor time, {sum(map(len, tests.values()))} tests, "
        f"{sum(map(len, audits.values()))} audits of {sum(map(sum, audits.values())):.0f} s"
    )
    for file in sorted(tests, key=lambda file: -sum(tests[file])):
        yield f"{sum(tests[file]):8.1f} s {len(audits[file]):4} audits  {file}"
    for names in tests_by_audit.values():
        if len(names) > 1:
            yield f"{len(names)} equal audits: {', '.join(names)}"


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text("utf-8").splitlines()
    print(*summary(map(json.loads, lines)), sep="\n")
