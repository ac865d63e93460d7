"""Files that may be packed with gzip or zstd, read as what they hold, a piece at a time.

    offset  bytes          packed with
    0       1f 8b          gzip
    0       28 b5 2f fd    zstd

The bytes decide, never the name. Offsets are those of what a file holds. A packed file is unpacked from its
beginning to be read anywhere. Where it is cut or damaged, what comes before is read, and
`UnpackedFile.damage` says what is wrong with the rest.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.sources.regular_file import open_regular

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from typing_extensions import Buffer

GZIP, ZSTD = "gzip", "zstd"

PIECE = 1 << 16
"""Bytes that are unpacked at a time; the same in every pass, so that damage shows at the same offset."""

UNPACKED_TIMES, UNPACKED_FREE = 250, 64 << 20
"""A file that holds more than so many times its own bytes, and so many bytes besides, is none of metadata."""

_STEP = 4096  # bytes of a packed file that are given to the decoder at a time: damage loses what one holds
_TAIL = 64  # the last bytes of a packed file, among them its checksum, are given one by one

_MAGICS = {b"\x1f\x8b": GZIP, b"\x28\xb5\x2f\xfd": ZSTD}


def packing(head: bytes) -> str | None:
    r"""What a file that begins with ``head`` is packed with: gzip, zstd, or None.

    >>> packing(b"\x1f\x8b\x08"), packing(b"{")
    ('gzip', None)
    """
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)


def packing_of(path: Path) -> str | None:
    """What a file is packed with, by its first bytes. Raises OSError."""
    with open_regular(path) as file:
        return packing(file.read(4))


def most_unpacked(packed: int) -> int:
    """How many bytes a packed file of so many may hold.

    >>> most_unpacked(1000)
    67358864
    """
    return UNPACKED_FREE + UNPACKED_TIMES * packed


class _Steps(io.RawIOBase):
    """A packed file in small steps: the decoder forgets what it made of a step in which it finds damage."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = open_regular(path)
        self._tail = path.stat().st_size - _TAIL

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """A few bytes, fewer than wanted; none at the end."""
        left = self._tail - self._file.tell()
        return self._file.read(min(left, _STEP) if left > 0 else 1)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        super().close()


class UnpackedFile(io.RawIOBase):
    """What a file packed with ``kind`` holds, from its beginning on; at ``damage`` it ends."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__()
        self.damage: str | None = None
        self._path = path
        self.kind = kind
        self._stream = _stream(path, kind)
        self._pieces = 0
        self._most = most_unpacked(path.stat().st_size)
        self._left = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a part of ``buffer``; 0 at the end, which may be where the damage is."""
        view = memoryview(buffer).cast("B")
        if not self._left and self.damage is None:
            try:
                self._left = self._stream.read(PIECE)
                self._pieces += 1
                if self._pieces * PIECE > self._most:
                    self.damage = f"the {self.kind} stream holds more than {self._most:,} bytes"
            except OSError as error:
                self.damage = f"the {self.kind} stream is cut or damaged ({error})"
                self._left = self._rest()
        taken = self._left[: len(view)]
        self._left = self._left[len(taken) :]
        view[: len(taken)] = taken
        return len(taken)

    def _rest(self) -> bytes:
        """What lies between the last whole piece and the damage, read byte by byte."""
        rest = bytearray()
        with _stream(self._path, self.kind) as again:
            for _ in range(self._pieces):
                again.read(PIECE)
            try:
                while octet := again.read(1):
                    rest += octet
            except OSError:
                pass  # the damage that is known
        return bytes(rest)

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()
        super().close()


def _stream(path: Path, kind: str) -> NativeFile:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(_Steps(path), "r"), kind)


@contextmanager
def open_packed(path: Path, offset: int = 0) -> Iterator[tuple[io.BufferedReader[Any], UnpackedFile | None]]:
    """A file from ``offset`` on; where it is packed, unpacked, and what knows of damage. Raises OSError."""
    kind = packing_of(path)
    if kind is None:
        with open_regular(path) as file:
            file.seek(offset)
            yield file, None
        return
    unpacked = UnpackedFile(path, kind)
    with io.BufferedReader(unpacked, PIECE) as reader:
        while offset and (passed := len(reader.read(min(offset, PIECE)))):
            offset -= passed
        yield reader, unpacked


def held_bytes(path: Path) -> int:
    """How many bytes a file holds, unpacked. Reads a packed file to its end. Raises OSError.

    One more where it is damaged, so that who reads as far as this comes to the damage.
    """
    if packing_of(path) is None:
        return path.stat().st_size
    size = 0
    with open_packed(path) as (file, unpacked):
        while passed := len(file.read(PIECE)):
            size += passed
    return size + (unpacked is not None and unpacked.damage is not None)
