"""How Java is started for what lives a minute: compiling code once, with one thread to collect garbage.

A server that starts, answers a few hundred times and ends spends most of its time on being loaded and
compiled.
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
    """The classes of one program, which Java takes from a file where an earlier process of it has kept them.

    Of the processor time in which bookies start, a third goes that way. Java takes jars alone, no directories
    of classes; a file that does not fit it passes over.
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
        """Whether a process was told to keep them, which it does when it ends as it should."""
        return self._own is not None

    def options(self) -> tuple[str, ...]:
        """For Java: take the classes; or for one process, where there are none, keep them."""
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
        """Keep what a process that has ended wrote, if it came to that and the file is whole."""
        if self._own is None:
            return
        if self._own.exists() and self._is_whole(self._own):
            self._own.rename(self._file)
        shutil.rmtree(self._own.parent)
        self._begun.discard(self._file)
        self._own = None

    def _is_whole(self, file: Path) -> bool:
        """Whether Java takes the file: one that was cut, for its process was killed, would crash it."""
        command = [
            *(str(find_java().executable), *SHORT_LIVED, "-Xshare:on", "-XX:+VerifySharedSpaces"),
            *(f"-XX:SharedArchiveFile={file}", f"-XX:ErrorFile={file.parent / 'crash'}"),
            *("-XX:-CreateCoredumpOnCrash", "-cp", self._class_path, "-version"),
        ]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
