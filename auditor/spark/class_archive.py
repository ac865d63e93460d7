"""Spark's classes, loaded and checked once: an archive that Java maps instead (class data sharing).

A session and its first audit load some twenty thousand classes, one by one, out of three hundred jars, and
check each. The Java process of the first audit writes them to a file in the user's cache directory, after the
command has ended; later sessions start with that file.

Its name holds what it was made from: Java, Spark, the jars with their sizes and times, and what else can be
on the class path. After an upgrade another name is looked for, and Java itself passes over an archive that
does not fit. One that was cut would crash it: so an archive gets its name, which also holds its size, only
when it has lain whole on the disk for a while. ``JDK_JAVA_OPTIONS=-Xshare:off``, Java's own switch, does
without.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from pathlib import Path

from auditor.spark.java import Java, user_cache

SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Whether an archive fits is nothing to tell; Java would tell it on standard output."""

SETTLED_S = 30
"""A file that nobody has written to for so long is not being written any more."""

MAKING_S = 600
"""So long after it was begun, an archive that is not whole is one whose Java was killed."""

UNUSED_S = 90 * 86_400

_ELSEWHERE = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""What Spark's launcher puts on the class path beside the jars."""

_SAID_TO_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


def archive_options(java: Java, make: bool = False, cache_dir: Path | None = None) -> tuple[str, ...]:
    """Java's options for the archive of this Java and this Spark, as Spark's settings quote them.

    Nothing where there is none. With ``make`` they have one made when the process ends, if it can be kept in
    ``cache_dir`` (default: the user's cache directory). Nothing, too, where the user tells Java of archives:
    it does not start with two words on them.
    """
    said = " ".join(os.environ.get(variable, "") for variable in _SAID_TO_JAVA)
    if "-Xshare" in said or "Archive" in said:
        return ()
    directory = cache_dir or user_cache()
    name = _name(java)
    part = directory / f"{name}.part"
    try:
        _settle(part)
        for archive in directory.glob(f"{name}-*.jsa"):
            if archive.name == f"{name}-{archive.stat().st_size}.jsa":
                return (shlex.quote(f"-XX:SharedArchiveFile={archive}"), *SILENT)
        if make and _age(part) > MAKING_S:
            directory.mkdir(parents=True, exist_ok=True)
            _remove_unused(directory)
            if os.access(directory, os.W_OK):
                return (shlex.quote(f"-XX:ArchiveClassesAtExit={part}"), *SILENT)
    except OSError:
        # A cache that cannot be read or written costs a few seconds, and no audit.
        return ()
    return ()


def _name(java: Java) -> str:
    import pyspark

    spark = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    made_from = [java.build, *(os.environ.get(variable, "") for variable in _ELSEWHERE)]
    for jar in sorted(spark.glob("jars/*")):
        stat = jar.stat()
        made_from.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    return f"spark-{pyspark.__version__}-java-{java.version}-{digest}"


def _settle(part: Path) -> None:
    """Give an archive its name once Java has written all of it, and the disk has it."""
    if not SETTLED_S < _age(part) < float("inf"):
        return
    with part.open("rb") as file:
        if not any(file.read(4)):
            return  # Java writes the head last
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    part.rename(part.with_name(f"{part.stem}-{size}.jsa"))


def _age(part: Path) -> float:
    """Seconds since it was last written to; without end where it is not there."""
    try:
        return time.time() - part.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _remove_unused(directory: Path) -> None:
    """What a Java or a Spark left behind that has been upgraded since."""
    for archive in directory.glob("spark-*"):
        if time.time() - archive.stat().st_atime > UNUSED_S:
            archive.unlink()
