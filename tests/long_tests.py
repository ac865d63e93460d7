"""Long tests: those below the tier `cluster` that only `python3 run.py test --all` runs.

`tests/long.toml` names them in groups, each with its reason. `tests.plugin` sets the marker `long`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LONG_TESTS_FILE = Path(__file__).with_name("long.toml")


@dataclass(frozen=True)
class LongTests:
    """A group of long tests.

    Attributes:
        reason: Why they are long.
        tests: Names of directories, files, functions (`file::function`) or cases (`file::function[case]`).
        exceptions: Names below these that are not long.
    """

    reason: str
    tests: frozenset[str]
    exceptions: frozenset[str]

    def has(self, node_id: str) -> bool:
        """Return whether the test with pytest's name ``node_id`` belongs to the group."""
        names = {*names_of(node_id)}
        return not names.isdisjoint(self.tests) and names.isdisjoint(self.exceptions)


@cache
def long_tests() -> tuple[LongTests, ...]:
    """Return the groups of `tests/long.toml`."""
    groups = tomllib.loads(LONG_TESTS_FILE.read_text("utf-8"))["long"]
    return tuple(
        LongTests(group["reason"], frozenset(group["tests"]), frozenset(group.get("but", ())))
        for group in groups
    )


def is_long(node_id: str) -> bool:
    """Return whether a test is long."""
    # Nearly every test is in no group. One look in all of them costs less than one in each.
    return not _all_names().isdisjoint(names_of(node_id)) and any(
        group.has(node_id) for group in long_tests()
    )


@cache
def _all_names() -> frozenset[str]:
    return frozenset().union(*(group.tests for group in long_tests()))


def names_of(node_id: str) -> Iterator[str]:
    """Yield every name that stands for a test: its own, its function, its file and the directories above.

    Example:
        >>> list(names_of("tests/a/test_b.py::test_c[1]"))
        ['tests/a/test_b.py::test_c[1]', 'tests/a/test_b.py::test_c', 'tests/a/test_b.py', 'tests/a', 'tests']
    """
    yield node_id
    file, _, function = node_id.partition("::")
    if "[" in function:
        yield f"{file}::{function.partition('[')[0]}"
    if function:
        yield file
    yield from _folders(file)


@cache
def _folders(file: str) -> tuple[str, ...]:
    return tuple(str(folder) for folder in Path(file).parents if folder.name)
