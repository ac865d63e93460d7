"""Faults of a call: of its inputs, its outputs, its servers, its streams, and signals.

A fault changes the directory of the call, or lasts as long as the call. It states the exit codes it allows.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.hostile.arguments import Call, Input
from tests.hostile.faulty_files import CALLS, FaultyFiles
from tests.hostile.servers import MODES, FaultyServers

FAILURES = frozenset((2, 3, 4, 5))
"""Exit codes of a command that could not do its work, or not all of it."""

NETWORK = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENOMEM, errno.ETIMEDOUT, errno.EACCES)
WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES)

UNCHECKED_TEXT = {"text", "plan", "decode", "bookies"}
"""Kinds of inputs without checksums: after a flipped bit they may say something else that is right."""


@dataclass(frozen=True)
class Fault:
    """A fault, and the outcomes that it allows.

    Args:
        kind: A key of the summary.
        text: The full description.
        names: The error must contain at least one of these strings.
        codes: The call must end with one of these exit codes. None: it may also end as if nothing had
            happened, with the same output. After invisible damage the output may also differ.
        is_visible: The program can see the damage. A command that ends with 0 must have the same output.
        apply: Causes the fault for the duration of the call.
        fired: Whether the fault occurred. If not, the call must end as if nothing had happened.
    """

    kind: str
    text: str
    names: tuple[str, ...]
    codes: frozenset[int] | None
    is_visible: bool
    apply: Callable[[], AbstractContextManager[None]]
    fired: Callable[[], bool] = lambda: True


@dataclass
class Bench:
    """The tools that cause faults.

    Args:
        place: The directory of the call.
        files: The file system that fails.
        servers: Ports that fail.
        small: A file system with almost no space, or None if there is none.
        read_only: A read-only file system, or None if there is none.
    """

    place: Path
    files: FaultyFiles
    servers: FaultyServers
    small: Path | None = None
    read_only: Path | None = None


def draw_fault(bench: Bench, call: Call, random: Random) -> Fault | None:
    """Return a fault of an input, output or server of the call, or None if it has none of these."""
    makers: list[Callable[[Bench, Call, Random], Fault]] = []
    if call.inputs:
        makers += [damaged_input, damaged_input, failing_input]
    if call.outputs:
        makers += [bad_output, failing_output]
    if call.servers:
        makers += [failing_server, failing_server, failing_server]
    return random.choice(makers)(bench, call, random) if makers else None


# Inputs.


def damaged_input(bench: Bench, call: Call, random: Random) -> Fault:
    """Return a fault that damages an input, or a file or directory of one."""
    source = random.choice(call.inputs)
    top = bench.place / source.name
    victim = _victim(top, random)
    kinds = _FILE_DAMAGES if victim.is_file() else _DIRECTORY_DAMAGES
    # A pipe that decode is given is read, as a shell's <(...) is.
    kind = random.choice([name for name in kinds if (source.kind, name) != ("decode", "a pipe instead")])
    seed = random.randrange(1 << 30)
    is_top = victim == top
    visible = kind not in ("flipped", "cut", "foreign") or source.kind not in UNCHECKED_TEXT
    if victim.suffix == ".json" and kind == "flipped":
        visible = False
    if source.kind == "metadata" and top.suffix == ".jsonl" and kind in ("flipped", "foreign"):
        visible = False
    if (
        source.kind == "bookies"
        and call.name.endswith(("collect", "collect.py"))
        and kind in ("missing", "empty")
    ):
        visible = False  # what is not there, nobody misses before an audit
    if source.kind == "runs" and kind in ("a link to itself", "empty"):
        visible = False  # no run, as any other file beside runs; and where no audit was made yet
    if victim.name in _NO_CONTENT or (source.kind == "decode" and kind == "empty"):  # of protobuf, a message
        visible = False
    codes = FAILURES if is_top and kind in _FATAL and _is_needed(call, source) else None

    def apply() -> AbstractContextManager[None]:
        kinds[kind](victim, Random(seed))
        return nullcontext()

    text = f"{victim.relative_to(bench.place)} {kind}"
    return Fault(f"{source.kind} {kind}", text, _names(bench, source, victim), codes, visible, apply)


_FATAL = ("missing", "a file instead", "a directory instead", "a link to itself", "without permissions")
_NO_CONTENT = ("_SUCCESS", "LOCK", "LOG", "IDENTITY", "zookeeper.log", "spark.log")
"""Files whose content means nothing."""


def _is_needed(call: Call, source: Input) -> bool:
    """Return whether a command needs an input to do its work at all."""
    if "--cluster" in call.words and source.name in ("healthy/metadata.jsonl", "runs"):
        return False  # what a flag names goes before
    if source.name == "conf.toml":
        return False  # a command that was told where its run is asks no file of options
    return source.kind in ("run", "runs", "metadata", "plan", "text", "decode", "bookies", "collected")


def _names(bench: Bench, source: Input, victim: Path) -> tuple[str, ...]:
    """Return the names that the error may give the object: the file, a directory of it, or the bookie."""
    paths = [str(victim)]
    top = bench.place / source.name
    while victim not in (top, bench.place):
        victim = victim.parent
        paths.append(str(victim))
    return (*paths, source.name, Path(source.name).name)


def _victim(top: Path, random: Random) -> Path:
    """Return the input itself, or a file or directory below it."""
    if not top.is_dir() or random.random() < 0.2:
        return top
    entries = sorted(top.rglob("*"))
    files = [path for path in entries if path.is_file()]
    return random.choice(files if files and random.random() < 0.8 else entries or [top])


def _cut(path: Path, random: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data))] if data else b"")


def _flip(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def _directory(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


def _file(path: Path, _: Random) -> None:
    shutil.rmtree(path)
    path.write_text("a file\n")


def _loop(path: Path, _: Random) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(path.name)


def _pipe(path: Path, _: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _empty_directory(path: Path, _: Random) -> None:
    shutil.rmtree(path)
    path.mkdir()


_FILE_DAMAGES: dict[str, Callable[[Path, Random], object]] = {
    "cut": _cut,
    "flipped": _flip,
    "empty": lambda path, _: path.write_bytes(b""),
    "foreign": lambda path, random: path.write_bytes(random.randbytes(random.choice((7, 1_000, 70_000)))),
    "missing": lambda path, _: path.unlink(),
    "a directory instead": _directory,
    "a link to itself": _loop,
    "a pipe instead": _pipe,
    "without permissions": lambda path, _: path.chmod(0),
}
_DIRECTORY_DAMAGES: dict[str, Callable[[Path, Random], object]] = {
    "missing": lambda path, _: shutil.rmtree(path),
    "empty": _empty_directory,
    "a file instead": _file,
    "a link to itself": _loop,
    "without permissions": lambda path, _: path.chmod(0),
    "not listed": lambda path, _: path.chmod(0o311),
    "not entered": lambda path, _: path.chmod(0o644),
}


def failing_input(bench: Bench, call: Call, random: Random) -> Fault:
    """Return a fault: system calls on an input fail, all of them after a number of successes."""
    source = random.choice(call.inputs)
    top = bench.place / source.name
    victim = _victim(top, random)
    kinds = random.choice((("open",), ("read",), ("stat",), ("list",), ("open", "read", "stat", "list")))
    number = random.choice(NETWORK)
    skip = random.choice((0, 0, 0, 1, 2, 5, 20))
    text = f"{victim.relative_to(bench.place)}: {'/'.join(kinds)} {errno.errorcode[number]} after {skip}"
    return Fault(
        f"{source.kind} {errno.errorcode[number]}",
        text,
        _names(bench, source, victim),
        None,
        True,
        lambda: bench.files.failing(victim, number, sum(CALLS[kind] for kind in kinds), skip),
        lambda: bench.files.fired() > 0,
    )


# Outputs.


def failing_output(bench: Bench, call: Call, random: Random) -> Fault:
    """Return a fault: system calls on an output fail, all of them after a number of successes."""
    name = random.choice(call.outputs)
    kinds = random.choice((("change",), ("write",), ("sync",), ("close",), ("write", "change", "sync")))
    number = random.choice(WRITES)
    skip = random.choice((0, 0, 1, 3, 10, 50))
    victim = bench.place / name
    text = f"{name}: {'/'.join(kinds)} {errno.errorcode[number]} after {skip}"
    return Fault(
        f"output {errno.errorcode[number]}",
        text,
        (str(victim), name, str(victim.parent)),
        None,
        True,
        lambda: bench.files.failing(victim, number, sum(CALLS[kind] for kind in kinds), skip),
        lambda: bench.files.fired() > 0,
    )


def bad_output(bench: Bench, call: Call, random: Random) -> Fault:
    """Return a fault that puts an obstacle at the path of an output."""
    name = random.choice(call.outputs)
    path = bench.place / name
    is_directory = name in ("new/out", "new/runs") and call.command[0] != "encode"  # which writes a file
    damages: dict[str, tuple[Callable[[], object], frozenset[int] | None]] = {
        "a directory without permissions": (lambda: path.parent.chmod(0o500), frozenset((2, 4))),
        "a file above": (lambda: _replace_by_file(path.parent), frozenset((2, 4))),
        "a link to itself": (lambda: path.symlink_to(path.name), frozenset((2, 4))),
    }
    if is_directory:
        damages["a file in the way"] = (lambda: path.write_text("mine"), frozenset((2, 4)))
        damages["a directory with something else"] = (lambda: _directory_with(path), None)
    else:
        damages["a directory in the way"] = (lambda: path.mkdir(), frozenset((2, 4)))
    for label, target in (("no room", bench.small), ("read-only", bench.read_only)):
        # A single file is so small that there is room for it.
        if target is not None and (is_directory or label != "no room"):
            codes = frozenset((2, 4)) if label == "read-only" else None
            damages[label] = (lambda target=target: _link(path.parent, target), codes)  # type: ignore[misc]  # a default binds the loop variable
    kind = random.choice([*damages])
    make, codes = damages[kind]

    @contextmanager
    def apply() -> Iterator[None]:
        make()
        try:
            yield
        finally:
            if bench.small is not None:
                for below in bench.small.iterdir():
                    shutil.rmtree(below) if below.is_dir() else below.unlink()

    names = (
        str(path),
        name,
        str(path.parent),
        *(str(target) for target in (bench.small, bench.read_only) if target),
    )
    return Fault(f"output: {kind}", f"{name}: {kind}", names, codes, True, apply)


def _replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("a file\n")


def _directory_with(path: Path) -> None:
    path.mkdir()
    (path / "letter").write_text("mine")


def _link(path: Path, target: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(target)


# Servers.


def failing_server(bench: Bench, call: Call, random: Random) -> Fault:
    """Return a fault: a server's port misbehaves, at once or after a number of bytes."""
    server = random.choice(call.servers)
    mode = random.choice([*MODES])
    after = random.choice((0, 0, 0, 100, 2_000, 20_000))

    @contextmanager
    def apply() -> Iterator[None]:
        with bench.servers.failing(server, mode, after):
            yield

    codes = FAILURES if after == 0 else None
    names = (f"127.0.0.1:{bench.servers.port(server)}", str(bench.servers.port(server)))
    return Fault(
        f"{server} {mode}",
        f"{server} {mode} after {after} bytes",
        names,
        codes,
        True,
        apply,
        lambda: bench.servers.fired() > 0,
    )
