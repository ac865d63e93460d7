"""Only regular files are opened, and nothing is waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from auditor.model.regular_file import (
    NotRegularError,
    open_descriptor,
    open_regular,
    read_regular,
    require_regular,
)

OPENERS = (open_descriptor, open_regular, read_regular, require_regular)


def test_a_file_and_a_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        assert read_regular(tmp_path / name) == read_regular(os.fsencode(tmp_path / name)) == b"bytes"
        descriptor, state = open_descriptor(str(tmp_path / name))
        assert (os.read(descriptor, 9), state.st_size) == (b"bytes", 5)
        os.close(descriptor)
        require_regular(tmp_path / name)


@pytest.mark.parametrize("opener", OPENERS)
def test_what_is_no_file_says_what_it_is(opener: object, tmp_path: Path) -> None:
    assert callable(opener)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name, kind in (
            ("pipe", "a named pipe"),
            ("link", "a named pipe"),
            ("device", "a character device"),
            ("socket", "a socket"),
        ):
            with pytest.raises(NotRegularError) as error:
                opener(tmp_path / name)
            assert error.value.strerror == f"{kind}, not a regular file"


@pytest.mark.parametrize("opener", OPENERS)
def test_other_refusals_are_the_systems_own(opener: object, tmp_path: Path) -> None:
    assert callable(opener)
    with pytest.raises(IsADirectoryError):
        opener(tmp_path)
    with pytest.raises(FileNotFoundError):
        opener(tmp_path / "nowhere")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises((IsADirectoryError, NotRegularError)):
            open_descriptor(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
