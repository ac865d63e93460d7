"""One list has all tools that the tests need besides Python, and the output names missing ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.plugin import FILE_GROUPS, LONGEST_FIRST, Tool, interleave_paths, skipped_for, tools, unit_of

ROOT = Path(__file__).parents[1]


def test_tool_list_contains_every_tool_in_skip_reasons() -> None:
    listed_names = {tool.name for tool in tools()} | {tool.package for tool in tools()}
    needed_names: set[str] = set()
    for path in [path for folder in ("tests", "proofs") for path in (ROOT / folder).rglob("*.py")]:
        for reason in re.findall(r"skip\(\"needs (?:Debian's )?([^\"{]+)\"", path.read_text("utf-8")):
            needed_names |= set(reason.split(" and "))
    assert {"promtool", "libzookeeper-java", "mvn", "javac", "chromium", "cc"} <= needed_names
    assert needed_names <= listed_names


def test_skip_reasons_are_counted_and_missing_packages_named() -> None:
    reasons = ["Skipped: needs etcd", "Skipped: needs promtool", "Skipped: needs etcd"]
    lines = skipped_for(reasons, [Tool("etcd", "etcd-server"), Tool("promtool", "prometheus")])
    assert lines[:2] == ["    2  needs etcd", "    1  needs promtool"]
    assert lines[2] == "not here: etcd, promtool"
    assert "apt-get install etcd-server prometheus;" in lines[3]
    assert skipped_for(["Skipped: on a whim"], []) == ["    1  on a whim"]


def test_last_output_lines_list_skip_reasons_and_missing_tools(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.plugin import *\n")
    (tmp_path / "test_x.py").write_text("import pytest\n\n\ndef test_x():\n    pytest.skip('needs wings')\n")
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    run = subprocess.run(program, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    *_, heading, reason, missing, install, last = run.stdout.splitlines()
    assert "skipped tests: 1" in heading, run.stdout
    assert reason.split() == ["1", "needs", "wings"]
    assert "etcd" in missing
    assert "etcd-server" in install
    assert last.startswith("1 skipped")


def test_long_test_files_start_first_and_directories_alternate() -> None:
    names = [
        "test_house.py",
        "corpora/test_a.py",
        "corpora/test_b.py",
        "keys/test_k.py",
        "clusters/test_c.py",
    ]
    outside = ROOT / "auditor" / "keys" / "paths.py"
    paths = [outside, *(ROOT / "tests" / name for name in names)]
    first = ["clusters/test_c.py", "corpora/test_a.py", "corpora/test_b.py"]
    other_paths = [outside, ROOT / "tests" / "test_house.py", ROOT / "tests" / "keys" / "test_k.py"]
    assert interleave_paths(paths) == [*(ROOT / "tests" / name for name in first), *other_paths]
    assert all((ROOT / name).is_dir() for name in LONGEST_FIRST)


def test_files_that_share_a_process_are_one_unit() -> None:
    files = [file for group in FILE_GROUPS for file in group]
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert len(files) == len(set(files))
    assert unit_of("tests/corpora/test_gc.py") == unit_of("tests/corpora/test_asked_of.py")
    assert unit_of("tests/checks/test_disks.py") == "tests/checks/test_disks.py"
    assert unit_of("tests/test_house.py") == "tests/test_house.py"
