#!/usr/bin/env python3
"""Run the demonstration or the tests on a machine that has only Python 3.11 or newer.

    python3 run.py demo     a real ZooKeeper with a sample cluster in it, audited end to end
    python3 run.py test     ruff, mypy and the shorter tests, without a cluster of bookies

`run.py test --quick` runs only tests that start no other process and write no file, without ruff and mypy.
`--all` runs all tests. These include long tests (tests/long.toml), and the short forms of the proofs. Each
property gets ten times as many examples. `--rest` runs the tests that `--all` adds to `run.py test`.

The first call makes an environment in .venv beside this file and installs the project into it. Later calls
reuse it until pyproject.toml or constraints.txt changes. If there is no Java 17 or newer, the call also
installs a Java runtime as a Python package. Arguments after the command go to the program it runs.
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
ENVIRONMENT_DIRECTORY = ROOT / ".venv"
STAMP_FILE = ENVIRONMENT_DIRECTORY / "installed"
CONSTRAINTS_FILE = ROOT / "constraints.txt"
"""The exact version of every dependency for which pyproject.toml gives a range."""
MINIMUM_PYTHON = (3, 11)
MINIMUM_JAVA = 17
CORES = min(4, os.cpu_count() or 1)
TEST_PROCESSES = min(4, CORES + 1)
"""Number of test processes: one more than cores, because some tests wait for slow or stopped servers."""
PARALLEL_OPTIONS = (
    *("--dist", "loadfile", "--no-loadscope-reorder"),
    # A restarted process would begin the test that crashed its predecessor again.
    *("--max-worker-restart", "0"),
)
"""Options of pytest that run test files in parallel. All test processes share one Spark.

tests/plugin.py orders the tests. The longest begin first, so that none of them runs on after all others.
"""
QUICK_OPTION = "--quick"
REST_OPTION = "--rest"
TEST_OPTIONS = {
    "": ("-m", "not cluster and not proof and not long"),
    QUICK_OPTION: ("-m", "unit and not proof and not long", "--hypothesis-profile", "quick"),
    REST_OPTION: ("-m", "cluster or proof or long or property", "--hypothesis-profile", "all"),
    "--all": ("--hypothesis-profile", "all"),
}
"""Arguments for pytest, by the option of `run.py test`. tests/tiers.py explains the markers."""
JAVA_TIMEOUT_SECONDS = 60
"""Seconds within which a Java must print its version. A slower one counts as missing."""


def main() -> int:
    """Run the command that the arguments of this process name, and return its exit code."""
    if sys.version_info < MINIMUM_PYTHON:
        return _print_message(
            f"Python {'.'.join(map(str, MINIMUM_PYTHON))} or newer is needed, this is {sys.version}", 2
        )
    command, *arguments = sys.argv[1:] or ["--help"]
    if command == "demo":
        return _run_demo(arguments) if _prepare_environment() else 1
    if command == "test":
        return _run_tests(arguments) if _prepare_environment("dev") else 1
    print(__doc__)
    return 0 if command in ("-h", "--help") else 2


def _run_demo(arguments: list[str]) -> int:
    """Run the demonstration.

    If the shell does not find bkaudit afterwards, print a PATH with which the shell finds it.
    """
    exit_code = _run("bkaudit", "demo", *arguments)
    if shutil.which("bkaudit") is None:
        _print_message(f'so that the shell finds bkaudit: PATH="{_scripts_directory()}{os.pathsep}$PATH"')
    return exit_code


def _run_tests(arguments: list[str]) -> int:
    """Run ruff, then the tests and mypy at the same time; return the first exit code that is not 0."""
    option = arguments[0] if arguments and arguments[0] in TEST_OPTIONS else ""
    if option or not arguments:
        # Quick tests start no servers, so that no core idles. One more process would only collect them again.
        processes = CORES if option == QUICK_OPTION else TEST_PROCESSES
        arguments = ["-n", str(processes), *PARALLEL_OPTIONS, *TEST_OPTIONS[option], *arguments[1:]]
    # --rest follows `run.py test`, which runs the linters. They would take as long as the quick tests.
    if option in (REST_OPTION, QUICK_OPTION):
        return _run("pytest", *arguments)
    for linter_command in (["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        exit_code = _run(*linter_command)
        if exit_code:
            return _print_message(f"{' '.join(linter_command)} failed", exit_code)
    # mypy needs one core for half a minute, in which pytest collects the tests. It prints its errors at once.
    with ThreadPoolExecutor(1) as thread_pool:
        mypy_run = thread_pool.submit(_run, "mypy", "--no-error-summary")
        pytest_exit_code = _run("pytest", *arguments)
        mypy_exit_code = mypy_run.result()
    if mypy_exit_code:
        _print_message("mypy failed; its messages are above, between those of the tests")
    return mypy_exit_code or pytest_exit_code


def _prepare_environment(*extras: str) -> bool:
    """Install the project with these extras into the environment if needed; return False if that failed."""
    extra_names = {*extras, *(() if _has_java() else ("java",))}
    stamp_lines = STAMP_FILE.read_text("utf-8").splitlines() if STAMP_FILE.exists() else []
    if stamp_lines[:1] == [_inputs_digest()] and extra_names <= set(stamp_lines[1:]):
        return True
    # Extras of earlier commands stay, so that demo and test do not reinstall in turns.
    extra_names |= set(stamp_lines[1:]) if stamp_lines[:1] == [_inputs_digest()] else set()
    if not _python_path().exists():
        _print_message(f"making an environment in {ENVIRONMENT_DIRECTORY.name}")
        venv.create(ENVIRONMENT_DIRECTORY, with_pip=True, clear=True)
    _print_message("installing the project and what it needs; this happens once and takes a minute or two")
    STAMP_FILE.unlink(missing_ok=True)
    extras_suffix = f"[{','.join(sorted(extra_names))}]" if extra_names else ""
    # Print only errors: an older pip warns about packages without a wheel, which the user cannot change.
    pip_command = [str(_python_path()), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    pip_options = ["--constraint", str(CONSTRAINTS_FILE)]
    if not sys.dont_write_bytecode:
        # Python compiles modules on import. Fewer than a third of the installed ones are ever imported.
        pip_options.append("--no-compile")
    exit_code = subprocess.run(
        [*pip_command, *pip_options, "--editable", f"{ROOT}{extras_suffix}"], check=False
    ).returncode
    if exit_code:
        _print_message("pip could not install it; see its message above")
        return False
    STAMP_FILE.write_text("\n".join([_inputs_digest(), *sorted(extra_names)]) + "\n", "utf-8")
    return True


def _inputs_digest() -> str:
    """Return a digest of the environment's inputs: declared dependencies, this Python, and this directory."""
    declared_files = [(ROOT / "pyproject.toml").read_bytes(), CONSTRAINTS_FILE.read_bytes()]
    digest_parts = (*declared_files, sys.version.encode(), str(ROOT).encode())
    return hashlib.sha256(b"\0".join(digest_parts)).hexdigest()


def _has_java() -> bool:
    """Return whether JAVA_HOME or the PATH has a Java that Spark can use."""
    java_home = os.environ.get("JAVA_HOME")
    for java in (str(Path(java_home) / "bin" / "java") if java_home else None, shutil.which("java")):
        if java is None:
            continue
        try:
            version_text = subprocess.run(
                [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_SECONDS, check=False
            ).stderr
        except (OSError, subprocess.TimeoutExpired):
            continue
        version_match = re.search(r'version "(?:1\.)?(\d+)', version_text)
        if version_match and int(version_match[1]) >= MINIMUM_JAVA:
            return True
    return False


def _python_path() -> Path:
    return _scripts_directory() / ("python.exe" if os.name == "nt" else "python")


def _scripts_directory() -> Path:
    return ENVIRONMENT_DIRECTORY / ("Scripts" if os.name == "nt" else "bin")


def _run(program: str, *arguments: str) -> int:
    """Run a program of the environment as if the environment were active; return its exit code."""
    search_path = os.pathsep.join([str(_scripts_directory()), os.environ.get("PATH", "")])
    # With SPARK_HOME, the machine's own Spark would start with this environment's Python, which may not fit.
    inherited_environment = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONHOME")
    }
    environment = {**inherited_environment, "PATH": search_path, "VIRTUAL_ENV": str(ENVIRONMENT_DIRECTORY)}
    if program == "pytest":
        # Each test process, and each command that it runs, would compile all modules again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # The demonstration writes its run to the caller's directory. Tests run in the project's directory.
    directory = None if program == "bkaudit" else ROOT
    return subprocess.run(
        [_scripts_directory() / program, *arguments], env=environment, cwd=directory, check=False
    ).returncode


def _print_message(text: str, exit_code: int = 0) -> int:
    print(f"run.py: {text}", file=sys.stderr, flush=True)
    return exit_code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
