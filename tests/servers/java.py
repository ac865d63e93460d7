"""Java options for processes that live a minute: code is compiled once, and one thread collects garbage.

Such a server starts, answers a few hundred requests and ends. Most of its time goes into loading and
compiling its code.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import ClassVar

from auditor.spark.java import find_java, user_cache

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class KeptClasses:
    """An archive of the classes of one program, which an earlier process of it wrote for Java to load.

    The archive saves a third of the processor time of starting bookies. Java archives classes of jars only,
    not of directories. It ignores an archive that does not fit.
    """

    _begun: ClassVar[set[Path]] = set()
    """Files that a process is to write: clusters that start at once need one between them."""

    def __init__(self, main: str, class_path: str) -> None:
        name = hashlib.sha256("\0".join((find_java().version_output, main, class_path)).encode()).hexdigest()[
            :16
        ]
        self._file = user_cache() / f"classes-{name}.jsa"
        self._class_path = class_path
        self._own: Path | None = None

    @property
    def awaited(self) -> bool:
        """Return whether a process was told to write the archive, which it does when it ends normally."""
        return self._own is not None

    def options(self) -> tuple[str, ...]:
        """Return Java options that load the archive or, for one process if there is none, write it."""
        # It warns on standard output, where bookies answer.
        quiet = ("-Xlog:disable", "-Xlog:all=error:stderr")
        if self._file.exists():
            return (*quiet, f"-XX:SharedArchiveFile={self._file}")
        if self._file in self._begun:
            return ()
        self._begun.add(self._file)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._own = Path(tempfile.mkdtemp(dir=self._file.parent)) / "classes.jsa"
        return (*quiet, f"-XX:ArchiveClassesAtExit={self._own}")

    def keep(self) -> None:
        """Keep the archive of a process that has ended, if the process wrote one and the file is whole."""
        if self._own is None:
            return
        if self._own.exists() and self._is_whole(self._own):
            self._own.rename(self._file)
        shutil.rmtree(self._own.parent)
        self._begun.discard(self._file)
        self._own = None

    def _is_whole(self, file: Path) -> bool:
        """Return whether Java accepts the file. One that a killed process cut short would crash Java."""
        command = [
            *(str(find_java().executable), *SHORT_LIVED, "-Xshare:on", "-XX:+VerifySharedSpaces"),
            *(f"-XX:SharedArchiveFile={file}", f"-XX:ErrorFile={file.parent / 'crash'}"),
            *("-XX:-CreateCoredumpOnCrash", "-cp", self._class_path, "-version"),
        ]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
