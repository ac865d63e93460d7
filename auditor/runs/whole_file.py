"""Atomic writes of files that other programs may read at any time."""

import glob
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from auditor.errors import name_file_in_errors
from auditor.sources.file_systems import run_files

LEFTOVER_SECONDS = 86_400.0
"""Age in seconds above which a temporary file counts as abandoned and is deleted."""


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Replace the file ``path`` atomically by a file that ``write`` fills.

    The new file is written beside ``path`` and renamed once it is on disk. If ``write`` or the rename fails,
    the old file stays unchanged. A device or pipe is written directly. ``path`` may be a URI that `run_files`
    supports.

    Raises:
        OSError: the file cannot be written. Any error of ``write`` is raised too.
    """
    if "://" in path:
        files, file_path = run_files(path)
        with name_file_in_errors(path), files.open_output_stream(f"{file_path}.part") as output_stream:
            write(output_stream)
        files.move(f"{file_path}.part", file_path)
        return
    with suppress(FileNotFoundError):
        Path(path).stat()  # raises ELOOP for a link to itself, of which resolve() has another error, or none
    target_path = Path(path).resolve()  # what a link points to is replaced, not the link
    if target_path.exists() and not target_path.is_file():
        with name_file_in_errors(target_path), target_path.open("wb") as output_stream:
            write(output_stream)
        return
    for leftover_file in target_path.parent.glob(f".{glob.escape(target_path.name)}.{'[0-9a-f]' * 8}.part"):
        if time.time() - leftover_file.lstat().st_mtime > LEFTOVER_SECONDS:  # of a process that was killed
            leftover_file.unlink(missing_ok=True)
    part_file = target_path.with_name(f".{target_path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with name_file_in_errors(target_path), part_file.open("xb") as output_stream:
            write(output_stream)
            output_stream.flush()
            os.fsync(output_stream.fileno())
        part_file.replace(target_path)
    except OSError as error:
        if error.filename == str(part_file):
            error.filename = str(target_path)  # which the user named
        raise
    finally:
        part_file.unlink(missing_ok=True)
