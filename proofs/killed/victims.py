"""The victims: the processes and resources that an audit loses while it runs, and the repeated command."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from proofs.killed.ground import AuditSetup, ProgressTrigger, Result
from tests.servers.shared_spark import SETTINGS

DAEMON = SETTINGS["spark.python.daemon.module"]
"""The module that forks the Python workers of audits in this process."""
MASTER = ("--master", "local-cluster[1,2,1024]")
"""Arguments of an audit whose executors are separate processes."""


Strike = Callable[[AuditSetup, Path, str], Result | None]


@dataclass(frozen=True)
class Victim:
    """A process or resource that an audit loses, and the way to take it away.

    ``strike`` audits into a directory and takes the victim away when a piece of work begins. It returns the
    command's result, or None if the victim never ran after that piece of work began. ``arguments`` are
    arguments of the first and the repeated command. If ``again_apart`` is true, the repeated command is a
    new process. If ``takes_run`` is true, the strike deletes the run directory.
    """

    name: str
    strike: Strike
    arguments: tuple[str, ...] = ()
    again_apart: bool = False
    takes_run: bool = False

    def can_precede(self, next_victim: Victim) -> bool:
        """Return whether ``next_victim`` can interrupt this victim's repeated command.

        Both need the same arguments, and ``next_victim`` must not delete the run directory.
        """
        return self.arguments == next_victim.arguments and not next_victim.takes_run

    def repeat(self, setup: AuditSetup, out: Path) -> Result:
        """Repeat the command."""
        if self.again_apart:
            return setup.audit_child(out, "", lambda _: None, self.arguments)[0]
        return setup.audit_in_process(out, ProgressTrigger(), self.arguments)


def _spawn(
    kill: Callable[[AuditSetup, int], bool],
    extra: tuple[str, ...] = (),
    undo: Callable[[AuditSetup], None] = lambda _: None,
) -> Strike:
    """Return a strike: a function that audits in a new process and takes the victim away.

    Args:
        kill: Gets the process id, takes the victim away, and returns whether the victim existed.
        extra: Further arguments of the audit.
        undo: Called after the audit has ended.
    """

    def strike(setup: AuditSetup, out: Path, piece: str) -> Result | None:
        struck: list[bool] = []
        try:
            ended, began = setup.audit_child(out, piece, lambda pid: struck.append(kill(setup, pid)), extra)
        finally:
            undo(setup)
        assert began, f"no {piece}: {ended.stderr[-2000:]}"
        return ended if any(struck) else None

    return strike


def _inline(deed: Callable[[AuditSetup, Path], object], undo: Callable[[AuditSetup], None]) -> Strike:
    """Return a strike that audits in this process, or in a new one before Spark has started."""

    def strike(setup: AuditSetup, out: Path, piece: str) -> Result | None:
        try:
            if piece == "starting Spark":
                return setup.audit_child(out, piece, lambda _: deed(setup, out))[0]
            progress = ProgressTrigger(piece, lambda: deed(setup, out))
            ended = setup.audit_in_process(out, progress)
            assert piece in [begun for _, begun in progress.begun], f"no {piece}: {ended.stderr[-2000:]}"
            return ended
        finally:
            undo(setup)

    return strike


def _strike_worker(setup: AuditSetup, out: Path, piece: str) -> Result | None:
    """Kill the first Python worker that runs after the piece of work began.

    Until then, tasks read even small tables, so that Python workers exist.
    """
    killed, over, begun = threading.Event(), threading.Event(), threading.Event()

    def look() -> None:
        begun.wait()
        while not over.wait(0.01) and not killed.is_set():
            for pid in workers(os.getpid()):
                if _kill(pid):
                    killed.set()
                    plans.undo()
                    return

    for pid in workers(os.getpid()):  # workers of the previous audit
        _kill(pid)
    watcher = threading.Thread(target=look)
    with large_plans() as plans:
        watcher.start()
        try:
            ended = setup.audit_in_process(out, ProgressTrigger(piece, begun.set))
        finally:
            begun.set()
            over.set()
            watcher.join()
    return ended if killed.is_set() else None


@contextmanager
def large_plans() -> Iterator[pytest.MonkeyPatch]:
    """Make tasks read even small tables until the yielded patch is undone."""
    from auditor.spark import execution, query_plans

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (query_plans, "SMALL_BYTES"),
            (query_plans, "TINY_BYTES"),
            (execution, "DRIVER_READ_BYTES"),
        ):
            patch.setattr(module, name, -1)
        yield patch


def workers(process_id: int) -> list[int]:
    """Return the ids of the Python workers below a process: the processes that Spark's daemon forked."""
    # A forked worker has the command line of its daemon.
    daemons = [pid for pid in subtree(process_id) if f"-m {DAEMON}" in command(pid)]
    return [pid for pid in daemons if parent(pid) in daemons]


def subtree(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    names = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    process_ids, parents = [pid], {process: parent(process) for process in map(int, names)}
    for process in process_ids:
        process_ids += [child for child, parent_id in parents.items() if parent_id == process]
    return process_ids[1:]


def parent(pid: int) -> int:
    """Return the parent id of a process, or 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def command(pid: int) -> str:
    """Return the command line of a process, or an empty text if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kill(pid: int) -> bool:
    """Kill a process; return whether it still existed."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _kill_below(word: str) -> Callable[[AuditSetup, int], bool]:
    return lambda _, pid: [_kill(child) for child in subtree(pid) if word in command(child)].count(True) > 0


def _full(disk: str) -> Victim:
    """Return a victim whose strike fills a disk, from the piece of work until the command ends."""

    def fill(setup: AuditSetup, _: object) -> bool:
        setup.disks[disk].fill()
        return True

    def empty(setup: AuditSetup) -> None:
        setup.disks[disk].empty()

    # Java writes the cache when it ends, so this audit needs its own process.
    return Victim(f"room for {disk}", _spawn(fill, undo=empty) if disk == "cache" else _inline(fill, empty))


VICTIMS = (
    Victim("driver", _spawn(lambda _, pid: _kill(pid))),
    Victim("store", _inline(lambda ground, _: ground.store.stop(), lambda ground: ground.store.start())),
    Victim("run directory", _inline(lambda _, out: shutil.rmtree(out), lambda _: None), takes_run=True),
    Victim("Python worker", _strike_worker),
    Victim("Java", _spawn(_kill_below("SparkSubmit"))),
    _full("run"),
    _full("scratch"),
    Victim("executor", _spawn(_kill_below("CoarseGrainedExecutorBackend"), MASTER), MASTER, again_apart=True),
    _full("cache"),
)
