"""The environment of interrupted audits: a running store, bookie disks, and three small disks to fill."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow.fs import FileSelector

from auditor.cli import main
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.progress import Progress, SilentProgress
from auditor.sources.file_systems import run_files
from auditor.spark.session import build_session
from tests.corpora.corpora import unpack
from tests.servers.limits import end_within
from tests.servers.shared_spark import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORPUS = "dbledger-long"
"""The smallest corpus with RocksDB. Audits open RocksDB through a scratch directory."""
DISKS = {"run": "64m", "scratch": "512m", "cache": "2g"}
"""Sizes of the disks. An audit only makes a cache if a gigabyte is free."""
IN_A_NAMESPACE = ("unshare", "--mount", "--propagation", "private")
COMMAND = (sys.executable, "-c", "from auditor.cli import main; main()")
AUDIT_LIMIT_S = 300.0


class Disk:
    """A small tmpfs disk."""

    def __init__(self, place: Path, size: str) -> None:
        self.place = place
        self._size = size
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)

    def fill(self) -> None:
        """Shrink the disk until it has no free space."""
        for _ in range(50):  # an audit may write meanwhile, so try again
            status = os.statvfs(self.place)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            if self._resize(str(max(used, status.f_frsize))):
                return
        raise AssertionError(f"{self.place} cannot be filled")

    def empty(self) -> None:
        """Give the disk its original size again."""
        assert self._resize(self._size)

    def close(self) -> None:
        """Unmount the disk. Processes with open files keep these until they end."""
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def _resize(self, size: str) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self.place)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Result:
    """The exit code and standard error of a command. The exit code is negative if a signal ended it."""

    exit_code: int
    stderr: str


class ProgressTrigger(SilentProgress):
    """A progress listener that calls ``deed`` once, when a given piece of work begins.

    A piece of work is a stage or a table. ``begun`` lists all of them that began, each with its stage.
    """

    def __init__(self, piece: str = "", deed: Callable[[], object] = lambda: None) -> None:
        self._piece = piece
        self._deed = deed
        self._stage = ""
        self.begun: list[tuple[str, str]] = []

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Record that a stage begins, and call ``deed`` if it is the given piece of work."""
        self._stage = name
        self._begin(name)

    def table(self, name: str, total: int | None = None) -> None:
        """Record that a table begins, and call ``deed`` if it is the given piece of work."""
        self._begin(name)

    def _begin(self, piece: str) -> None:
        if piece == self._piece and all(piece != begun for _, begun in self.begun):
            self._deed()
        self.begun.append((self._stage, piece))


@dataclass
class AuditSetup:
    """The environment of the audits: a metadata store, small disks and a Spark session.

    ``arguments`` are the arguments of every audit except ``--out``. Audits in this process use ``session``.
    """

    root: Path
    session: SparkSession
    store: EmbeddedZooKeeper
    disks: dict[str, Disk]
    arguments: Sequence[str]
    run_count: int = field(default=0)

    def new_run(self) -> Path:
        """Return the path of a new run directory on the small disk."""
        self.run_count += 1
        return self.disks["run"].place / f"audit{self.run_count}" / "run"

    def audit_in_process(self, out: Path, progress: Progress, extra_args: Sequence[str] = ()) -> Result:
        """Audit in this process."""

        @contextmanager
        def shown() -> Iterator[Progress]:
            yield progress

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("auditor.cli.audit.shown_progress", shown)
            arguments = ["audit", *self.arguments, *extra_args, "--out", str(out)]
            result = CliRunner().invoke(main, arguments, obj=lambda: self.session)
        return Result(result.exit_code, result.stderr)

    def audit_child(
        self, out: Path, piece: str, deed: Callable[[int], object], extra_args: Sequence[str] = ()
    ) -> tuple[Result, bool]:
        """Audit in a new process.

        Args:
            out: The run directory.
            piece: The piece of work at which to call ``deed``.
            deed: Called once with the process id.
            extra_args: Further arguments of the audit.

        Returns:
            The result of the command, and whether the piece of work began.
        """
        command = [*COMMAND, "audit", *self.arguments, *extra_args, "--out", str(out), "-v"]
        stderr, began = "", False
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stderr is not None
            # Its child processes share its standard error, so the loop below ends when all have ended.
            with end_within(process, AUDIT_LIMIT_S):
                for line in process.stderr:
                    stderr += line
                    if re.search(rf"[(]{re.escape(piece)}[)]|: {re.escape(piece)},", line) and not began:
                        began = True
                        deed(process.pid)
        return Result(process.returncode, stderr), began

    def clear(self, out: Path) -> None:
        """Delete a run, because the disk is small."""
        shutil.rmtree(out.parent, ignore_errors=True)


def findings_of(run: Path | str) -> list[str]:
    """Return the findings of a finished run with all columns, and the names of its tables."""
    files, base = run_files(str(run))
    findings = pq.read_table(f"{base}/findings", filesystem=files).to_pylist()
    tables = files.get_file_info(FileSelector(f"{base}/tables"))
    return [*sorted(map(repr, findings)), *sorted(table.base_name for table in tables)]


@contextmanager
def audit_setup(root: Path) -> Iterator[AuditSetup]:
    """Yield the environment, set up below ``root``. This process must be in a mount namespace of its own."""
    with ExitStack() as ending:
        disks = {}
        for name, size in DISKS.items():
            disks[name] = Disk(root / name, size)
            ending.callback(disks[name].close)
        scratch = tempfile.tempdir = str(disks["scratch"].place)
        os.environ |= {"TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch, "XDG_CACHE_HOME": str(root / "cache")}
        corpus = unpack(CORPUS, root / "corpus")
        session = build_session("local[2]", SETTINGS, driver_memory="1g", is_small_audit=lambda: True)
        ending.callback(session.stop)
        store = ending.enter_context(EmbeddedZooKeeper(corpus.zookeeper))
        arguments = ["--metadata", f"zk://{store.hosts}/ledgers", "--timeout", "2"]
        arguments += ["--bookies", str(corpus.bookies), "--bookies", "rpc:"]
        arguments += ["--scan-time", str(corpus.scan_time)]
        yield AuditSetup(root, session, store, disks, arguments)
