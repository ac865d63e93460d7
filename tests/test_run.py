"""run.py: what its words run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[tuple[str, ...]]]:
    """The module, and the programs that it would have run, each with success."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ran: list[tuple[str, ...]] = []

    def noted(*command: str) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(module, "_run", noted)
    monkeypatch.setattr(module, "_prepared", lambda *_: True)
    return module, ran


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ([], ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0"]),
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
    assert list(of_pytest(ran)) == last


def of_pytest(ran: list[tuple[str, ...]]) -> tuple[str, ...]:
    """What pytest was run with; types are looked at beside it."""
    (asked,) = (words for program, *words in ran if program == "pytest")
    return tuple(asked)


@pytest.mark.parametrize(
    ("failing", "programs"),
    [
        ("ruff", {"ruff"}),
        ("mypy", {"ruff", "mypy", "pytest"}),
        ("pytest", {"ruff", "mypy", "pytest"}),
    ],
)
def test_whatever_fails_is_the_exit_code(
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


@pytest.mark.parametrize("found", [None, "/usr/bin/bkaudit"])
def test_after_the_demonstration_its_commands_can_be_typed(
    found: str | None,
    run: tuple[Any, list[tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, ran = run
    monkeypatch.setattr("shutil.which", lambda _: found)
    monkeypatch.setattr("sys.argv", ["run.py", "demo", "--all"])
    assert (module.main(), ran) == (0, [("bkaudit", "demo", "--all")])
    assert (f'PATH="{module._scripts()}' in capsys.readouterr().err) == (found is None)


def test_the_quick_tests_are_there_and_start_no_server(
    run: tuple[Any, list[tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, ran = run
    monkeypatch.setattr("sys.argv", ["run.py", "test", "--quick", "-x"])
    assert module.main() == 0
    asked = of_pytest(ran)
    assert set(module.QUICK) <= set(asked)
    assert asked[-1] == "-x"
    assert [place for place in module.QUICK if not (ROOT / place).is_dir()] == []
