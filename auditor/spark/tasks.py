"""Spark's tasks as the driver sees them: their progress and their errors."""

import errno
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyarrow.fs import FileSystem

from auditor.errors import (
    AuditorError,
    DiskFullError,
    FileSystemError,
    SparkError,
    UsageError,
    error_in_traceback,
)
from auditor.model.progress import Progress, SilentProgress
from auditor.spark.java_process import describe_java_end, describe_log
from auditor.spark.types import SparkSession

_POLL_SECONDS = 0.5
"""Interval at which the driver looks at the tasks, in seconds."""


@contextmanager
def restore_task_errors() -> Iterator[None]:
    """Replace Spark's report of a failed task with the error that the task raised.

    Tasks run in other processes, and only the text of their errors comes back to the driver. Without this
    function, it would look like a bug if a metadata store stops during a scan. All other errors pass
    unchanged.

    Raises:
        AuditorError: the error of the task, as an instance of the same class.
    """
    try:
        yield
    except AuditorError:
        raise
    except Exception as error:
        if (python_error := error_in_traceback(str(error))) is None:
            raise
        raise python_error from error


DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers for a full disk, and for a disk quota that a user has used up."""
_FULL_DISK_TEXT = re.compile("No space left on device|Disk quota exceeded")
_LOST_PROCESS_TEXT = re.compile(
    "Answer from Java side is empty|trying to connect to the Java server|Error while sending or receiving"
    "|Cannot call methods on a stopped SparkContext|Java gateway process exited"
)

_KILLED_TEXT = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|Python worker failed to connect"
)


HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Maven package of Hadoop's classes for S3, in the version of Hadoop that PySpark 4.3 has."""
_MISSING_SCHEME_PATTERN = re.compile(r'No FileSystem for scheme "?(\w+)')
# Missing classes of Hadoop's file systems, or of Amazon's library for S3.
_MISSING_CLASS_PATTERN = re.compile(
    r"Class (org\.apache\.hadoop\.fs\.[\w.$]+) not found"
    r"|(?:ClassNotFoundException|NoClassDefFoundError): (software[./]amazon[\w./$]+)"
)
_ACCESS_DENIED = re.compile(r"java\.nio\.file\.AccessDeniedException: (.*)")


@contextmanager
def translate_file_system_errors(path: str) -> Iterator[None]:
    """If Spark cannot use the file system of ``path``, replace its error with one that says what to do.

    Spark and pyarrow use different file systems and credentials. So Spark may fail where pyarrow succeeds.

    Raises:
        UsageError: Spark has no classes for the file system.
        FileSystemError: the file system denies access to Spark.
    """
    try:
        yield
    except AuditorError:
        raise
    except Exception as error:
        error_text = str(error)
        if (
            class_match := _MISSING_CLASS_PATTERN.search(error_text)
            or _MISSING_SCHEME_PATTERN.search(error_text)
        ) is not None:
            missing_class = next(filter(None, class_match.groups()))
            raise UsageError(
                f"{path}: Spark has no file system for this path: {_missing_class_advice(missing_class)}"
            ) from error
        if (denied_access := _ACCESS_DENIED.search(error_text)) is not None:
            raise FileSystemError(
                f"{path}: access denied to Spark: {denied_access[1]}; Spark needs its own credentials "
                "(docs/operate.md, Object stores)"
            ) from error
        raise


def _missing_class_advice(missing_class: str) -> str:
    if missing_class == "s3":
        return "Spark uses the scheme s3a://; use it in the URI"
    if ".s3a." in missing_class or missing_class.startswith("software"):
        return (
            f"S3 needs the package {HADOOP_AWS} and its dependencies (docs/operate.md, Object "
            "stores). Run the same command again with spark.jars.packages set to this package"
        )
    return f"Spark has no class {missing_class}; set spark.jars.packages to a package that contains it"


@contextmanager
def translate_run_errors(run_path: str) -> Iterator[None]:
    """Replace an error that ends a whole run with one that says what to do.

    The possible causes are a full disk, the end of Spark, and the file system of the run. A message states
    a cause only if there is evidence for it. A broken connection does not prove that the process at its
    other end has ended.

    Raises:
        DiskFullError: no space is left for the run or for Spark's scratch files.
        SparkError: Spark's Java process has ended, does not answer, or had its context stopped; or a Python
            process of its tasks has ended.
        UsageError: Spark has no classes for the file system of the run.
        FileSystemError: the file system of the run denies access to Spark.
    """
    try:
        with translate_file_system_errors(run_path):
            yield
    except AuditorError:
        raise
    except ConnectionError as error:
        if (java_end_text := describe_java_end()) is None:
            raise  # Java still runs, so it was another connection
        raise SparkError(_java_ended_error(java_end_text)) from error
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        full_disk_path = (
            f"{error.filename}: {error.strerror}" if error.filename else _disk_full_text(run_path)
        )
        raise DiskFullError(_disk_full_error(full_disk_path)) from error
    except Exception as error:
        error_text = str(error)
        if _FULL_DISK_TEXT.search(error_text):
            raise DiskFullError(_disk_full_error(_disk_full_text(run_path))) from error
        if (loss_match := _LOST_PROCESS_TEXT.search(error_text)) is not None:
            raise SparkError(_java_failure(loss_match[0])) from error
        if _KILLED_TEXT.search(error_text):
            raise SparkError(
                f"Spark: a Python process of its tasks ended without an error.{describe_log()} Check in the "
                f"kernel's log whether it was killed for lack of memory. {_RETRY_TEXT}"
            ) from error
        raise


_RETRY_TEXT = "Run the same command again to continue this run."


def _java_failure(error_sentence: str) -> str:
    if (java_end_text := describe_java_end()) is not None:
        return _java_ended_error(java_end_text)
    failure_text = f"{error_sentence[:1].lower()}{error_sentence[1:]}"
    return (
        f"Spark: {failure_text}, although its Java process does not seem to have ended."
        f"{describe_log()} {_RETRY_TEXT}"
    )


def _java_ended_error(java_end_text: str) -> str:
    return f"Spark: its Java process {java_end_text}.{describe_log()} {_RETRY_TEXT}"


def _disk_full_text(run_path: str) -> str:
    scratch_path = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    return f"no space is left in {run_path}, or in {scratch_path}, where Spark keeps its scratch files"


def _disk_full_error(failure_text: str) -> str:
    return f"{failure_text}. Free some space, and run the same command again: it keeps all complete tables"


def require_shared(spark: SparkSession, files: FileSystem, path: str) -> None:
    """Raise an error if Spark's executors do not see a local directory.

    Without this check, each executor would write its part of a table to its own disk. The driver would then
    find a table without rows. The function checks nothing if tasks run in the driver's process, or if the
    file system is not local.

    Raises:
        UsageError: a task does not see the directory.
    """
    master = str(spark.sparkContext.master)
    if files.type_name != "local" or master.startswith("local"):
        return
    Path(path).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path) as probe_file:
        is_shared = _probe_from_tasks(spark, probe_file.name)
    if not is_shared:
        raise UsageError(
            f"{path}: executors of {master} do not see this directory. Pass one that all of them share, or "
            "an s3a:// or hdfs:// URI (docs/operate.md, Under spark-submit)"
        )


def _probe_from_tasks(spark: SparkSession, path: str) -> bool:
    """Return whether ``path`` exists for every task. The function starts enough tasks to use each core."""

    def probe_path(number_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in number_batches:
            yield pa.record_batch({"seen": [Path(path).exists()] * batch.num_rows})

    task_count = 2 * spark.sparkContext.defaultParallelism
    return all(
        probe_row["seen"]
        for probe_row in spark.range(0, task_count, 1, task_count)
        .mapInArrow(probe_path, "seen boolean")
        .collect()
    )


@contextmanager
def report_tasks(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Report the numbers of all and of completed tasks to ``progress`` while the block runs.

    If ``progress`` is `SilentProgress`, do nothing.
    """
    if isinstance(progress, SilentProgress):
        yield
        return
    stop_event = threading.Event()
    progress_thread = threading.Thread(
        target=_report_progress, args=(spark, progress, stop_event), daemon=True
    )
    progress_thread.start()
    try:
        yield
    finally:
        stop_event.set()
        progress_thread.join()


def _report_progress(spark: SparkSession, progress: Progress, stop_event: threading.Event) -> None:
    from py4j.protocol import Py4JError

    tasks_by_stage: dict[int, int] = {}
    with suppress(Py4JError, OSError):  # Java has ended; the caller that waits for the tasks gets the error
        status_tracker = spark.sparkContext.statusTracker()
        while not stop_event.wait(_POLL_SECONDS):
            for stage_id in status_tracker.getActiveStageIds():
                stage = status_tracker.getStageInfo(stage_id)
                if stage is None:
                    continue
                if stage_id not in tasks_by_stage:
                    progress.expect(stage.numTasks)
                progress.advance(stage.numCompletedTasks - tasks_by_stage.get(stage_id, 0))
                tasks_by_stage[stage_id] = stage.numCompletedTasks


@contextmanager
def cancel_queries_on_error(session: SparkSession) -> Iterator[None]:
    """Cancel the running queries of the audit's own ``session`` if the block fails or is interrupted.

    Without this, Java goes on with a query whose caller was interrupted. Queries of other sessions of the
    same context continue.
    """
    from py4j.protocol import Py4JError

    try:
        yield
    except BaseException:
        with suppress(Py4JError, OSError):  # Java may be what has failed
            session.interruptAll()
        raise
