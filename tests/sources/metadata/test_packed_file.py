"""Packed files: their content from any offset, and the end of the content at damage."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.sources.metadata.saved_files import (
    GZIP,
    UNPACK_STEP_BYTES,
    ZSTD,
    detect_packing,
    open_packed,
    unpacked_size,
)
from tests.examples import examples

TEXT = b"".join(b"line %d of some\n" % number for number in range(3_000))
ZSTD_WITH_CHECKSUM = Path(__file__).parents[2] / "data" / "packed" / "lines.zst"
"""What ``zstd`` 1.5.4 made of `TEXT`: with a checksum, which pyarrow's own packer leaves out."""


def compress(kind: str, data: bytes) -> bytes:
    return gzip.compress(data) if kind == GZIP else pa.Codec(ZSTD).compress(data, asbytes=True)


def read(path: Path, offset: int = 0) -> tuple[bytes, str | None]:
    with open_packed(path, offset) as (file, unpacked):
        return file.read(), unpacked.damage if unpacked else None


@pytest.mark.parametrize("kind", [GZIP, ZSTD])
@settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_packed_file_is_read_from_any_offset(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    pieces = data.draw(st.lists(st.binary(max_size=300), max_size=4))
    content = b"".join(piece * data.draw(st.sampled_from([1, 400])) for piece in pieces)
    offset = data.draw(st.integers(0, len(content)))
    file = tmp_path / "no-ending"
    file.write_bytes(compress(kind, content))
    assert detect_packing(file.read_bytes()) == kind
    assert unpacked_size(file) == len(content)
    assert read(file, offset) == (content[offset:], None)


def test_several_gzip_members_are_one_file_and_a_plain_file_is_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "file.gz"
    file.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert (read(file), unpacked_size(file)) == ((b"one\ntwo\n", None), 8)
    file.write_bytes(b"plain\n")
    assert (read(file, 2), unpacked_size(file)) == ((b"ain\n", None), 6)


@pytest.mark.parametrize("kind", [GZIP, ZSTD])
def test_cut_packed_file_is_read_up_to_the_cut(kind: str, tmp_path: Path) -> None:
    noise = os.urandom(3 * UNPACK_STEP_BYTES) + TEXT
    whole = compress(kind, noise)
    for length in (len(whole) - 1, len(whole) - 5, len(whole) - 9, len(whole) // 2, 5):
        file = tmp_path / "cut"
        file.write_bytes(whole[:length])
        content, damage = read(file)
        assert noise.startswith(content)
        assert damage is not None
        assert damage.startswith(f"the {kind} stream is cut off or damaged (")
        assert unpacked_size(file) == len(content) + 1
        assert read(file, len(content)) == (b"", damage)
    file.write_bytes(whole[:-1])
    assert len(read(file)[0]) > len(noise) - 2 * UNPACK_STEP_BYTES


@pytest.mark.parametrize("flipped", [-6, -1])  # its CRC, its length
def test_wrong_gzip_checksum_is_damage_after_all_data(flipped: int, tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress(TEXT))
    damaged[flipped] ^= 1
    file = tmp_path / "file"
    file.write_bytes(damaged)
    content, damage = read(file)
    assert content == TEXT
    assert "check" in str(damage)


def test_wrong_zstd_checksum_is_damage_after_all_data(tmp_path: Path) -> None:
    assert read(ZSTD_WITH_CHECKSUM) == (TEXT, None)
    damaged = bytearray(ZSTD_WITH_CHECKSUM.read_bytes())
    damaged[-1] ^= 1
    file = tmp_path / "file"
    file.write_bytes(damaged)
    content, damage = read(file)
    assert content == TEXT
    assert "checksum" in str(damage)


@settings(
    deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(10, len(gzip.compress(TEXT)) - 1), st.integers(1, 255))
def test_changed_byte_is_detected_and_every_reader_stops_at_the_same_offset(
    tmp_path: Path, offset: int, change: int
) -> None:
    damaged = bytearray(gzip.compress(TEXT))
    damaged[offset] ^= change
    file = tmp_path / "file"
    file.write_bytes(damaged)
    content, damage = read(file)
    assert damage is not None or content == TEXT  # bits that pad the last block mean nothing
    if damage is not None:
        assert unpacked_size(file) == len(content) + 1
        assert read(file, len(content) // 2) == (content[len(content) // 2 :], damage)


def test_a_large_file_is_unpacked_in_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "zeros.gz"
    with gzip.open(file, "wb", compresslevel=1) as zeros:
        for _ in range(400):
            zeros.write(bytes(1 << 20))
    code = (
        "import resource, sys; from pathlib import Path;"
        "from auditor.sources.metadata.saved_files import unpacked_size; import pyarrow;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "print(unpacked_size(Path(sys.argv[1])));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    size, kilobytes = map(int, process.stdout.split())
    assert size == 400 << 20
    assert kilobytes < 50_000
