"""What a file that is not what its URI says seems to be, and the way out.

offset  bytes                       kind
0       "ZKSN", "ZKLG"              ZooKeeper's snapshot, transaction log
16      ed da 0c ed                 bbolt, which etcd keeps its keys in (little endian)
0       "PAR1"                      Parquet
0       "SQLite format 3" 00        SQLite
0       89 "PNG"                    PNG
0       "PK" 03 04                  zip
0       fd "7zXZ" 00, "BZh"         xz, bzip2
257     "ustar"                     tar
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from auditor.sources.metadata.packed_file import open_packed
from auditor.sources.regular_file import NotRegularError

HEAD = 4096
"""Bytes that are looked at."""


class FileKind(NamedTuple):
    """What something seems to be, and what to do with it; None where nothing better is known."""

    words: str
    way_out: str | None = None


_DIRECTORY = "zk-snapshot:///DIRECTORY?root=/ledgers reads the directory that it lies in"
_UNPACK = "unpack it first"
BBOLT = FileKind(
    "a bbolt database, as etcd keeps its keys in", "etcd-snapshot:///FILE?scope=/ledgers reads it"
)
_MAGICS: tuple[tuple[int, bytes, FileKind], ...] = (
    (0, b"ZKSN", FileKind("a ZooKeeper snapshot", _DIRECTORY)),
    (0, b"ZKLG", FileKind("a ZooKeeper transaction log", _DIRECTORY)),
    (16, b"\xed\xda\x0c\xed", BBOLT),
    (0, b"PAR1", FileKind("a Parquet file")),
    (0, b"SQLite format 3\0", FileKind("an SQLite database")),
    (0, b"\x89PNG", FileKind("a PNG picture")),
    (0, b"PK\x03\x04", FileKind("a zip archive", _UNPACK)),
    (0, b"\xfd7zXZ\0", FileKind("an xz archive", _UNPACK)),
    (0, b"BZh", FileKind("a bzip2 archive", _UNPACK)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK)),
)
_KNOWN_BINARY = frozenset(kind for _, _, kind in _MAGICS)
_DUMP = FileKind("a dump", "dump:///FILE?root=/ledgers reads it")


def kind_of_bytes(head: bytes) -> FileKind:
    r"""What something that begins with ``head`` seems to be.

    >>> kind_of_bytes(b"PAR1...").words, kind_of_bytes(b"").words, kind_of_bytes(b"\x80\xff\x00").words
    ('a Parquet file', 'empty', 'binary data of a kind that this program does not know')
    """
    if not head:
        return FileKind("empty")
    for at, magic, kind in _MAGICS:
        if head[at : at + len(magic)] == magic:
            return kind
    if head.startswith(b'{"path"'):
        return _DUMP
    text = head.decode("utf-8", "ignore")
    # A character may be cut in two at the end of the head.
    if len(text.encode()) < len(head) - 3 or any(ord(each) < 32 and each not in "\t\n\r\f" for each in text):
        return FileKind("binary data of a kind that this program does not know")
    return FileKind("text, and no dump")


def is_binary(kind: FileKind) -> bool:
    """Whether a magic says that it is a file of some other format."""
    return kind in _KNOWN_BINARY


def file_kind(path: Path) -> FileKind:
    """What the file at ``path`` seems to be; what a packed one holds. Raises OSError."""
    if path.is_dir():
        inner = path / "version-2"
        if any((inner if inner.is_dir() else path).glob("snapshot.*")):
            return FileKind(
                "a directory of ZooKeeper snapshots", "zk-snapshot:///DIRECTORY?root=/ledgers reads it"
            )
        return FileKind("a directory")
    try:
        with open_packed(path) as (file, unpacked):
            kind = kind_of_bytes(file.read(HEAD))
    except NotRegularError as error:
        return FileKind(error.strerror)
    if unpacked is None:
        return kind
    if unpacked.damage and kind.words == "empty":
        return FileKind(f"packed with {unpacked.kind}, and cut or damaged before its first byte")
    return kind._replace(words=f"{kind.words}, packed with {unpacked.kind}")


def not_a(what: str, path: Path, instead: str) -> str:
    """To tell who named a file that is not ``what``; ``instead`` is the way out if its kind has none."""
    try:
        kind = file_kind(path)
    except OSError as error:
        return f"cannot read {path}: {error.strerror or error}"
    return f"{path} is not {what}: it seems to be {kind.words}; {kind.way_out or instead}"
