"""Fixtures and pytest hooks for all tests."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.guard import Guard
from tests.long_tests import is_long
from tests.tiers import tier_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_CI = os.environ.get("CI") == "true"

ROOT = Path(__file__).parents[1]

PROOFS = ROOT / "proofs"

TOOLS = ROOT / ".ci" / "tools"

# A property draws so many examples, or a share of them (tests/examples.py). `run.py test --quick` and `--all`
# ask for their own profiles. An example has no deadline: the machine may be busy.
for profile, most in {"quick": 10, "tests": 40, "all": 400}.items():
    settings.register_profile(profile, max_examples=most, deadline=None)
settings.load_profile("tests")

GUARD = Guard()


def pytest_configure(config: pytest.Config) -> None:
    """Record which processes the tests start, until the run ends."""
    patch = pytest.MonkeyPatch()
    GUARD.install(patch)
    config.add_cleanup(patch.undo)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set the tier of the running test, so that starts of processes are checked against it."""
    with GUARD.watching(tier_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that starts a process its tier does not allow; in CI also fail a skipped test."""
    report = yield
    if GUARD.offences:
        report.outcome = "failed"
        report.longrepr = "the test needs a marker of a higher tier (tests/tiers.py). It starts " + "; ".join(
            GUARD.offences
        )
        GUARD.offences = []
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI is set: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail, in CI, a module that skips itself."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI is set: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package's wheel and return the directory, outside the checkout, where it is unpacked."""
    place = tmp_path_factory.mktemp("wheel")
    # Without hatchling here, pip fetches it for the build.
    build_options = ["--no-build-isolation"] if find_spec("hatchling") else []
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *build_options]
    subprocess.run([*pip, "--wheel-dir", str(place), str(ROOT)], check=True)
    [wheel_file] = place.glob("*.whl")
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(place / "site")
    return place / "site"


GARBAGE = (3000, 20, 20)
"""So much is made before Python looks for garbage: by default it looks through all tests too often."""


def pytest_collection() -> None:
    """Turn off garbage collection while tests are collected, because all collected objects are kept."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Turn on garbage collection again, and exclude the collected objects from it."""
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()


LONGEST_FIRST = (
    "tests/decommission",
    "tests/plan",
    "tests/clusters",
    "proofs/living",
    "proofs/killed",
    "tests/corpora",
    "tests/live",
    "tests/jobs",
    "proofs/matrix",
)
"""Directories with whole clusters and whole audits."""


def mark(test_item: pytest.Item) -> None:
    """Set the markers of a test.

    The markers are its tier, `proof` below proofs/, `long` if tests/long.toml names it, and `property` if
    Hypothesis draws its examples.
    """
    tier = tier_of(test_item).name.lower()
    if test_item.get_closest_marker(tier) is None:
        test_item.add_marker(tier)
    if test_item.path.is_relative_to(PROOFS):
        test_item.add_marker("proof")
    if is_long(test_item.nodeid):
        test_item.add_marker("long")
    if is_hypothesis_test(getattr(test_item, "obj", None)):
        test_item.add_marker("property")


def interleave_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the files in the order in which parallel processes start them.

    Files of `LONGEST_FIRST` come first, one of each directory in turn. A file that waits for its servers thus
    runs next to one that does not. All other files keep their order.
    """
    of_directory: dict[str, list[Path]] = {name: [] for name in LONGEST_FIRST}
    other_paths: list[Path] = []
    for path in paths:
        top = "/".join(path.relative_to(ROOT).parts[:2]) if path.is_relative_to(ROOT) else ""
        of_directory.get(top, other_paths).append(path)
    turns = zip_longest(*of_directory.values())
    return [path for turn in turns for path in turn if path is not None] + other_paths


FILE_GROUPS = (
    ("tests/corpora/test_asked_of.py", "tests/corpora/test_gc.py"),
    (
        "tests/test_house.py",
        "tests/test_names.py",
        "tests/test_plain_names.py",
        "tests/actions/test_commands.py",
        "tests/actions/test_procedures.py",
        "tests/sources/test_regular_files.py",
        "tests/sources/metadata/zookeeper/test_client.py",
    ),
)
"""Files that one process runs one after the other.

The first share audits with their tables, which only the process has that made them. The second share syntax
trees of the whole package (tests/syntax.py).
"""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process one file at a time, or one group of `FILE_GROUPS`."""
    if config.getvalue("dist") != "loadfile":
        return None
    scheduler = import_module("xdist.scheduler").LoadFileScheduling(config, log)
    scheduler._split_scope = lambda test: unit_of(test.partition("::")[0])
    return scheduler


def unit_of(file: str) -> str:
    """Return the name that schedules a file: its own, or the first of its group in `FILE_GROUPS`."""
    return next((group[0] for group in FILE_GROUPS if file in group), file)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and order files for several processes.

    A run in one process begins with the quick tests.
    """
    for test_item in items:
        mark(test_item)
    if hasattr(config, "workerinput"):
        places = {
            path: position
            for position, path in enumerate(
                interleave_paths(dict.fromkeys(test_item.path for test_item in items))
            )
        }
        items.sort(key=lambda test_item: places[test_item.path])


@dataclass(frozen=True)
class Tool:
    """A program or a file that tests need, and the Debian package that has it."""

    name: str
    package: str

    @property
    def is_here(self) -> bool:
        """Return whether the program is on the PATH, or the file exists."""
        return shutil.which(self.name) is not None or Path(self.name).exists()


def tools() -> list[Tool]:
    """Return the tools that the tests need, from the list that `.ci/run` also reads."""
    lines = TOOLS.read_text("utf-8").splitlines()
    return [Tool(*line.split()) for line in lines if line and not line.startswith("#")]


def skipped_for(reasons: Iterable[str], missing: Sequence[Tool]) -> list[str]:
    """Return lines with the number and reasons of skipped tests, and the packages to install."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    lines = [f"{count:>5}  {reason}" for reason, count in sorted(counts.items())]
    if missing:
        packages = " ".join(tool.package for tool in missing)
        lines.append(f"not here: {', '.join(tool.name for tool in missing)}")
        lines.append(
            f"install them (Debian: apt-get install {packages}; .ci/run tools does it) and test again"
        )
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of skipped tests, the reasons and the missing tools, last before pytest's own line."""
    skipped = terminalreporter.getreports("skipped")
    missing = [tool for tool in tools() if not tool.is_here]
    if not skipped and not (missing and terminalreporter.getreports("failed")):
        return
    reasons = [
        report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in skipped
    ]
    terminalreporter.write_sep("=", f"skipped tests: {len(skipped)}")
    for line in skipped_for(reasons, missing):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield one session for the whole run, because starting one costs more than most tests.

    Parallel processes have a session each, all in one Java process (`tests.servers.shared_spark`). Tests have
    small tables, so the session plans like an audit of small tables. `large_plans` plans for large tables.
    """
    from tests.corpora.shared import make_once, shared_root
    from tests.servers import shared_spark

    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    # Linux alone tells the server of Spark when the tests have ended.
    if processes > 1 and hasattr(os, "pidfd_open"):
        root = shared_root(tmp_path_factory)
        yield shared_spark.attach(
            make_once(root, "spark", lambda place: shared_spark.launch(place, processes))
        )
    else:
        session = shared_spark.start()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def drawn_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose tables each example of a property test overwrites as needed.

    To make and remove all forty tables took most of the time of such a property test.
    """
    from tests.made_runs import made_run

    made_run(place := tmp_path_factory.mktemp("drawn-run"))
    return place


@pytest.fixture(scope="session")
def large_plans(spark: SparkSession) -> Callable[[], AbstractContextManager[None]]:
    """Return a function that makes a context in which audits are planned like those of large tables."""

    @contextmanager
    def planned() -> Iterator[None]:
        from auditor.spark import execution, query_plans

        with pytest.MonkeyPatch.context() as patch, query_plans.query_plans(spark):
            patch.setattr(query_plans, "SMALL_BYTES", -1)
            patch.setattr(query_plans, "TINY_BYTES", -1)
            patch.setattr(execution, "DRIVER_READ_BYTES", -1)
            for key in query_plans.STATIC_PLAN_SETTINGS:
                spark.conf.unset(key)
            yield

    return planned
