"""Each test has the marker of the programs that it starts, and fails if it starts more."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests import plugin
from tests.cli.test_streams import shell
from tests.clusters.idle import idle_cluster
from tests.clusters.living import living_cluster
from tests.corpora import generator
from tests.examples import examples
from tests.guard import Guard, tier_of_command
from tests.long_tests import LongTests, is_long, long_tests
from tests.servers import etcd, oxia, s3
from tests.servers.zookeeper import Ensemble, free_ports
from tests.tiers import MARKERS, Tier, tier_of, tier_reached

ROOT = Path(__file__).parents[1]


def test_every_tier_is_a_marker_of_pytest() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    markers = [marker.partition(":")[0] for marker in options["markers"]]
    assert markers == [*MARKERS, "proof", "long", "property"]
    assert options["strict_markers"]


def test_a_property_draws_a_share_of_the_examples_of_its_profile() -> None:
    profiles = [settings.get_profile(name) for name in ("quick", "tests", "all")]
    assert [profile.max_examples for profile in profiles] == [10, 40, 400]
    assert {profile.deadline for profile in profiles} == {None}
    usual = settings().max_examples
    assert [examples(percent) for percent in (50, 100, 300)] == [usual // 2, usual, 3 * usual]
    assert examples(1) == max(2, usual // 100)


@pytest.mark.parametrize(
    ("code", "tier"),
    [
        (free_ports, Tier.UNIT),
        (shell, Tier.PROCESS),
        (plugin.drawn_run, Tier.UNIT),
        (plugin.spark, Tier.SPARK),
        (etcd.running, Tier.SERVER),
        (oxia.running, Tier.SERVER),
        (s3.running, Tier.SERVER),
        (Ensemble, Tier.SERVER),
        (generator.stored, Tier.SERVER),
        (idle_cluster, Tier.CLUSTER),
        (living_cluster, Tier.CLUSTER),
    ],
)
def test_tier_follows_from_functions_that_code_can_reach(code: Callable[..., object], tier: Tier) -> None:
    """It reaches them in a body, a class, an import within a function, a module or a context manager."""
    assert tier_reached(code) == tier


@pytest.mark.parametrize(
    ("command", "tier"),
    [
        (["/jdk/bin/java", "-version"], Tier.UNIT),
        (["git", "log", "etcd"], Tier.UNIT),
        ([sys.executable, "-m", "auditor.cli", "audit", "--help"], Tier.UNIT),
        ([sys.executable, "-m", "auditor.cli", "decode", "journal"], Tier.UNIT),
        ([sys.executable, "-m", "auditor.cli", "audit", "--out", "run"], Tier.SPARK),
        ([sys.executable, "-m", "auditor.cli", "collect"], Tier.UNIT),
        ([sys.executable, "-c", "spark = build_session('local[1]')"], Tier.SPARK),
        ([sys.executable, "-m", "tests.servers.shared_spark", "/tmp"], Tier.SPARK),
        (["/spark/bin/spark-submit", "job.py"], Tier.SPARK),
        (["java", "-cp", "x.jar", "org.apache.spark.launcher.Main"], Tier.SPARK),
        (["/spark/bin/spark-class", "org.apache.spark.deploy.master.Master"], Tier.SERVER),
        (["java", "-cp", "x.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain"], Tier.SERVER),
        (["etcd", "--name", "a"], Tier.SERVER),
        (["/cache/oxia", "standalone"], Tier.SERVER),
        ([sys.executable, "-m", "moto.server"], Tier.SERVER),
        (["java", "-cp", "x.jar", "Harness", "{}"], Tier.CLUSTER),
        (["java", "-cp", "x.jar", "LivingBookie", "{}"], Tier.CLUSTER),
        (["java", "-cp", "x.jar", "org.apache.bookkeeper.server.Main", "--conf", "a"], Tier.CLUSTER),
        (["java", "-cp", "x.jar", "org.apache.bookkeeper.client.PlacementOracle"], Tier.SERVER),
    ],
)
def test_command_has_expected_tier(command: list[str], tier: Tier) -> None:
    assert tier_of_command(command) == tier


def test_a_test_that_writes_files_is_above_unit(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert tmp_path.exists()
    assert tier_of(request.node) == Tier.FILES


def test_a_test_without_fixtures_is_of_unit(request: pytest.FixtureRequest) -> None:
    assert tier_of(request.node) == Tier.UNIT


def test_guard_records_commands_above_the_tier_of_a_test() -> None:
    guard = Guard()
    with guard.watching(Tier.SPARK):
        guard.note([Path("/bin/spark-submit"), b"job.py"])
        guard.note("ls")
        assert guard.offences == []
        guard.note(["etcd", "--name", "a"])
    assert guard.offences == ["server: etcd --name a"]
    guard.note(["etcd"])
    assert len(guard.offences) == 1


def test_a_test_that_starts_a_server_without_the_marker_fails(tmp_path: Path) -> None:
    """The program is a stand-in, and the code of these tests does not belong to the harness."""
    (tmp_path / "etcd").write_text("#!/bin/sh\n")
    (tmp_path / "etcd").chmod(0o755)
    (tmp_path / "conftest.py").write_text("from tests.plugin import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    unit\n    server\n")
    start = f"    subprocess.run([{str(tmp_path / 'etcd')!r}], check=True)\n"
    (tmp_path / "test_x.py").write_text(
        "import subprocess\n\nimport pytest\n\n\n"
        f"def test_unmarked():\n{start}\n\n"
        f"@pytest.mark.server\ndef test_marked():\n{start}\n\n"
        "def test_without_server():\n    pass\n"
    )
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [*program, str(tmp_path)], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 1, run.stdout
    assert "needs a marker of a higher tier" in run.stdout
    assert "FAILED test_x.py::test_unmarked" in run.stdout
    assert "1 failed, 2 passed" in run.stdout.splitlines()[-1]


def test_long_group_excludes_its_exceptions() -> None:
    group = LongTests(
        "slow", frozenset({"tests/a", "tests/b.py::test_c[1]"}), frozenset({"tests/a/d.py::test_e"})
    )
    assert [
        group.has(f"tests/{name}") for name in ("a/d.py::test_f", "a/d.py::test_e[1]", "ab/d.py::test_f")
    ] == [
        True,
        False,
        False,
    ]
    assert [group.has(f"tests/b.py::test_c{case}") for case in ("[1]", "[10]", "")] == [True, False, False]


@pytest.mark.parametrize("group", long_tests(), ids=lambda group: group.reason)
def test_long_tests_exist(group: LongTests) -> None:
    """No test loses its marker unnoticed when it is renamed."""
    for name in (*group.tests, *group.exceptions):
        file, _, function = name.partition("::")
        assert (ROOT / file).exists(), name
        if function:
            source = (ROOT / file).read_text("utf-8")
            assert f"def {function.partition('[')[0]}(" in source, name
    assert len(group.reason.split()) > 3
    assert not any(is_long(name) for name in group.exceptions)


def test_each_directory_has_tests_that_are_not_long() -> None:
    """Every area has tests that run by default."""
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    default = {str(path.parent) for path in files if not is_long(str(path))}
    exceptions = {name.partition("::")[0] for group in long_tests() for name in group.exceptions}
    default |= {str(path.parent) for path in files if str(path) in exceptions}
    assert {str(path.parent) for path in files} - default == set()
