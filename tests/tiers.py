"""The tiers of tests: which of them need Spark, a server, or a cluster of bookies.

Each test has one marker, set while tests are collected:

    unit       nothing but the test's own process and its memory
    files      files of its own (a run, a store, a corpus), or all files of the project (by a marker)
    process    other programs: bkaudit, a shell, a browser
    spark      the shared Spark session, or a session of its own
    server     a ZooKeeper, an etcd, an S3 server, a Spark master, or classes of a real server
    cluster    bookies that run

The tier is the highest that a test can reach by its own code, its fixtures and their fixtures. The functions
and classes of the harness that any of these name count too. A marker on a test raises its tier where a child
process starts something. A test fails if it starts something that its tier lacks (`tests.guard`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
HARNESS = (f"{ROOT / 'tests'}{os.sep}", f"{ROOT / 'proofs'}{os.sep}")


class Tier(IntEnum):
    """The resources that a test needs; each tier includes those of the lower tiers."""

    UNIT = 0
    FILES = 1
    PROCESS = 2
    SPARK = 3
    SERVER = 4
    CLUSTER = 5


MARKERS = {tier.name.lower(): tier for tier in Tier}

STARTERS = {
    "subprocess.run": Tier.PROCESS,
    "subprocess.Popen": Tier.PROCESS,
    "subprocess.check_output": Tier.PROCESS,
    "playwright.sync_api": Tier.PROCESS,
    "tests.cli.test_completion.Bash": Tier.PROCESS,
    "auditor.spark.session.build_session": Tier.SPARK,
    "auditor.embedded.zookeeper.EmbeddedZooKeeper": Tier.SERVER,
    "auditor.demo.sample.show": Tier.SERVER,
    "tests.servers.shared_spark": Tier.SPARK,
    "tests.servers.bookies.driver.Bookies": Tier.CLUSTER,
    "tests.servers.bookies.jars": Tier.SERVER,
    "proofs.executors.cluster": Tier.CLUSTER,
    "tests.servers.etcd.Etcd": Tier.SERVER,
    "tests.servers.oxia.OxiaProcess": Tier.SERVER,
    "tests.servers.kerberos.running": Tier.SERVER,
    "tests.servers.s3._running_server": Tier.SERVER,
    "tests.servers.spark.daemon": Tier.SERVER,
    "tests.servers.systemd.run_units": Tier.SERVER,
    "tests.servers.zookeeper.ZooKeeperProcess": Tier.SERVER,
}
"""Functions, classes and modules that start something, and what it is."""

FILE_FIXTURES = {"tmp_path", "tmp_path_factory"}
"""Fixtures of tests that write files."""

PLAIN_TYPES = {str, bytes, int, float, bool, type(None), ModuleType}
"""Types of values that start nothing; nearly all values are of these."""


def tier_of(pytest_item: pytest.Item) -> Tier:
    """Return the tier of a collected test."""
    explicit = [MARKERS[marker.name] for marker in pytest_item.iter_markers() if marker.name in MARKERS]
    if not isinstance(pytest_item, pytest.Function):
        return max(explicit, default=Tier.UNIT)
    definitions = getattr(pytest_item, "_fixtureinfo").name2fixturedefs  # noqa: B009  # pytest has no public way
    if not FILE_FIXTURES.isdisjoint(definitions):
        explicit.append(Tier.FILES)
    roots = [
        pytest_item.function,
        *(definition.func for overrides in definitions.values() for definition in overrides),
    ]
    parameters = pytest_item.callspec.params.values() if hasattr(pytest_item, "callspec") else ()
    tiers = [tier_reached(root) for root in roots]
    tiers += [tier_reached(value) for value in _functions(parameters)]
    return max([*explicit, *tiers], default=Tier.UNIT)


@cache
def tier_reached(root: Any) -> Tier:
    """Return the highest tier of the starters that a function or class can reach."""
    highest = Tier.UNIT
    waiting, visited_ids = [root], {id(root)}
    while waiting:
        value = waiting.pop()
        highest = max(highest, _started(value))
        for target in _named_by(value):
            if id(target) not in visited_ids:
                visited_ids.add(id(target))
                waiting.append(target)
    return highest


def _started(value: Any) -> Tier:
    """Return the tier of the programs that this function or class itself starts."""
    module = getattr(value, "__module__", "") or ""
    name = f"{module}.{getattr(value, '__qualname__', '')}"
    return max(STARTERS.get(name, Tier.UNIT), STARTERS.get(module, Tier.UNIT))


@cache
def _named_by(value: Any) -> tuple[Any, ...]:
    """Return the functions and classes that the body of a function or class of the harness names."""
    value = getattr(value, "__wrapped__", value)
    if isinstance(value, type):
        if not _is_harness(sys.modules.get(value.__module__)):
            return ()
        return (*value.__bases__, *_functions(vars(value).values()))
    if not isinstance(value, FunctionType) or not value.__code__.co_filename.startswith(HARNESS):
        return ()
    cells = [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
    return tuple(_functions([*_resolved(value.__code__, value.__globals__), *cells]))


def _resolved(code: CodeType, scope: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values of all global names in a code object, including those of its inner functions."""
    modules: list[ModuleType] = []
    for name in code.co_names:
        value = scope.get(name)
        # A dotted name that is no global is an import within the function.
        modules += [value] if isinstance(value, ModuleType) else _imported(name)
        yield value
    for module in modules:
        for name in code.co_names:
            value = vars(module).get(name)
            # A module of a package: `from tests.servers import etcd`.
            parts = [value] if isinstance(value, ModuleType) else _imported(f"{module.__name__}.{name}")
            yield value
            for part in parts:
                yield from (vars(part).get(inner) for inner in code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _resolved(constant, scope)


@cache
def _imported(name: str) -> Sequence[ModuleType]:
    """Return the module of this name if it is of the harness or has a starter; import no other module."""
    top = name.partition(".")[0]
    path = ROOT / name.replace(".", os.sep)
    is_of_harness = top in ("tests", "proofs") and (path.is_dir() or path.with_suffix(".py").exists())
    has_starter = any(starter.rpartition(".")[0] == name for starter in STARTERS)
    return (import_module(name),) if is_of_harness or has_starter else ()


def _functions(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the functions and classes among values and in the containers among them."""
    for value in values:
        if type(value) in PLAIN_TYPES:
            continue
        inner = getattr(value, "__wrapped__", value)
        if isinstance(inner, (FunctionType, type)):
            yield inner
        elif isinstance(inner, property):
            yield from _functions([inner.fget])
        elif isinstance(inner, (staticmethod, classmethod)):
            yield inner.__func__
        elif hasattr(inner, "func") and callable(getattr(inner, "func", None)):
            yield from _functions([inner.func])
        elif type(inner).__module__.partition(".")[0] in ("tests", "proofs"):
            yield type(inner)
        elif type(inner) in (list, tuple, set, frozenset):
            yield from _functions(inner)
        elif type(inner) is dict:
            yield from _functions(inner.values())


def _is_harness(module: ModuleType | None) -> bool:
    return (getattr(module, "__file__", None) or "").startswith(HARNESS)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # an empty cell
        return False
