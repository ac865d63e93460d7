"""The files in a ZooKeeper server's version-2 directory: their names and their content.

A snapshot is named ``snapshot.<zxid>``. The zxid is that of the last transaction before the server began to
write the snapshot. The name may also end with ``.gz`` or ``.snappy``. A transaction log is named
``log.<zxid>``. The zxid is that of the first transaction in the log. Zxids in names are in hex.
"""

from __future__ import annotations

import gzip
import mmap
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from auditor.codecs.zookeeper import encodings
from auditor.errors import DecodeError, StoreError
from auditor.sources.metadata.saved_files import max_unpacked_bytes, wrong_kind_text
from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.regular_file import NotRegularError, open_regular

_FILE_NAME = re.compile(r"(snapshot|log)\.([0-9a-f]{1,16})(\.gz|\.snappy)?")
_COPY_BYTES = 1024 * 1024


class ZxidFile(NamedTuple):
    """A snapshot or log file, and the zxid in its name."""

    zxid: int
    path: Path


def snapshots_and_logs(directory: Path) -> tuple[list[ZxidFile], list[ZxidFile]]:
    """Return the snapshots, newest first, and the logs, oldest first.

    The files are in ``directory``, or in the directory ``version-2`` inside it.

    Raises:
        StoreError: the directory cannot be listed, or has no snapshot.
    """
    files_by_kind: dict[str, list[ZxidFile]] = {"snapshot": [], "log": []}
    try:
        version_directory = directory / "version-2"
        for path in (version_directory if version_directory.is_dir() else directory).iterdir():
            name_match = _FILE_NAME.fullmatch(path.name)
            if name_match and (name_match[1] == "snapshot" or not name_match[3]):
                files_by_kind[name_match[1]].append(ZxidFile(int(name_match[2], 16), path))
    except OSError as error:
        if directory.is_file():
            raise StoreError(_no_snapshots_message(directory)) from error
        raise StoreError(f"cannot read the snapshot directory {directory}: {error.strerror}") from error
    if not files_by_kind["snapshot"]:
        raise StoreError(
            f"{directory} contains no file snapshot.<zxid>; pass a ZooKeeper server's version-2 directory"
        )
    return sorted(files_by_kind["snapshot"], reverse=True), sorted(files_by_kind["log"])


def recognise(metadata_uri: MetadataUri) -> None:
    """Check that at least one snapshot file in the directory begins like a ZooKeeper snapshot.

    Raises:
        StoreError: no snapshot file begins like that, or `snapshots_and_logs` fails.
    """
    snapshots, _ = snapshots_and_logs(Path(metadata_uri.path))
    if not any(_begins_like_a_snapshot(path) for _, path in snapshots):
        raise StoreError(_no_snapshots_message(snapshots[0].path))


def _no_snapshots_message(path: Path) -> str:
    return wrong_kind_text("a ZooKeeper snapshot", path, "pass a ZooKeeper server's version-2 directory")


def _begins_like_a_snapshot(path: Path) -> bool:
    magic_bytes = {".gz": b"\x1f\x8b", ".snappy": encodings.MAGIC}.get(path.suffix, b"ZKSN")
    try:
        with open_regular(path) as file:
            return file.read(len(magic_bytes)) == magic_bytes
    except NotRegularError:
        return False
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def map_file(path: Path) -> Iterator[memoryview]:
    """Map a file into memory.

    A compressed file is first unpacked into a temporary file that has no name.

    Raises:
        DecodeError: the compressed data is damaged, or the path is not a regular file.
        StoreError: the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            if path.suffix not in (".gz", ".snappy"):
                yield _map_bytes(file)
                return
            with tempfile.TemporaryFile() as unpacked_file:
                _unpack_stream(file, path.suffix, unpacked_file)
                unpacked_file.flush()
                yield _map_bytes(unpacked_file)
    except NotRegularError as error:
        raise DecodeError("file", 0, error.strerror) from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


def _unpack_stream(file: IO[bytes], suffix: str, unpacked_file: IO[bytes]) -> None:
    if suffix == ".snappy":
        for unpacked_block in encodings.decompress(file):  # type: ignore[arg-type]  # IO[bytes] is what open() gives
            unpacked_file.write(unpacked_block)
        return
    try:
        max_bytes = max_unpacked_bytes(os.fstat(file.fileno()).st_size)
        with gzip.open(file) as packed_stream:
            while chunk := packed_stream.read(_COPY_BYTES):
                if unpacked_file.tell() > max_bytes:
                    raise DecodeError(
                        "gzip stream", file.tell(), f"the stream contains more than {max_bytes:,} bytes"
                    )
                unpacked_file.write(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DecodeError("gzip stream", file.tell(), str(error)) from error


def _map_bytes(file: IO[bytes]) -> memoryview:
    if file.seek(0, 2) == 0:  # an empty file cannot be mapped
        return memoryview(b"")
    # The map is not closed here: arrays over it can live on in an error's traceback. It needs no open file.
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
