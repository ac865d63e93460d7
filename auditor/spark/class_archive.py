"""Spark's classes, loaded and checked once: a file that Java maps instead.

A session and its first audit load some twenty thousand classes, one by one, out of three hundred jars, and
check each. The Java process of the first audit writes them to a file in the user's cache directory, after the
command has ended; later sessions start with that file. From Java 25 on it is an ahead-of-time cache:
classes are loaded and linked in it, and it has what was learnt of methods. Before, it is an archive of class
data sharing. Audits of all sizes have the same file, for it fits every collector of theirs.

Its name holds what it was made from: Java, Spark, the jars with their sizes and times, and what else can be
on the class path, which Java 25 does not always compare. After an upgrade another name is looked for, and
Java itself passes over a file that does not fit its options. It looks at the sums of the file
(`VerifySharedSpaces`), for a flipped bit would crash it. A file gets its name, which also holds its size,
only when it has lain whole on the disk for a while: Java writes the head of either kind last. Of a cache it
first writes a record beside it, from which a second Java process makes the cache. Java's own switches,
``JDK_JAVA_OPTIONS=-XX:AOTMode=off`` or ``-Xshare:off``, do without.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from auditor.spark.java import AOT_VERSION, Java, user_cache

SETTLED_S = 30
"""A file that nobody has written to for so long is not being written any more."""

MAKING_S = 600
"""So long after it was begun, an archive that is not whole is one whose Java was killed."""

UNUSED_S = 90 * 86_400

ROOM_BYTES = 1 << 30
"""Free on the disk of the cache, or nothing is made: a record and a cache are 200 MB each."""

_ELSEWHERE = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""What Spark's launcher puts on the class path beside the jars."""

_SAID_TO_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How Java calls such a file: its suffix, the options that use one and that make one, what is logged.

    Whether a file fits is nothing to tell. Java would tell it on standard output, and of a cache as an error.
    """

    suffix: str
    use: str
    make: str
    logged: str


_ARCHIVE = _Kind(".jsa", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xlog:all=error:stderr")
_CACHE = _Kind(".aot", "-XX:AOTCache", "-XX:AOTCacheOutput", "-Xlog:all=error,aot*=off,cds*=off:stderr")


def archive_options(java: Java, make: bool = False, cache_dir: Path | None = None) -> tuple[str, ...]:
    """Java's options for the archive of this Java and this Spark, as Spark's settings quote them.

    Nothing where there is none. With ``make`` they have one made when the process ends, if it can be kept in
    ``cache_dir`` (default: the user's cache directory); what Java says of that goes to its standard streams.
    Nothing, too, where the user tells Java of archives: it does not start with two words on them.
    """
    said = " ".join(os.environ.get(variable, "") for variable in _SAID_TO_JAVA)
    if any(word in said for word in ("-Xshare", "Archive", "AOT")):
        return ()
    kind = _CACHE if java.version >= AOT_VERSION else _ARCHIVE
    silent = ("-Xlog:disable", kind.logged)
    directory = cache_dir or user_cache()
    try:
        spark = _spark()
        if any(_has_files(part) for part in _class_path_directories(spark)):
            return ()
        name = _name(java, spark)
        part = directory / f"{name}.part"
        _settle(part, kind)
        for archive in directory.glob(f"{name}-*{kind.suffix}"):
            if archive.name == f"{name}-{archive.stat().st_size}{kind.suffix}":
                return (shlex.quote(f"{kind.use}={archive}"), "-XX:+VerifySharedSpaces", *silent)
        if make and _can_make(part, kind):
            return (shlex.quote(f"{kind.make}={part}"), *silent)
    except OSError:
        # A cache that cannot be read or written costs a few seconds, and no audit.
        return ()
    return ()


def _spark() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _class_path_directories(spark: Path) -> list[Path]:
    """The places on the class path that can be directories: settings of Spark's and of Hadoop's."""
    found = [Path(os.environ.get("SPARK_CONF_DIR") or spark / "conf")]
    for variable in _ELSEWHERE[1:]:
        found += map(Path, filter(None, os.environ.get(variable, "").split(os.pathsep)))
    return found


def _has_files(directory: Path) -> bool:
    """Whether Java refuses an archive for it: a directory on the class path must be empty."""
    return directory.is_dir() and any(directory.iterdir())


def _name(java: Java, spark: Path) -> str:
    import pyspark

    made_from = [java.build, *(os.environ.get(variable, "") for variable in _ELSEWHERE)]
    added = map(Path, os.environ.get("SPARK_DIST_CLASSPATH", "").split(os.pathsep))
    more = [jar for entry in added if entry.name for jar in entry.parent.glob(entry.name)]
    for jar in [*sorted(spark.glob("jars/*")), *sorted(more)]:
        stat = jar.stat()
        made_from.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    return f"spark-{pyspark.__version__}-java-{java.version}-{digest}"


def _record(part: Path) -> Path:
    """What Java writes before it makes a cache, and takes away when that is made."""
    return part.with_name(f"{part.name}.config")


def _can_make(part: Path, kind: _Kind) -> bool:
    """Whether nobody else is making it, there is room for it, and nothing is said that must not be."""
    record = _record(part)
    if _age(part) <= MAKING_S or _age(record) <= MAKING_S:
        return False
    if kind is _CACHE and os.environ.get("SPARK_SUBMIT_OPTS"):
        return False  # Java prints all its options for the process that makes the cache, passwords among them
    part.parent.mkdir(parents=True, exist_ok=True)
    _remove_unused(part.parent)
    record.unlink(missing_ok=True)  # of a Java that was killed
    return os.access(part.parent, os.W_OK) and shutil.disk_usage(part.parent).free >= ROOM_BYTES


def _settle(part: Path, kind: _Kind) -> None:
    """Give an archive its name once Java has written all of it, and the disk has it."""
    if not SETTLED_S < _age(part) < float("inf"):
        return
    with part.open("rb") as file:
        if not any(file.read(4)):
            return  # Java writes the head last
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    part.rename(part.with_name(f"{part.stem}-{size}{kind.suffix}"))
    _record(part).unlink(missing_ok=True)


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
