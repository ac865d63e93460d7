"""Errors of object stores, such as a wrong key, missing permissions, or a bucket that does not exist.

For these errors, pyarrow raises an OSError without an error number, as it does for damaged files. But the
text of an error from an object store names the service.
"""

from __future__ import annotations

import re
from typing import Any

from auditor.errors import FileSystemError

_SERVICE_PATTERN = re.compile(
    r"AWS Error |google::cloud::Status|Azure Error|Bucket '[^']*' not found|[Nn]etwork connection|curlCode"
)
_REQUEST_ID_PATTERN = re.compile(r" ?\(Request ID: [^)]*\)")
_OBJECT_STORE_TYPES = ("s3", "gcs", "abfs")

_checked_buckets: set[tuple[str, str]] = set()
"""Buckets that this process has checked, as (type of the file system, bucket)."""


def service_error_text(error: object) -> str | None:
    """Return the message of an object store's error in one line.

    Return None if the error does not come from an object store.

    >>> error = OSError("When listing: AWS Error ACCESS_DENIED during List: Denied (Request ID: x1)")
    >>> service_error_text(error)
    'When listing: AWS Error ACCESS_DENIED during List: Denied'
    >>> service_error_text(OSError("Parquet magic bytes not found in footer")) is None
    True
    """
    error_text = str(error)
    if not isinstance(error, OSError) or not _SERVICE_PATTERN.search(error_text):
        return None
    return _REQUEST_ID_PATTERN.sub("", error_text.strip().splitlines()[0])


def require_bucket(path: str, files: Any, path_in_files: str) -> None:
    """Refuse a path if its bucket does not exist, or cannot be read with the given credentials.

    Each process checks a bucket only once. Permission to list a part of the bucket is enough.

    Args:
        path: path as the user wrote it.
        files: pyarrow file system of the path.
        path_in_files: path within that file system.

    Raises:
        FileSystemError: the bucket does not exist or may not be read. The message quotes the service.
    """
    bucket = path_in_files.partition("/")[0]
    if files.type_name not in _OBJECT_STORE_TYPES or (files.type_name, bucket) in _checked_buckets:
        return
    from pyarrow import fs

    try:
        has_bucket = files.get_file_info(bucket).type != fs.FileType.NotFound
    except OSError:
        # The answer to HEAD has no message. A listing has one, or shows that a part is readable.
        has_bucket = _can_list(path, files, path_in_files)
    if not has_bucket:
        raise FileSystemError(
            f"{path}: there is no bucket {bucket}; check the name, the endpoint and the region"
        )
    _checked_buckets.add((files.type_name, bucket))


def _can_list(path: str, files: Any, path_in_files: str) -> bool:
    from pyarrow import fs

    try:
        files.get_file_info(fs.FileSelector(path_in_files, allow_not_found=True))
    except OSError as error:
        raise FileSystemError(f"{path}: {service_error_text(error) or error}") from error
    return True
