"""The file system of a run directory: for the one that writes it and the one that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.errors import RunError

REPORT = "report.json"
"""Written last: a run that has one is whole."""


def run_files(path: str) -> tuple[Any, str]:
    """The pyarrow file system that a run lies on, and its path there; a path without a scheme is local.

    Raises `RunError` where there is no such file system. pyarrow is imported here: opening a run is the
    first thing that needs it.
    """
    import pyarrow as pa
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        # Spark says s3a where pyarrow says s3.
        files, base = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1).rstrip("/"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RunError(f"{path}: no file system for it: {error}") from error
    return files, base
