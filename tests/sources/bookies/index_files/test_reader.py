"""Tests of handmade and damaged index files. test_index_rows reads those of real bookies."""

from __future__ import annotations

import os
import resource
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability import fold
from auditor.codecs.availability.fold import fold_entries
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import IndexBatch, IndexFiles
from auditor.sources.bookies.index_files import reader as index_reader
from auditor.sources.bookies.index_files.reader import IndexReader
from tests.examples import examples

HEADER = (b"BKLE" + struct.pack(">ii", 1, 20) + bytes(range(20))).ljust(1024, b"\0")
BODY = 1024


def index_bytes(entries: set[int], slots: int) -> bytes:
    body = np.zeros(slots, ">i8")
    body[sorted(entries)] = 1028
    return HEADER + body.tobytes()


def groups_of(entries: set[int]) -> bytes:
    ids = np.array(sorted(entries), np.int64)
    return fold_entries(ids, np.array([0, len(ids)])).tobytes()


def files(paths: list[Path]) -> IndexFiles:
    return IndexFiles(np.arange(len(paths)), [os.fsencode(path) for path in paths])


def read(paths: list[Path]) -> list[IndexBatch]:
    return list(IndexReader().read([files(paths)]))


def rows(batches: list[IndexBatch]) -> list[tuple[bytes, str, int | None, int]]:
    result = []
    for batch in batches:
        for row, groups in enumerate(batch.groups.values()):
            fault = batch.faults.get(row)
            state, offset = (fault.state, fault.offset) if fault else (IndexState.OK, None)
            result.append((groups, state, offset, int(batch.page_bytes[row])))
    return result


def write(folder: Path, *contents: bytes) -> list[Path]:
    paths = [folder / f"{n}.idx" for n in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


file_bytes = st.one_of(
    st.binary(max_size=1100),
    st.binary(max_size=200).map(lambda body: HEADER + body),
    st.sets(st.integers(0, 255), max_size=40).map(lambda entries: index_bytes(entries, 256)),
)


@settings(max_examples=examples(60), deadline=None)
@given(contents=st.lists(file_bytes, max_size=12))
def test_file_reads_the_same_alone_and_with_other_files(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    paths = write(tmp_path_factory.mktemp("index"), *contents)
    all_rows = rows(read(paths))
    assert all_rows == [row for path in paths for row in rows(read([path]))]
    for content, (groups, state, offset, page_bytes) in zip(contents, all_rows, strict=True):
        assert page_bytes == max(len(content) - BODY, 0)
        if state == "unreadable":
            assert groups == b""
            assert offset is not None
            assert offset <= min(len(content), BODY)
        else:
            slots = (len(content) - BODY) // 8
            present = {e for e in range(slots) if any(content[BODY + 8 * e : BODY + 8 * e + 8])}
            assert groups == groups_of(present)
            assert state == ("cut" if len(content) % 8 else "ok")
            assert offset == (len(content) // 8 * 8 if len(content) % 8 else None)


@pytest.mark.parametrize(
    ("content", "offset"),
    [
        pytest.param(b"", 0, id="empty"),
        pytest.param(HEADER[:500], 500, id="half a header"),
        pytest.param(b"X" + HEADER[1:] + bytes(8192), 0, id="bad magic"),
        pytest.param(HEADER[:4] + struct.pack(">i", 2) + HEADER[8:], 4, id="a newer version"),
        pytest.param(HEADER[:8] + struct.pack(">i", -1) + HEADER[12:], 8, id="a negative length"),
    ],
)
def test_damaged_header_makes_the_file_unreadable_with_its_offset(
    tmp_path: Path, content: bytes, offset: int
) -> None:
    assert rows(read(write(tmp_path, content)))[0][:3] == (b"", "unreadable", offset)


def test_file_with_only_a_header_is_ok_and_has_no_entries(tmp_path: Path) -> None:
    assert rows(read(write(tmp_path, HEADER))) == [(b"", "ok", None, 0)]


def test_buffer_contents_of_an_earlier_file_are_not_reused(tmp_path: Path) -> None:
    full = index_bytes(set(range(1024)), 1024)
    paths = write(tmp_path, full, HEADER + b"\1\1\1", HEADER[:300], HEADER)
    reader = IndexReader()
    order = [0, 0, 0, 1, 2, 3]
    for _ in range(2):
        read_rows = rows(list(reader.read([files([paths[n] for n in order])])))
        order = [2, 1, 3, 0]
    assert [row[:2] for row in read_rows] == [
        (b"", "unreadable"),
        (b"", "cut"),
        (b"", "ok"),
        (groups_of(set(range(1024))), "ok"),
    ]


def test_file_that_cannot_be_opened_is_unreadable_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "loop.idx").symlink_to("loop.idx")
    (tmp_path / "folder.idx").mkdir()
    batches = read([tmp_path / "gone.idx", tmp_path / "loop.idx", tmp_path / "folder.idx"])
    assert [fault for batch in batches for fault in batch.faults.items()] == [
        (0, ("unreadable", "it was listed, but no longer existed when it was to be read", 0)),
        (1, ("unreadable", "Too many levels of symbolic links", 0)),
        (2, ("unreadable", "Is a directory", 0)),
    ]


def test_short_read_is_not_treated_as_the_end_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(tmp_path, index_bytes({1, 2, 1000}, 1024))
    real = os.preadv

    def short(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        return real(descriptor, [memoryview(buffers[0])[:600]], offset)

    monkeypatch.setattr(os, "preadv", short)
    assert rows(read(paths)) == [(groups_of({1, 2, 1000}), "ok", None, 8192)]


def test_disk_error_after_a_short_read_makes_the_file_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(tmp_path, index_bytes({1, 2, 1000}, 1024))
    real = os.preadv

    def failing(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if offset:
            raise OSError(5, "Input/output error")
        return real(descriptor, [memoryview(buffers[0])[:4096]], offset)

    monkeypatch.setattr(os, "preadv", failing)
    (batch,) = read(paths)
    assert batch.faults[0][:2] == ("unreadable", "Input/output error")
    assert batch.groups.values() == [b""]


@pytest.mark.parametrize("length", [*range(1024, 20_000, 4096), 9224, 13_304])
def test_file_of_any_length_is_read_to_its_end(tmp_path: Path, length: int) -> None:
    content = HEADER + b"\1" * (length - 1024)
    [row] = rows(read(write(tmp_path, content)))
    assert row == (groups_of(set(range((length - 1024) // 8))), "ok", None, length - 1024)


@settings(max_examples=examples(25), deadline=None)
@given(entries=st.sets(st.integers(0, 3000)), chunk=st.sampled_from([8, 64, 4096]), cut=st.integers(0, 7))
def test_large_file_reads_like_a_small_file(
    tmp_path_factory: pytest.TempPathFactory, entries: set[int], chunk: int, cut: int
) -> None:
    content = index_bytes(entries, 3001) + bytes(cut)
    paths = write(tmp_path_factory.mktemp("index"), content, HEADER, content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_reader, "MAX_SLOT_BYTES", 4096)
        patch.setattr(index_reader, "CHUNK_BYTES", chunk)
        large = rows(read(paths))
    assert large == rows(read(paths))


def test_index_with_too_many_groups_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_reader, "MAX_SLOT_BYTES", 4096)
    monkeypatch.setattr(fold, "MAX_GROUPS", 3)
    paths = write(tmp_path, index_bytes({1, 2, 5, 6, 7, 11, 20, 21, 30, 40}, 1024))
    assert rows(read(paths))[0][:2] == (b"", "unreadable")


def test_a_large_file_with_a_bad_header_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "0.idx"
    path.write_bytes(bytes(1024) + b"\1" * (2 << 20))
    assert rows(read([path])) == [(b"", "unreadable", 0, 2 << 20)]


def test_a_huge_sparse_index_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "0.idx"
    last = 10**9
    with path.open("wb") as file:
        file.write(HEADER)
        for entry in (0, 1, 500_000_000, last):
            file.seek(BODY + 8 * entry)
            file.write(b"\1" * 8)
        file.truncate(BODY + 8 * (last + 1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert rows(read([path])) == [(groups_of({0, 1, 500_000_000, last}), "ok", None, 8 * (last + 1000))]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_entry_range_over_many_chunks_is_one_group(tmp_path: Path) -> None:
    path = tmp_path / "0.idx"
    entries = 3 << 20
    path.write_bytes(HEADER + b"\1" * (8 * entries))
    assert rows(read([path])) == [(groups_of(set(range(entries))), "ok", None, 8 * entries)]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_batches_end_at_their_limit_for_any_grouping_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(index_reader, "BATCH_UNITS", 5)
    paths = write(tmp_path, *[index_bytes({n}, 128) for n in range(8)])
    pieces = [files(paths[start : start + size])._replace(scope_id=start) for start in range(0, 8, size)]
    batches = list(IndexReader().read(pieces))
    assert [len(batch.paths) for batch in batches] == [3, 3, 2]
    assert [row[0] for row in rows(batches)] == [groups_of({n}) for n in range(8)]
    assert [path for batch in batches for path in batch.paths] == [os.fsencode(path) for path in paths]
    pairs = [(n // size * size, n % size) for n in range(8)]
    assert [row for batch in batches for row in zip(batch.scope_ids, batch.ledger_ids, strict=True)] == pairs


def test_batch_times_are_those_of_the_files(tmp_path: Path) -> None:
    paths = write(tmp_path, HEADER)
    os.utime(paths[0], (1234.5, 1234.5))
    (batch,) = read([*paths, tmp_path / "none.idx"])
    assert batch.mtimes.tolist() == [1_234_500, -1]
