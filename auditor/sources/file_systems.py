"""Access to the file system of a run directory or a collection, and to the table files of earlier runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import FileSystemError, RunError, RunUnreadableError, RunUsageError
from auditor.sources.object_stores import require_bucket, service_error_text
from auditor.sources.regular_file import require_regular

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet as pq


def run_files(path: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a run, and the path of the run in that file system.

    A path without a scheme is a local path. pyarrow is imported inside this function, because opening a run
    is the first step that needs it.

    Raises:
        RunError: no file system exists for the path, or the URI contains a password. (The program shows and
            stores paths, so they must not contain passwords.)
        FileSystemError: an object store refuses the request, or has no such bucket.
    """
    import pyarrow as pa
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), absolute_path(path)
    if _has_password(path):
        raise RunUsageError(
            "the URI of a directory must not contain a password; set the password in the environment"
        )
    try:
        # Spark says s3a where pyarrow says s3.
        normalized_path = f"{path}/".replace("s3a://", "s3://", 1).rstrip("/")
        files, path_in_files = fs.FileSystem.from_uri(
            f"{normalized_path}///" if normalized_path.endswith(":") else normalized_path
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        if (service_message := service_error_text(error)) is not None:
            raise FileSystemError(f"{path}: {service_message}") from error
        raise RunUsageError(f"{path}: no file system found: {_not_found_reason(path, error)}") from error
    require_bucket(path, files, path_in_files)
    return files, path_in_files


def absolute_path(path: str) -> str:
    """Return a local path as an absolute path. Return a URI without the slash at its end."""
    return path.rstrip("/") if "://" in path else str(Path(path).absolute())


def require_file(files: Any, path: str) -> None:
    """Refuse a local path that is not a regular file.

    pyarrow would open such a path, for example a named pipe, and wait. Raises OSError.
    """
    if files.type_name == "local":
        require_regular(path)


def child_of(directory: str | Path, name: str) -> str:
    """Return the path or URI of the entry ``name`` in a directory.

    >>> child_of("runs", "1"), child_of("s3://bucket/", "1"), child_of("/", "1")
    ('runs/1', 's3://bucket/1', '/1')
    """
    return f"{directory}{'' if str(directory).endswith('/') else '/'}{name}"


def parent_of(path: str) -> str | None:
    """Return the parent directory of a path or URI, or None for the root of a file system.

    >>> parent_of("/runs/today/"), parent_of("/today"), parent_of("file:///today")
    ('/runs', '/', 'file:///')
    >>> parent_of("s3://bucket/runs/today"), parent_of("s3://bucket/today"), parent_of("s3://bucket")
    ('s3://bucket/runs', 's3://bucket', None)
    """
    scheme, separator, location = path.rpartition("://")
    location = location.rstrip("/") if separator else str(Path(location).absolute())
    parent, slash, last_name = location.rpartition("/")
    if not slash or not last_name:
        return None
    # A root with a host ("s3://bucket") has no slash; a local root is the slash.
    return f"{scheme}{separator}{parent or '/'}"


def _not_found_reason(path: str, error: Exception) -> str:
    """Return one line that explains why no file system was found for a path.

    For hdfs://, this line replaces pyarrow's message, which lists every place where pyarrow looked for
    libhdfs.
    """
    if path.startswith("hdfs://"):
        return (
            "hdfs:// needs Java and libhdfs.so of a Hadoop installation: set JAVA_HOME, HADOOP_HOME, and "
            'CLASSPATH="$(hadoop classpath --glob)" (docs/operate.md, Object stores)'
        )
    return (str(error).splitlines() or [type(error).__name__])[0]


def _has_password(uri: str) -> bool:
    """Return whether a URI contains a password.

    >>> [_has_password(f"s3://{rest}") for rest in ("KEY:se/cret@bucket/a", "bucket/a@b", "host:80/a@b")]
    [True, False, False]
    """
    location = uri.partition("://")[2]
    user_part, separator, _ = location.partition("@")
    password_part = user_part.partition("/")[0].partition(":")
    port = password_part[2].isdecimal() and "/" in user_part
    return bool(separator and password_part[1]) and not port


@contextmanager
def open_earlier_file(table_directory: str, name: str, schema: pa.Schema) -> Iterator[pq.ParquetFile]:
    """Open the Parquet file ``name`` in the directory of an earlier run's table.

    Reads verify the page checksums. ``table_directory`` is the directory of the table.

    Raises:
        RunError: the file is missing, cut off or damaged, or its columns differ from ``schema``. Reads in
            the caller's ``with`` block raise the same error. The message names the file.
    """
    import pyarrow as pa
    from pyarrow import parquet as pq

    files, path_in_files = run_files(table_directory)
    try:
        require_file(files, f"{path_in_files}/{name}")
        with (
            files.open_input_file(f"{path_in_files}/{name}") as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as file,
        ):
            check_columns(file.schema_arrow, schema)
            yield file
    except (OSError, pa.ArrowException, UnicodeDecodeError, RunError) as error:
        if (service_message := service_error_text(error)) is not None:
            raise RunUnreadableError(f"{table_directory}/{name} cannot be read: {service_message}") from error
        raise RunError(f"{table_directory}/{name}: {error}") from error


def check_columns(actual_schema: pa.Schema, expected_schema: pa.Schema) -> None:
    """Check that a table has exactly the columns of ``expected_schema``, in the same order.

    Raises:
        RunError: a column is missing, is not expected, is in a different place, or has a different type.
    """
    if [(schema_field.name, schema_field.type) for schema_field in actual_schema] != [
        (schema_field.name, schema_field.type) for schema_field in expected_schema
    ]:
        raise RunError("the table's columns differ from those of this version")
