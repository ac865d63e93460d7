"""Files of saved metadata. They are recognised by their first bytes, and unpacked while they are read.

    offset  bytes                       kind
    0       1f 8b                       gzip, which is unpacked
    0       28 b5 2f fd                 zstd, which is unpacked
    0       "ZKSN", "ZKLG"              ZooKeeper's snapshot, transaction log
    16      ed da 0c ed                 bbolt, the format of etcd's database (little endian)
    0       "PAR1"                      Parquet
    0       "SQLite format 3" 00        SQLite
    0       89 "PNG"                    PNG
    0       "PK" 03 04                  zip
    0       fd "7zXZ" 00, "BZh"         xz, bzip2
    257     "ustar"                     tar

Only the bytes of a file decide its kind, never its name. Offsets count unpacked bytes. To read a packed
file at an offset, the program unpacks it from its beginning. If the file is cut off or damaged, the bytes
before the damage are read, and `UnpackedFile.damage` describes the damage.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.regular_file import NotRegularError, open_regular

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from typing_extensions import Buffer

GZIP, ZSTD = "gzip", "zstd"

UNPACK_STEP_BYTES = 1 << 16
"""Number of bytes to unpack at a time. It is the same for every pass, so damage appears at the same offset.
"""

MAX_UNPACK_FACTOR, UNPACK_ALLOWANCE_BYTES = 250, 64 << 20
"""Largest unpacked size (`max_unpacked_bytes`): a multiple of the packed size, plus a number of bytes.

A file with a larger unpacked size is not metadata.
"""

_PACKED_STEP_BYTES = 4096  # packed bytes to decode at a time; damage loses the output of one step
_TAIL_BYTES = 64  # the last packed bytes, with the checksum, are decoded one by one

_COMPRESSION_BY_MAGIC = {b"\x1f\x8b": GZIP, b"\x28\xb5\x2f\xfd": ZSTD}


def detect_packing(first_bytes: bytes) -> str | None:
    r"""Return how a file that begins with ``first_bytes`` is packed: gzip, zstd, or None if it is not packed.

    >>> detect_packing(b"\x1f\x8b\x08"), detect_packing(b"{")
    ('gzip', None)
    """
    return next(
        (
            compression
            for magic_bytes, compression in _COMPRESSION_BY_MAGIC.items()
            if first_bytes.startswith(magic_bytes)
        ),
        None,
    )


def file_packing(path: Path) -> str | None:
    """Return how a file is packed, judging by its first bytes; see `detect_packing`. Raises OSError."""
    with open_regular(path) as file:
        return detect_packing(file.read(4))


def max_unpacked_bytes(packed_bytes: int) -> int:
    """Return the largest unpacked size that is accepted for a file of ``packed_bytes`` bytes, in bytes.

    >>> max_unpacked_bytes(1000)
    67358864
    """
    return UNPACK_ALLOWANCE_BYTES + MAX_UNPACK_FACTOR * packed_bytes


class _ChunkedReader(io.RawIOBase):
    """A packed file that is read in small steps.

    If a decoder finds damage, it loses the output of its current step. Small steps make this loss small.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = open_regular(path)
        self._tail_offset = path.stat().st_size - _TAIL_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next few bytes, or no bytes at the end of the file. ``size`` is ignored."""
        remaining_bytes = self._tail_offset - self._file.tell()
        return self._file.read(min(remaining_bytes, _PACKED_STEP_BYTES) if remaining_bytes > 0 else 1)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


class UnpackedFile(io.RawIOBase):
    """The unpacked content of a packed file. ``kind`` is gzip or zstd.

    The content ends at the first damage.
    """

    def __init__(self, path: Path, compression: str) -> None:
        super().__init__()
        self.damage: str | None = None
        self._path = path
        self.kind = compression
        self._stream = _open_stream(path, compression)
        self._step_count = 0
        self._max_bytes = max_unpacked_bytes(path.stat().st_size)
        self._pending_bytes = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a part of ``buffer``, and return the number of bytes in this part.

        Return 0 at the end of the file, or at the damage.
        """
        target_view = memoryview(buffer).cast("B")
        if not self._pending_bytes and self.damage is None:
            try:
                self._pending_bytes = self._stream.read(UNPACK_STEP_BYTES)
                self._step_count += 1
                if self._step_count * UNPACK_STEP_BYTES > self._max_bytes:
                    self.damage = f"the {self.kind} stream contains more than {self._max_bytes:,} bytes"
            except OSError as error:
                self.damage = f"the {self.kind} stream is cut off or damaged ({error})"
                self._pending_bytes = self._read_bytewise()
        next_bytes = self._pending_bytes[: len(target_view)]
        self._pending_bytes = self._pending_bytes[len(next_bytes) :]
        target_view[: len(next_bytes)] = next_bytes
        return len(next_bytes)

    def _read_bytewise(self) -> bytes:
        """Read the bytes after the last whole step one by one, up to the damage, and return them."""
        unpacked_bytes = bytearray()
        with _open_stream(self._path, self.kind) as stream:
            for _ in range(self._step_count):
                stream.read(UNPACK_STEP_BYTES)
            try:
                while single_byte := stream.read(1):
                    unpacked_bytes += single_byte
            except OSError:
                pass  # the same damage again
        return bytes(unpacked_bytes)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def _open_stream(path: Path, compression: str) -> NativeFile:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(_ChunkedReader(path), "r"), compression)


@contextmanager
def open_packed(path: Path, offset: int = 0) -> Iterator[tuple[io.BufferedReader[Any], UnpackedFile | None]]:
    """Open a file at an offset in its unpacked content. Raises OSError.

    Yields:
        The stream, and the `UnpackedFile` that reports damage. The latter is None if the file is not
            packed.
    """
    compression = file_packing(path)
    if compression is None:
        with open_regular(path) as file:
            file.seek(offset)
            yield file, None
        return
    unpacked_file = UnpackedFile(path, compression)
    with io.BufferedReader(unpacked_file, UNPACK_STEP_BYTES) as reader:
        while offset and (read_length := len(reader.read(min(offset, UNPACK_STEP_BYTES)))):
            offset -= read_length
        yield reader, unpacked_file


def unpacked_size(path: Path) -> int:
    """Return the unpacked size of a file, in bytes. Raises OSError.

    A packed file is read to its end. For a damaged file, the result is one byte larger than the readable
    content. So a caller that reads this many bytes reaches the damage.
    """
    if file_packing(path) is None:
        return path.stat().st_size
    size = 0
    with open_packed(path) as (file, unpacked_file):
        while read_length := len(file.read(UNPACK_STEP_BYTES)):
            size += read_length
    return size + (unpacked_file is not None and unpacked_file.damage is not None)


HEAD_BYTES = 4096
"""Number of bytes at the beginning of a file that decide its kind."""


class FileKind(NamedTuple):
    """The apparent kind of a file, as a text, and advice on how to read such a file.

    ``advice`` is None if there is no advice.
    """

    kind_text: str
    advice: str | None = None


_DIRECTORY_ADVICE = "pass its directory as zk-snapshot:///DIRECTORY?root=/ledgers"
_UNPACK_ADVICE = "unpack it first"
BBOLT = FileKind("a bbolt database, the format of etcd", "pass it as etcd-snapshot:///FILE?scope=/ledgers")
_KINDS_BY_MAGIC: tuple[tuple[int, bytes, FileKind], ...] = (
    (0, b"ZKSN", FileKind("a ZooKeeper snapshot", _DIRECTORY_ADVICE)),
    (0, b"ZKLG", FileKind("a ZooKeeper transaction log", _DIRECTORY_ADVICE)),
    (16, b"\xed\xda\x0c\xed", BBOLT),
    (0, b"PAR1", FileKind("a Parquet file")),
    (0, b"SQLite format 3\0", FileKind("an SQLite database")),
    (0, b"\x89PNG", FileKind("a PNG picture")),
    (0, b"PK\x03\x04", FileKind("a zip archive", _UNPACK_ADVICE)),
    (0, b"\xfd7zXZ\0", FileKind("an xz archive", _UNPACK_ADVICE)),
    (0, b"BZh", FileKind("a bzip2 archive", _UNPACK_ADVICE)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK_ADVICE)),
)
_BINARY_KINDS = frozenset(kind for _, _, kind in _KINDS_BY_MAGIC)
_DUMP_KIND = FileKind("a dump", "pass it as dump:///FILE?root=/ledgers")


def kind_of_bytes(first_bytes: bytes) -> FileKind:
    r"""Return the apparent kind of a file that begins with ``first_bytes``.

    >>> [kind_of_bytes(first_bytes).kind_text for first_bytes in (b"PAR1...", b"", b"\x80\xff\x00")]
    ['a Parquet file', 'empty', 'binary data of a kind that this program does not know']
    """
    if not first_bytes:
        return FileKind("empty")
    for offset, magic_bytes, kind in _KINDS_BY_MAGIC:
        if first_bytes[offset : offset + len(magic_bytes)] == magic_bytes:
            return kind
    if first_bytes.startswith(b'{"path"'):
        return _DUMP_KIND
    first_text = first_bytes.decode("utf-8", "ignore")
    # The head may end within a character of up to four bytes.
    if len(first_text.encode()) < len(first_bytes) - 3 or any(
        ord(character) < 32 and character not in "\t\n\r\f" for character in first_text
    ):
        return FileKind("binary data of a kind that this program does not know")
    return FileKind("text, but not a dump")


def is_binary(kind: FileKind) -> bool:
    """Return whether a kind was recognised by the first bytes of a known binary format."""
    return kind in _BINARY_KINDS


def file_kind(path: Path) -> FileKind:
    """Return the apparent kind of the file at ``path``. Raises OSError.

    For a packed file, return the kind of its content.
    """
    if path.is_dir():
        version_directory = path / "version-2"
        if any((version_directory if version_directory.is_dir() else path).glob("snapshot.*")):
            return FileKind(
                "a directory of ZooKeeper snapshots", "pass it as zk-snapshot:///DIRECTORY?root=/ledgers"
            )
        return FileKind("a directory")
    try:
        with open_packed(path) as (file, unpacked_file):
            kind = kind_of_bytes(file.read(HEAD_BYTES))
    except NotRegularError as error:
        return FileKind(error.strerror)
    if unpacked_file is None:
        return kind
    if unpacked_file.damage and kind.kind_text == "empty":
        return FileKind(f"compressed with {unpacked_file.kind}, and cut off or damaged before its first byte")
    return kind._replace(kind_text=f"{kind.kind_text}, compressed with {unpacked_file.kind}")


def wrong_kind_text(expected_kind: str, path: Path, default_advice: str) -> str:
    """Return the message for a file that is not of the kind ``expected_kind``.

    The message contains advice for the apparent kind of the file. If there is no such advice, it contains
    ``default_advice``.
    """
    try:
        kind = file_kind(path)
    except OSError as error:
        return f"cannot read {path}: {error.strerror or error}"
    return f"{path} is not {expected_kind}: it seems to be {kind.kind_text}; {kind.advice or default_advice}"


StoreContent = TypeVar("StoreContent")
"""Type of the data that a store reads from its files and keeps in memory, on the driver."""


class SavedStore(ABC, Generic[StoreContent]):
    """Base class of stores that read metadata from files.

    ``_path`` is the file or the directory. At its first use, the store calls `_read_files`. It keeps the
    result until `close`.
    """

    live = False

    def __init__(self, uri: MetadataUri) -> None:
        self.uri = uri
        self.root = uri.root
        self._path = Path(uri.path)
        self._content: StoreContent | None = None

    @abstractmethod
    def _read_files(self) -> StoreContent:
        """Read the files, on the driver, and return the data to keep in memory."""

    def has_lost_moment(self) -> bool:
        """Return False, because saved files do not change."""
        return False

    def close(self) -> None:
        """Drop the data that was read. If the store is used again, it reads the files again."""
        self._content = None

    def _load(self) -> StoreContent:
        if self._content is None:
            self._content = self._read_files()
        return self._content
