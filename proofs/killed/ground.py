"""Where audits are broken off: a store that runs, bookies' disks, and three small disks that can be full."""

from __future__ import annotations

import os
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
from auditor.model.progress import Progress, Silent
from auditor.sources.file_systems import run_files
from auditor.spark.session import build_session
from tests.corpora.corpora import unpack
from tests.servers.limits import end_within
from tests.servers.shared_spark import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORPUS = "dbledger-long"
"""The smallest that has RocksDB, which is opened through a scratch directory."""
DISKS = {"run": "64m", "scratch": "512m", "cache": "2g"}
"""Their sizes: a cache is made where there is a gigabyte of room."""
IN_A_NAMESPACE = ("unshare", "--mount", "--propagation", "private")
COMMAND = (sys.executable, "-c", "from auditor.cli import main; main()")
AUDIT_LIMIT_S = 300.0


class Disk:
    """A small disk of its own."""

    def __init__(self, place: Path, size: str) -> None:
        self.place = place
        self._size = size
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)

    def fill(self) -> None:
        """Leave no room."""
        for _ in range(50):  # whoever writes meanwhile has it refused
            now = os.statvfs(self.place)
            used = (now.f_blocks - now.f_bfree) * now.f_frsize
            if self._resize(str(max(used, now.f_frsize))):
                return
        raise AssertionError(f"{self.place} cannot be filled")

    def empty(self) -> None:
        """Make room again."""
        assert self._resize(self._size)

    def close(self) -> None:
        """Take it away; what still has files open there keeps them until it ends."""
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def _resize(self, size: str) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self.place)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``exit_code`` is negative where a signal ended it."""

    exit_code: int
    stderr: str


class At(Silent):
    """Does something once, when a piece of work begins; ``begun`` names all that did."""

    def __init__(self, piece: str = "", deed: Callable[[], object] = lambda: None) -> None:
        self._piece = piece
        self._deed = deed
        self.begun: list[str] = []

    def stage(self, name: str, total: int | None = None) -> None:
        """A piece of work begins."""
        if name == self._piece and name not in self.begun:
            self._deed()
        self.begun.append(name)


@dataclass
class Ground:
    """``arguments`` are those of every audit but its ``--out``; audits in this process use ``session``."""

    root: Path
    session: SparkSession
    store: EmbeddedZooKeeper
    disks: dict[str, Disk]
    arguments: Sequence[str]
    made: int = field(default=0)

    def new_run(self) -> Path:
        """A run directory to make, on the small disk."""
        self.made += 1
        return self.disks["run"].place / f"audit{self.made}" / "run"

    def here(self, out: Path, at: Progress, more: Sequence[str] = ()) -> Ended:
        """Audit in this process."""

        @contextmanager
        def shown() -> Iterator[Progress]:
            yield at

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("auditor.cli.audit.shown_progress", shown)
            arguments = ["audit", *self.arguments, *more, "--out", str(out)]
            result = CliRunner().invoke(main, arguments, obj=lambda: self.session)
        return Ended(result.exit_code, result.stderr)

    def apart(
        self, out: Path, piece: str, deed: Callable[[int], object], more: Sequence[str] = ()
    ) -> tuple[Ended, bool]:
        """Audit in a process of its own, whose id the deed is given; and whether that piece of work began."""
        command = [*COMMAND, "audit", *self.arguments, *more, "--out", str(out), "-v"]
        said, began = "", False
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stderr is not None
            # All that it has started has its standard error, too.
            with end_within(process, AUDIT_LIMIT_S):
                for line in process.stderr:
                    said += line
                    if f"({piece})" in line and not began:
                        began = True
                        deed(process.pid)
        return Ended(process.returncode, said), began

    def clear(self, out: Path) -> None:
        """Take a run away: the disk is small."""
        shutil.rmtree(out.parent, ignore_errors=True)


def findings_of(run: Path | str) -> list[str]:
    """The findings of a finished run, all columns, and the names of its tables."""
    files, base = run_files(str(run))
    findings = pq.read_table(f"{base}/findings", filesystem=files).to_pylist()
    tables = files.get_file_info(FileSelector(f"{base}/tables"))
    return [*sorted(map(repr, findings)), *sorted(table.base_name for table in tables)]


@contextmanager
def ground(root: Path) -> Iterator[Ground]:
    """Lay all of it out below ``root``, in a namespace of mounts of this process."""
    with ExitStack() as ending:
        disks = {}
        for name, size in DISKS.items():
            disks[name] = Disk(root / name, size)
            ending.callback(disks[name].close)
        scratch = tempfile.tempdir = str(disks["scratch"].place)
        os.environ |= {"TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch, "XDG_CACHE_HOME": str(root / "cache")}
        corpus = unpack(CORPUS, root / "corpus")
        session = build_session("local[2]", SETTINGS, driver_memory="1g", small=lambda: True)
        ending.callback(session.stop)
        store = ending.enter_context(EmbeddedZooKeeper(corpus.zookeeper))
        arguments = ["--metadata", f"zk://{store.hosts}/ledgers", "--timeout", "2"]
        arguments += ["--bookies", str(corpus.bookies), "--bookies", "rpc:"]
        arguments += ["--scan-time", str(corpus.scan_time)]
        yield Ground(root, session, store, disks, arguments)
