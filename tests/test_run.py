"""The commands of run.py, and the programs that each of them runs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SIDE_BY_SIDE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[tuple[str, ...]]]:
    """Return the module, and the list of programs that it would have run; each counts as successful."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ran: list[tuple[str, ...]] = []

    def record_command(*command: str) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(module, "_run", record_command)
    monkeypatch.setattr(module, "_prepare_environment", lambda *_: True)
    return module, ran


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ([], [*SIDE_BY_SIDE, "-m", "not cluster and not proof and not long"]),
        (["--all", "-x"], [*SIDE_BY_SIDE, "--hypothesis-profile", "all", "-x"]),
        (["tests/codecs", "-x"], ["tests/codecs", "-x"]),
    ],
)
def test_linters_come_first_and_arguments_go_to_pytest(
    words: list[str],
    last: list[str],
    run: tuple[Any, list[tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, ran = run
    monkeypatch.setattr("sys.argv", ["run.py", "test", *words])
    assert module.main() == 0
    assert [command[0] for command in ran[:2]] == ["ruff", "ruff"]
    assert sorted(command[0] for command in ran[2:]) == ["mypy", "pytest"]
    assert list(pytest_arguments(ran)) == last


def pytest_arguments(ran: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the arguments that pytest was run with; types are checked in parallel."""
    (arguments,) = (words for program, *words in ran if program == "pytest")
    return tuple(arguments)


@pytest.mark.parametrize(
    ("failing", "programs"),
    [
        ("ruff", {"ruff"}),
        ("mypy", {"ruff", "mypy", "pytest"}),
        ("pytest", {"ruff", "mypy", "pytest"}),
    ],
)
def test_exit_code_is_that_of_the_failing_program(
    failing: str,
    programs: set[str],
    run: tuple[Any, list[tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, ran = run
    passing = module._run
    monkeypatch.setattr(
        module, "_run", lambda *command: passing(*command) or (3 if command[0] == failing else 0)
    )
    monkeypatch.setattr("sys.argv", ["run.py", "test"])
    assert module.main() == 3
    assert {command[0] for command in ran} == programs
    # pytest says by itself, at the end, what has failed.
    assert (f"{failing} " in capsys.readouterr().err) == (failing != "pytest")


@pytest.mark.parametrize("bkaudit_path", [None, "/usr/bin/bkaudit"])
def test_demo_prints_path_if_bkaudit_is_not_on_it(
    bkaudit_path: str | None,
    run: tuple[Any, list[tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, ran = run
    monkeypatch.setattr("shutil.which", lambda _: bkaudit_path)
    monkeypatch.setattr("sys.argv", ["run.py", "demo", "--all"])
    assert (module.main(), ran) == (0, [("bkaudit", "demo", "--all")])
    assert (f'PATH="{module._scripts_directory()}' in capsys.readouterr().err) == (bkaudit_path is None)


def test_default_and_rest_options_run_every_test(run: tuple[Any, list[tuple[str, ...]]]) -> None:
    """Each test, whatever markers it has, is run by one of the two commands of .ci/run."""
    module, _ = run
    first, rest_expression = (module.TEST_OPTIONS[option][1] for option in ("", "--rest"))
    names = ("unit", "files", "process", "spark", "server", "cluster", "proof", "long", "property")
    for count in range(len(names) + 1):
        for markers in combinations(names, count):
            is_set = {name: name in markers for name in names}
            assert eval(first, {}, is_set) or eval(rest_expression, {}, is_set)
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^    run_tests \w+ ?(.*?) \|\|", script, re.MULTILINE) == ["", "--rest"]


@pytest.mark.parametrize(
    ("option", "expression", "processes", "profile"),
    [
        ("--rest", "cluster or proof or long or property", "3", "all"),
        ("--quick", "unit and not proof and not long", "2", "quick"),
    ],
)
def test_quick_and_rest_options_run_without_linters(
    option: str,
    expression: str,
    processes: str,
    profile: str,
    run: tuple[Any, list[tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, ran = run
    monkeypatch.setattr("sys.argv", ["run.py", "test", option])
    assert module.main() == 0
    assert [command[0] for command in ran] == ["pytest"]
    parallel = ("-n", processes, *SIDE_BY_SIDE[2:])
    assert pytest_arguments(ran) == (*parallel, "-m", expression, "--hypothesis-profile", profile)


@pytest.mark.parametrize(
    ("parts", "last"),
    [
        (["2 passed, 3 deselected in 1.50s", "10 passed in 2.25s (0:00:02)"], "12 passed in 3.75s"),
        (["1 failed, 2 passed in 1.00s", "3 passed, 1 warning in 2.00s"], "1 failed, 5 passed in 3.00s"),
        (
            ["1 failed, 2 passed, 1 error in 1.00s", "4 failed, 2 errors in 1s"],
            "5 failed, 2 passed, 3 errors in 2.00s",
        ),
    ],
)
def test_summary_line_counts_both_parts(parts: list[str], last: str, tmp_path: Path) -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    [function] = re.findall(r"^summary\(\) \{.*?^\}$", script, re.MULTILINE | re.DOTALL)
    for name, line in zip(("first", "rest"), parts, strict=True):
        (tmp_path / f"tests-{name}.txt").write_text(f"....\n{line}\n")
    command = ["bash", "-c", f"work={tmp_path}\n{function}\nsummary"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{last}\n"
