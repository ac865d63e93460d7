"""One call in its own process: a fork of this one, with all modules loaded, or a new Python process.

Its streams are pipes that the reader closes after some bytes, closed descriptors, or /dev/full.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import runpy
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import auditor
from tests.hostile.arguments import ROOT

HUNG = -1000
"""The exit code of a call that did not end in time."""

NEW_PYTHON = "from auditor.cli import main; main(prog_name='bkaudit')"


@dataclass(frozen=True)
class Streams:
    """The state of standard output and standard error.

    Args:
        byte_limits: Number of bytes of a stream that the reader reads before it closes the pipe. It reads
            other streams to their end.
        closed: Descriptors that are closed.
        full: Descriptors that are /dev/full.
    """

    byte_limits: dict[int, int] = field(default_factory=dict)
    closed: tuple[int, ...] = ()
    full: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [f"{number} left after {size} bytes" for number, size in self.byte_limits.items()]
        parts += [f"{number} closed" for number in self.closed]
        parts += [f"{number} is /dev/full" for number in self.full]
        return ", ".join(parts) or "whole"


@dataclass(frozen=True)
class SignalEvent:
    """A signal, and its time in seconds after the start."""

    number: int
    after_s: float


@dataclass
class Outcome:
    """The outcome of a call: exit code, output, duration in seconds, and the files that it wrote."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    files: list[str] = field(default_factory=list)


def run(
    words: Sequence[str],
    place: Path,
    *,
    streams: Streams | None = None,
    event: SignalEvent | None = None,
    spark: Path | None = None,
    limit_s: float = 120.0,
) -> Outcome:
    """Run a command and wait for its end.

    Args:
        words: The arguments; the first one is the path of a job, or the name of a command.
        place: The working directory of the call.
        streams: None: both are read to their end.
        event: A signal that the call receives.
        spark: The directory of a running Spark (`tests.servers.shared_spark`), which the call uses.
            None: the call is a new Python process, which starts its own Spark.
        limit_s: Seconds after which the call is killed. Its code is then `HUNG`.
    """
    streams = streams or Streams()
    pipes = {number: os.pipe() for number in (1, 2)}
    for number, (reader, _) in pipes.items():
        if streams.byte_limits.get(number) == 0:
            os.close(reader)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)  # until the command begins
            os.setsid()
            os.chdir(place)
            _set_streams(pipes, streams)
            if spark is None:
                _new_python(words)
            else:
                _end(words, spark)
        finally:
            os._exit(71)
    read = _read(child, pipes, streams, event, began + limit_s)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    hung = time.monotonic() - began >= limit_s
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    texts = [read[number].decode("utf-8", "replace") for number in (1, 2)]
    return Outcome(HUNG if hung else code, texts[0], texts[1], time.monotonic() - began)


def _set_streams(pipes: dict[int, tuple[int, int]], streams: Streams) -> None:
    """Connect the child's standard streams to the pipes. Runs in the child."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for number, (reader, writer) in pipes.items():
        os.dup2(writer, number)
        os.close(writer)
        if streams.byte_limits.get(number) != 0:
            os.close(reader)
    for number in streams.full:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, number)
        os.close(full)
    for number in streams.closed:
        os.close(number)


def _new_python(words: Sequence[str]) -> None:
    job = words[0].startswith("jobs/")
    program = [str(ROOT / words[0]), *words[1:]] if job else ["-c", NEW_PYTHON, *words]
    os.environ["PYTHONPATH"] = str(ROOT)
    os.execv(sys.executable, [sys.executable, *program])


def _end(words: Sequence[str], spark: Path) -> None:
    """Run the command as the program does, and exit as Python does. Runs in the child."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            setattr(sys, name, None)
            setattr(sys, f"__{name}__", None)
    code: Any = 0
    try:
        _command(words, spark)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except OSError:
                code = 120
        os._exit(code if isinstance(code, int) else 1)


def preload() -> None:
    """Import every module that a command may import, so that forks have it."""
    for module in pkgutil.walk_packages(auditor.__path__, "auditor."):
        if not module.name.startswith("auditor.jobs.") or module.name == "auditor.jobs.job":
            importlib.import_module(module.name)
    for name in ("pyarrow.compute", "pyarrow.dataset", "pandas", "pyspark.sql", "kazoo.client", "jinja2"):
        importlib.import_module(name)


def _command(words: Sequence[str], spark: Path) -> None:
    """Run a command or a job. A Spark session that it requests belongs to the running Spark."""
    from pyspark.sql import SparkSession

    import auditor.jobs.job
    from auditor.cli import main
    from tests.servers import shared_spark

    attached: list[Any] = []

    def session(*_: Any, **__: Any) -> Any:
        if not attached:
            attached.append(shared_spark.attach(spark))
        return attached[0]

    for module in [*sys.modules.values()]:
        if module is not None and "build_session" in vars(module):
            vars(module)["build_session"] = session
    SparkSession.stop = lambda _: None  # type: ignore[assignment, method-assign]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if words[0].startswith("jobs/"):
        os.environ["PYSPARK_GATEWAY_PORT"] = "0"
        vars(auditor.jobs.job)["_submitted_session"] = session
        sys.argv = [words[0], *words[1:]]
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    else:
        main([*words], prog_name="bkaudit")


def _read(
    child: int,
    pipes: dict[int, tuple[int, int]],
    streams: Streams,
    event: SignalEvent | None,
    deadline: float,
) -> dict[int, bytes]:
    """Read both streams as far as their readers do, until they end; kill a child at the deadline."""
    read = {1: b"", 2: b""}
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for number, (reader, writer) in pipes.items():
            os.close(writer)
            if streams.byte_limits.get(number) != 0:
                selector.register(reader, selectors.EVENT_READ, number)
        ended = os.pidfd_open(child)
        selector.register(ended, selectors.EVENT_READ, 0)
        while selector.get_map():
            now_s = time.monotonic()
            if event is not None and now_s >= began + event.after_s:
                with suppress(ProcessLookupError):
                    os.kill(child, event.number)
                event = None
            if now_s >= deadline:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child, signal.SIGKILL)
                break
            wait = min(deadline - now_s, 0.5) if event is None else max(began + event.after_s - now_s, 0)
            for key, _ in selector.select(wait):
                if key.data == 0:
                    selector.unregister(ended)
                    continue
                limit = streams.byte_limits.get(key.data)
                size = 65_536 if limit is None else limit - len(read[key.data])
                data = os.read(key.fd, size)
                read[key.data] += data
                if not data or (limit is not None and len(data) == size):
                    selector.unregister(key.fd)
                    os.close(key.fd)
            if ended not in selector.get_map() and not selector.select(0.2):
                break  # what it left running holds the pipes
        for key in [*selector.get_map().values()]:
            if key.data:
                os.close(key.fd)
        os.close(ended)
    return read


_VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?|\b179\d{10}\b|\b179\d{7}(\.\d+)?\b"
    r"|[\d.,]+ (ms|s|min|h|seconds?|minutes?)\b"
    r"|\ba (second|minute)\b|\b\d{8}T\d{6}Z(-\d+)?|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}"
)
"""Times, durations and random names, which two calls do not share."""


def plain(text: str) -> str:
    """Return a text without the parts that vary between two calls."""
    return _VARYING.sub("VARYING", text)


def files_below(place: Path) -> list[str]:
    """Return the files that a call wrote, without the random parts of their names."""
    return sorted({plain(str(path.relative_to(place))) for path in place.rglob("*") if path.is_file()})
