"""Spark sessions for audits whose caller passes none, and scratch directories that are removed afterwards.

Only this user can read a scratch directory, and its name cannot be guessed. A process locks its scratch
directories while it uses them, and the lock ends with the process. A process that is killed leaves its
directories behind. The next process finds them, even if they are from another container, because they are
not locked. It then removes them. A file in each directory marks it as a scratch directory, because a run
directory may also be called ``bkaudit-...``.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path

from auditor.errors import SparkError, UsageError
from auditor.model.batch_bounds import MAX_BATCH_BYTES
from auditor.spark.java import archive_options, ensure_java_home
from auditor.spark.java_process import java_ends_with_failure, set_log_file
from auditor.spark.running_session import copy_session, running_session
from auditor.spark.types import SparkSession

SCRATCH_PREFIX = "bkaudit-"
SCRATCH_MARK_FILE = ".bkaudit-scratch"
LEFTOVER_AGE_SECONDS = 60.0
"""Age above which an unlocked scratch directory counts as left behind, in seconds.

A process creates its directory shortly before it locks it.
"""


@contextmanager
def scratch_directory(scratch_kind: str, parent_directory: Path | None = None) -> Iterator[str]:
    """Make a directory ``bkaudit-KIND-...``, and remove it at the end of the block.

    It is created in ``parent_directory`` or, by default, in the directory for temporary files.

    >>> with scratch_directory("example") as path:
    ...     oct(Path(path).stat().st_mode & 0o777)
    '0o700'
    >>> Path(path).exists()
    False

    Raises:
        OSError: the directory cannot be made.
    """
    parent_directory = parent_directory or Path(tempfile.gettempdir())
    remove_leftover_scratch(parent_directory)
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH_PREFIX}{scratch_kind}-", dir=parent_directory) as path:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(path, SCRATCH_MARK_FILE).touch()
            yield path
        finally:
            os.close(descriptor)


def make_lasting_directory(scratch_kind: str, parent_directory: Path | None = None) -> str:
    """Make a scratch directory that is removed when this process ends.

    Raises:
        OSError: the directory cannot be made.
    """
    open_resources = ExitStack()
    path = open_resources.enter_context(scratch_directory(scratch_kind, parent_directory))
    atexit.register(_close_resources, open_resources)
    return path


def _close_resources(open_resources: ExitStack) -> None:
    with suppress(OSError):  # a child process still writes there; the next process removes it
        open_resources.close()


def remove_leftover_scratch(parent_directory: Path) -> None:
    """Remove the scratch directories that killed processes of this user left in ``parent_directory``."""
    with os.scandir(parent_directory) as directory_entries:
        scratch_paths = [
            directory_entry.path
            for directory_entry in directory_entries
            if directory_entry.name.startswith(SCRATCH_PREFIX)
        ]
    for scratch_path in scratch_paths:
        try:
            descriptor = os.open(scratch_path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # it belongs to another user, is no directory, or is gone
        try:
            directory_status = os.fstat(descriptor)
            os.stat(SCRATCH_MARK_FILE, dir_fd=descriptor)
            if (
                directory_status.st_uid == os.getuid()
                and time.time() - directory_status.st_mtime >= LEFTOVER_AGE_SECONDS
            ):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(scratch_path, ignore_errors=True)
        except OSError:
            continue  # it is in use, or no scratch directory
        finally:
            os.close(descriptor)


SESSION_SETTINGS = {
    "spark.app.name": "bookkeeper-auditor",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark's defaults, which some applications change: overflowing sums are errors, and Arrow columns have
    # the types of our schemas.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # A ledger whose index has many gaps has a large row, so batches are bounded in rows and in bytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(MAX_BATCH_BYTES),
    # Coalescing many compressed shuffle partitions to a few leaves cores idle in the join's last wave.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
    # Otherwise PySpark sends the Python line of each column call to Java, which makes half of all calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Python workers allocate and free arrays of some megabytes all the time. If the C library returns each of
    # them to the kernel at once, page faults take a fifth of the time of reading ledgers.
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "67108864",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "16777216",
}
# Most code of a small audit runs a few hundred times, to plan its queries. Compiling it with Java's second
# compiler takes a third of all time, and saves less. Code that runs once per row still reaches these
# thresholds soon.
JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
SMALL_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java options for a session that ends after one small audit (some ten thousand ledgers).

`auditor.audit.audit` gives the reasons.
"""


LOCAL_DIRS_VARIABLE = "SPARK_LOCAL_DIRS"
"""Environment variable that names the disks for Spark's scratch files.

Without it, the files are in Java's temporary directory.
"""

_LOCAL_MASTER = re.compile(r"local(\[(\*|\d+)(, *\d+)?\]|-cluster\[\d+, *\d+, *\d+\])?$")
_STANDALONE_PREFIX = "spark://"
_DEFAULT_PORT = 7077
_REMOTE_VARIABLE, _API_MODE_VARIABLE = "SPARK_REMOTE", "SPARK_API_MODE"
_NO_CONNECT_ADVICE = (
    "Spark Connect: an audit needs a session with its own local driver process. Use spark-submit or "
    "--master, without SPARK_REMOTE and SPARK_API_MODE (docs/operate.md, Spark Connect)"
)
_HADOOP_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def build_session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    driver_memory: str | None = None,
    log_path: Path | None = None,
    keep_classes: bool = False,
    is_small_audit: Callable[[], bool] = lambda: False,
    user_session: SparkSession | None = None,
) -> SparkSession:
    """Start a Spark session, or copy a session that is passed or already running.

    If a session is running (in a notebook or under spark-submit), the audit works on a copy with its own
    settings (`auditor.spark.running_session`). The running session does not change.

    For a new session, the function looks for Java (`auditor.spark.java`). Python workers use the driver's
    interpreter, unless PYSPARK_PYTHON names a different interpreter. By default, workers would start an
    interpreter that has no pyarrow if no environment is activated.

    Args:
        master: Spark's master, or None for the configured master.
        conf: further settings of Spark.
        driver_memory: the memory of the driver, such as 4g.
        log_path: the file for the output of Spark's Java process, or None for standard error.
        keep_classes: whether to keep Java's classes for later sessions (`auditor.spark.java`). This needs a
            ``log_path``, because Java still writes messages after the command has ended.
        is_small_audit: returns whether the session is for one small audit. It is called when Java starts.
            If it returns True, Java uses only its first compiler, and collects garbage in one thread.
        user_session: the session to copy.

    Raises:
        UsageError: the master is invalid, or the session is one of Spark Connect.
        SparkError: the session could not be started.
        JavaMissingError: there is no Java runtime that Spark can use.
    """
    from pyspark.sql import SparkSession

    if (existing_session := user_session or running_session()) is not None:
        require_classic(existing_session)
        return copy_session(existing_session, SESSION_SETTINGS | dict(conf or {}))
    if _REMOTE_VARIABLE in os.environ or os.environ.get(_API_MODE_VARIABLE, "").lower() == "connect":
        raise UsageError(_NO_CONNECT_ADVICE)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None:
        check_master(master)
    java = ensure_java_home()
    builder = SparkSession.builder
    settings = {**SESSION_SETTINGS, **(conf or {})}
    if master is not None and "spark.master" not in settings:
        settings["spark.master"] = master
    if settings.get("spark.master", "").startswith("local"):
        # All processes run on this machine, so none should listen on other addresses.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if driver_memory is not None:
        settings["spark.driver.memory"] = driver_memory
    for setting_name, setting_value in settings.items():
        builder = builder.config(setting_name, setting_value)
    added_options = (*JAVA_OPTIONS, *SMALL_JAVA_OPTIONS) if is_small_audit() else JAVA_OPTIONS
    with (
        as_file(files("auditor") / "log4j2.properties") as log_settings,
        _redirect_output(log_path),
        _scratch_parent() as java_directory_option,
        ThreadPoolExecutor(1, "beside") as import_thread,
    ):
        # Java takes seconds to start. Meanwhile Python loads pandas, which the first table needs.
        import_thread.submit(import_module, "pandas")
        class_archive_options = archive_options(java, make=keep_classes and log_path is not None)
        options = (
            f"-Dlog4j2.configurationFile={log_settings.as_uri()}",
            java_directory_option,
            *added_options,
            *class_archive_options,
        )
        builder = builder.config("spark.driver.extraJavaOptions", " ".join(options))
        session = _start_session(builder, settings.get("spark.master", "Spark"), log_path)
    set_log_file(log_path)
    session.sparkContext.setLogLevel("ERROR")
    # A thread of PySpark prints its stack if Java is killed; this program reports that in one line.
    setattr(session.sparkContext._accumulatorServer, "handle_error", lambda *_: None)  # noqa: B010
    return session


def require_classic(session: SparkSession) -> None:
    """Raise an error if the session belongs to Spark Connect.

    Raises:
        UsageError: the session belongs to Spark Connect.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(_NO_CONNECT_ADVICE)


@contextmanager
def _scratch_parent() -> Iterator[str]:
    """Put temporary files into scratch directories, for Spark and for a Java process started in the block.

    If the Java process is killed, the next process can then remove its files. The context manager yields
    the Java option that sets its temporary directory. By default, Java uses /tmp, which may be read-only.

    Raises:
        SparkError: temporary files cannot be written to any directory.
    """
    try:
        scratch_path = make_lasting_directory("spark")
    except OSError as error:
        raise SparkError(
            "Spark does not start: temporary files cannot be written to any directory "
            f"({error.strerror}); set TMPDIR"
        ) from error
    local_dirs = os.environ.get(LOCAL_DIRS_VARIABLE)
    if local_dirs is not None:
        os.environ[LOCAL_DIRS_VARIABLE] = ",".join(map(_make_scratch_below, local_dirs.split(",")))
    try:
        yield shlex.quote(f"-Djava.io.tmpdir={scratch_path}")
    finally:
        if local_dirs is not None:
            os.environ[LOCAL_DIRS_VARIABLE] = local_dirs


def _make_scratch_below(directory: str) -> str:
    try:
        return make_lasting_directory("spark", Path(directory.strip()))
    except OSError:
        return directory  # Spark creates the directory, or reports why it cannot


def _start_session(builder: SparkSession.Builder, master_name: str, log_path: Path | None) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with java_ends_with_failure():
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        error_lines = str(error).strip().splitlines() or [type(error).__name__]
        # For an error in Java the second line has the message, after the class.
        message = next(
            (error_line for error_line in error_lines[1:] if error_line.startswith(": ")), error_lines[0]
        ).removeprefix(": ")
        log_hint = f"; its output is in {log_path}" if log_path is not None else ""
        raise SparkError(f"Spark on {master_name} does not start: {message}{log_hint}") from error


def check_master(master: str) -> None:
    """Raise an error if no session can be started on this master.

    >>> check_master("local[*]")
    >>> check_master("locl[2]")
    Traceback (most recent call last):
    auditor.errors.UsageError: master: 'locl[2]' is not one of local[N], spark://HOST:PORT, yarn, k8s://URL

    Raises:
        UsageError: the kind of master is unknown, or it is yarn and there is no Hadoop configuration.
        SparkError: no address of a spark:// master answers within five seconds.
    """
    if _LOCAL_MASTER.match(master) or master.startswith("k8s://"):
        return
    if master == "yarn":
        if not any(os.environ.get(variable) for variable in _HADOOP_VARIABLES):
            raise UsageError(
                f"master: yarn needs Hadoop's configuration: set {' or '.join(_HADOOP_VARIABLES)}"
            )
        return
    if not master.startswith(_STANDALONE_PREFIX):
        raise UsageError(f"master: {master!r} is not one of local[N], spark://HOST:PORT, yarn, k8s://URL")
    unreachable_reasons = [
        _unreachable_error(address) for address in master.removeprefix(_STANDALONE_PREFIX).split(",")
    ]
    if all(unreachable_reasons):
        raise SparkError(f"master: {master}: {'; '.join(reason for reason in unreachable_reasons if reason)}")


def _unreachable_error(address: str) -> str | None:
    """Return why no server answers at HOST:PORT, or None if a server answers."""
    host, _, port = address.rpartition(":") if ":" in address else (address, "", str(_DEFAULT_PORT))
    if not port.isdecimal() or not host:
        return f"{address!r} is not HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        return f"{address}: {getattr(error, 'strerror', None) or error}"
    return None


@contextmanager
def _redirect_output(log_path: Path | None) -> Iterator[None]:
    """Redirect standard output of this process and its children to ``log_path``, or to standard error.

    Standard error is the target if ``log_path`` is None. Otherwise, standard error also goes to the file.
    Standard output is only for the report. It may be a pipe. If children could write to it, the reader of the
    pipe would wait until all these children end.
    """
    sys.stdout.flush()
    descriptors = os.dup(1), os.dup(2)
    try:
        if log_path is not None:
            log_path.parent.mkdir(parents=True, exist_ok=True)
            with log_path.open("ab") as log_stream:
                os.dup2(log_stream.fileno(), 2)
        os.dup2(2, 1)
        yield
    finally:
        for descriptor_number, descriptor_copy in zip((1, 2), descriptors, strict=True):
            os.dup2(descriptor_copy, descriptor_number)
            os.close(descriptor_copy)
