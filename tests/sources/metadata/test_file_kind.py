"""The apparent kind of a file, for a user whose URI names another kind."""

import gzip
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from auditor.errors import StoreError
from auditor.sources.metadata.saved_files import HEAD_BYTES, kind_of_bytes
from auditor.sources.metadata.stores import open_store, recognise

DATA = Path(__file__).parents[2] / "data"
DUMP = gzip.decompress((DATA / "flat-v1" / "metadata.jsonl.gz").read_bytes())
ETCD = gzip.decompress((DATA / "etcd" / "etcd-snapshot.db.gz").read_bytes())
NOISE = bytes(range(128, 256)) * 50


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def tar(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(Path(__file__), "x")
    return path


def database(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("create table a (b)")
    connection.close()
    return path


def directory(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).write_bytes(NOISE)
    return path


CASES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "noise": (lambda p: write_file(p, NOISE), "binary data of a kind that this program does not know"),
    "packed noise": (
        lambda p: write_file(p, gzip.compress(NOISE)),
        "binary data of a kind that this program does not know, compressed with gzip",
    ),
    "cut to nothing": (
        lambda p: write_file(p, gzip.compress(DUMP)[:12]),
        "compressed with gzip, and cut off or damaged before its first byte",
    ),
    "empty": (lambda p: write_file(p, b""), "empty"),
    "text": (lambda p: write_file(p, "Grüße\n".encode() * HEAD_BYTES), "text, but not a dump"),
    "JSON": (lambda p: write_file(p, b'[{"path": "/a"}]\n'), "text, but not a dump"),
    "PNG": (lambda p: write_file(p, b"\x89PNG\r\n\x1a\n\0\0"), "a PNG picture"),
    "SQLite": (database, "an SQLite database"),
    "tar": (tar, "a tar archive, compressed with gzip; unpack it first"),
    "directory": (directory, "a directory"),
}


@pytest.mark.parametrize("scheme", ["dump", "zk-snapshot", "etcd-snapshot"])
@pytest.mark.parametrize("case", CASES)
def test_file_without_metadata_is_rejected_with_its_apparent_kind(
    case: str, scheme: str, tmp_path: Path
) -> None:
    make, words = CASES[case]
    path = make(tmp_path / "file")
    uri = f"{scheme}://{path}"
    with pytest.raises(StoreError) as early:
        recognise(uri)
    if case != "directory" or scheme == "dump":
        assert f"it seems to be {words}" in str(early.value)
    assert str(path) in str(early.value)
    with pytest.raises(StoreError) as late:
        open_store(uri).cluster()
    assert str(path) in str(late.value)


@pytest.mark.parametrize(
    ("scheme", "content", "way_out"),
    [
        ("dump", ETCD, "etcd-snapshot:///FILE"),
        ("zk-snapshot", ETCD, "etcd-snapshot:///FILE"),
        ("zk-snapshot", DUMP, "dump:///FILE"),
        ("etcd-snapshot", DUMP, "dump:///FILE"),
        ("dump", b"ZKSN\0\0\0\2" + NOISE, "zk-snapshot:///DIRECTORY"),
        ("dump", b"ZKLG\0\0\0\2" + NOISE, "zk-snapshot:///DIRECTORY"),
    ],
)
def test_metadata_of_another_kind_is_rejected_with_the_correct_uri(
    scheme: str, content: bytes, way_out: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match=way_out):
        recognise(f"{scheme}://{write_file(tmp_path / 'file', content)}")


def test_directory_is_rejected_as_a_dump_and_noise_as_snapshots(tmp_path: Path) -> None:
    path = directory(tmp_path / "version-2", "snapshot.5", "log.6")
    with pytest.raises(
        StoreError, match="a directory of ZooKeeper snapshots; pass it as zk-snapshot:///DIRECTORY"
    ):
        recognise(f"dump://{path}")
    with pytest.raises(StoreError, match=r"5 is not a ZooKeeper snapshot: it seems to be binary data"):
        recognise(f"zk-snapshot://{path}")
    (path / "snapshot.4").write_bytes(b"ZKSN")  # the newest that is whole is for reading to find
    recognise(f"zk-snapshot://{path}")


def test_readable_metadata_is_recognised(tmp_path: Path) -> None:
    recognise(f"dump://{write_file(tmp_path / 'a', DUMP)}")
    recognise(
        f"dump://{write_file(tmp_path / 'b', b'?' * HEAD_BYTES + NOISE + b'{}' + chr(10).encode() + DUMP)}"
    )
    recognise(f"dump://{write_file(tmp_path / 'c', gzip.compress(DUMP))}")
    recognise(f"etcd-snapshot://{write_file(tmp_path / 'd', ETCD)}?scope=/bk")
    recognise("zk://127.0.0.1:1/ledgers")  # a running store is asked when it is read


def test_kinds_of_noise_zip_and_text_are_detected() -> None:
    assert kind_of_bytes(NOISE).advice is None
    assert kind_of_bytes(b"PK\3\4").advice == "unpack it first"
    cut_in_a_character = ("a" * (HEAD_BYTES - 1) + "ü").encode()[:HEAD_BYTES]
    assert kind_of_bytes(cut_in_a_character).kind_text == "text, but not a dump"
