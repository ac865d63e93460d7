#!/usr/bin/env python3
"""Two commands for a machine with Python 3.11 or newer and nothing else.

    python3 run.py demo     a real ZooKeeper with a sample cluster in it, audited end to end
    python3 run.py test     ruff, mypy and the tests that need no cluster of bookies

`run.py test --quick` runs the tests that need nothing but their own process. `--all` runs all tests, the
short forms of the proofs, and ten times as many examples of each property. `--rest` runs what `--all` has
beyond `run.py test`.

The first call makes an environment in .venv beside this file and installs the project into it; later calls
find it there as long as pyproject.toml and constraints.txt are the same. Where there is no Java 17 or newer,
a Java runtime is installed as a Python package. Arguments after the command are passed on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "installed"
CONSTRAINTS = ROOT / "constraints.txt"
"""The exact version of everything that pyproject.toml gives a range of."""
MINIMUM_PYTHON = (3, 11)
MINIMUM_JAVA = 17
PROCESSES = min(4, (os.cpu_count() or 1) + 1)
"""Of tests: one more than there are cores, for some of them wait for servers that are slow or gone."""
SIDE_BY_SIDE = (
    *("-n", str(PROCESSES), "--dist", "loadfile", "--no-loadscope-reorder"),
    # A process that crashed would begin the crashing test again, and again.
    *("--max-worker-restart", "0"),
)
"""How all tests are run: files beside each other, with sessions in one Spark.

The order is that of tests/plugin.py: the longest begin first, so that no process is left alone with one.
"""
REST_OPTION = "--rest"
TIERS = {
    "": ("-m", "not cluster and not proof"),
    "--quick": ("-m", "unit and not proof", "--hypothesis-profile", "quick"),
    REST_OPTION: ("-m", "cluster or proof or property", "--hypothesis-profile", "all"),
    "--all": ("--hypothesis-profile", "all"),
}
"""What pytest is asked for, by the option of `run.py test`; tests/tiers.py says what the markers mean."""
JAVA_LIMIT_S = 60
"""A Java that has not printed its version by then is none."""


def main() -> int:
    """Do what the command line asks for; returns the exit code of what was run."""
    if sys.version_info < MINIMUM_PYTHON:
        return _say(
            f"Python {'.'.join(map(str, MINIMUM_PYTHON))} or newer is needed, this is {sys.version}", 2
        )
    command, *arguments = sys.argv[1:] or ["--help"]
    if command == "demo":
        return _demo(arguments) if _prepared() else 1
    if command == "test":
        return _test(arguments) if _prepared("dev") else 1
    print(__doc__)
    return 0 if command in ("-h", "--help") else 2


def _demo(arguments: list[str]) -> int:
    """The demonstration; its report ends with commands of a program that the shell may not find."""
    code = _run("bkaudit", "demo", *arguments)
    if shutil.which("bkaudit") is None:
        _say(f'so that the shell finds bkaudit: PATH="{_scripts()}{os.pathsep}$PATH"')
    return code


def _test(arguments: list[str]) -> int:
    """Everything that must hold: what is cheap first, and types beside the tests."""
    option = arguments[0] if arguments and arguments[0] in TIERS else ""
    if option or not arguments:
        arguments = [*SIDE_BY_SIDE, *TIERS[option], *arguments[1:]]
    if option == REST_OPTION:
        return _run("pytest", *arguments)  # ruff and mypy were run by the command that this one completes
    for tool in (["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        code = _run(*tool)
        if code:
            return _say(f"{' '.join(tool)} failed", code)
    # It takes one core half a minute, in which the tests are collected; what it finds is said at once.
    with ThreadPoolExecutor(1) as executor:
        types = executor.submit(_run, "mypy", "--no-error-summary")
        tested = _run("pytest", *arguments)
        typed = types.result()
    if typed:
        _say("mypy failed; see what it said above, beside the tests")
    return typed or tested


def _prepared(*extras: str) -> bool:
    """Make the environment hold the project with these extras; False if that failed."""
    names = {*extras, *(() if _has_java() else ("java",))}
    stamp = STAMP.read_text("utf-8").splitlines() if STAMP.exists() else []
    if stamp[:1] == [_state()] and names <= set(stamp[1:]):
        return True
    # What another command asked for stays, so that demo and test do not take turns at installing.
    names |= set(stamp[1:]) if stamp[:1] == [_state()] else set()
    if not _python().exists():
        _say(f"making an environment in {ENVIRONMENT.name}")
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
    _say("installing the project and what it needs; this happens once and takes a minute or two")
    STAMP.unlink(missing_ok=True)
    suffix = f"[{','.join(sorted(names))}]" if names else ""
    # Errors alone: an older pip warns of packages without a wheel, which nobody can do anything about.
    pip = [str(_python()), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    exact = ["--constraint", str(CONSTRAINTS)]
    if not sys.dont_write_bytecode:
        # Python compiles what is imported when it is imported, which is less than a third of all.
        exact.append("--no-compile")
    code = subprocess.run([*pip, *exact, "--editable", f"{ROOT}{suffix}"], check=False).returncode
    if code:
        _say("pip could not install it; see its message above")
        return False
    STAMP.write_text("\n".join([_state(), *sorted(names)]) + "\n", "utf-8")
    return True


def _state() -> str:
    """What the environment was made from: the declared dependencies, this Python, and this place."""
    declared = [(ROOT / "pyproject.toml").read_bytes(), CONSTRAINTS.read_bytes()]
    parts = (*declared, sys.version.encode(), str(ROOT).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _has_java() -> bool:
    """Whether JAVA_HOME or the PATH has a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    for java in (str(Path(home) / "bin" / "java") if home else None, shutil.which("java")):
        if java is None:
            continue
        try:
            shown = subprocess.run(
                [java, "-version"], capture_output=True, text=True, timeout=JAVA_LIMIT_S, check=False
            ).stderr
        except (OSError, subprocess.TimeoutExpired):
            continue
        match = re.search(r'version "(?:1\.)?(\d+)', shown)
        if match and int(match[1]) >= MINIMUM_JAVA:
            return True
    return False


def _python() -> Path:
    return _scripts() / ("python.exe" if os.name == "nt" else "python")


def _scripts() -> Path:
    return ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")


def _run(program: str, *arguments: str) -> int:
    """Run a program of the environment, as if the environment were activated."""
    search = os.pathsep.join([str(_scripts()), os.environ.get("PATH", "")])
    # A Spark of the machine's own would be started with this environment's Python, and not fit it.
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONHOME")
    }
    environment = {**inherited, "PATH": search, "VIRTUAL_ENV": str(ENVIRONMENT)}
    # demo's runs go where the caller is; tests belong to the project.
    where = None if program == "bkaudit" else ROOT
    return subprocess.run(
        [_scripts() / program, *arguments], env=environment, cwd=where, check=False
    ).returncode


def _say(text: str, code: int = 0) -> int:
    print(f"run.py: {text}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
