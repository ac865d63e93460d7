"""Standard streams that do not end a command if a stream is closed or its reader has gone.

A command continues even if nobody reads its output. A scheduler thus gets the exit code of an audit even if
the log collector restarts. Any other error of standard output, such as a full disk, is an error of the
command. The requested report is then missing.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from auditor.errors import OutputError

_CLOSED_ERRNOS = frozenset((errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.ENOTCONN))
"""Numbers of the errors of writing to a pipe or socket that its reader has closed."""


class StandardStream(io.FileIO):
    """Raw stream below standard output or standard error.

    After the reader has closed the stream, writes succeed and drop the bytes. Standard error drops the
    bytes of any write that fails, because a lost message does not change the result.
    """

    def __init__(
        self, descriptor: int, stream_title: str, is_error_stream: bool, closefd: bool = False
    ) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self._title = stream_title
        self._is_error_stream = is_error_stream
        # Writing to a closed terminal fails with EIO, as on a broken disk.
        self._closed_errnos = _CLOSED_ERRNOS | ({errno.EIO} if os.isatty(descriptor) else set())
        self._is_discarding = False

    def write(self, output_bytes: Any, /) -> int:
        """Write all bytes and return their number, even if they are dropped.

        Raises:
            OutputError: standard output cannot be written, as on a full disk.
        """
        unwritten_bytes = memoryview(output_bytes).cast("B")
        byte_count = unwritten_bytes.nbytes
        try:
            # With python -u, no layer above repeats a write that wrote only a part.
            while unwritten_bytes and not self._is_discarding:
                written_count = super().write(unwritten_bytes)
                if written_count is None:
                    # The pipe is full, and its creator made it non-blocking: wait here.
                    select.select((), (self.fileno(),), ())
                unwritten_bytes = unwritten_bytes[written_count or 0 :]
        except OSError as error:
            self._is_discarding = error.errno in self._closed_errnos
            if not (self._is_discarding or self._is_error_stream):
                raise OutputError(f"{self._title}: cannot be written: {error.strerror}") from error
        return byte_count

    def discard(self) -> None:
        """Drop everything that is written from now on."""
        self._is_discarding = True


@contextmanager
def guard_streams() -> Iterator[None]:
    """Put a `StandardStream` below ``sys.stdout`` and ``sys.stderr`` while the block runs.

    Streams that are not Python's own, such as those of a notebook or a test, are not changed. After the
    block, unwritten output is dropped. Otherwise Python would try to write it again, and exit with code 120.
    """
    _open_closed_streams()
    replaced_streams = []
    for stream_name, stream_title in (("stdout", "standard output"), ("stderr", "standard error")):
        stream = getattr(sys, stream_name)
        if stream is getattr(sys, f"__{stream_name}__"):
            with suppress(OSError):
                stream.flush()
            raw_stream = StandardStream(stream.fileno(), stream_title, stream_name == "stderr")
            setattr(sys, stream_name, _text_stream(raw_stream, stream))
            replaced_streams.append((stream_name, stream, raw_stream))
    try:
        yield
    finally:
        for stream_name, stream, raw_stream in replaced_streams:
            with suppress(OutputError):
                getattr(sys, stream_name).flush()
            raw_stream.discard()
            setattr(sys, stream_name, stream)


def error_stream_copy() -> TextIO | None:
    """Return a copy of standard error with its own descriptor. Descriptor 2 itself may point to a log file.

    Returns None if standard error has no descriptor, as in a test that captures standard error. The caller
    closes the stream.
    """
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except OSError:
        return None
    stream_copy = _text_stream(StandardStream(descriptor, "standard error", True, closefd=True), sys.stderr)
    stream_copy.reconfigure(line_buffering=True)
    return stream_copy


@contextmanager
def flush_output() -> Iterator[None]:
    """Flush standard output after the block, even if the block fails.

    Raises:
        OutputError: the block did not fail, but standard output cannot be written, as on a full disk.
    """
    try:
        yield
    except click.exceptions.Exit:
        sys.stdout.flush()
        raise
    except BaseException:
        with suppress(OutputError):
            sys.stdout.flush()
        raise
    else:
        sys.stdout.flush()


def _text_stream(raw_stream: StandardStream, model_stream: TextIO) -> io.TextIOWrapper:
    """Return a text stream over ``raw_stream`` with the encoding and the buffering of ``model_stream``."""
    assert isinstance(model_stream, io.TextIOWrapper)
    # With python -u, Python does not buffer bytes either.
    buffer = raw_stream if model_stream.write_through else io.BufferedWriter(raw_stream)
    return io.TextIOWrapper(
        buffer,
        model_stream.encoding,
        model_stream.errors,
        line_buffering=model_stream.line_buffering,
        write_through=model_stream.write_through,
    )


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller of the program has closed.

    Otherwise the next file that the program opens would get the descriptor of the stream. Output would then
    go into that file.
    """
    for descriptor, stream_name, open_mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, stream_name) is None:
            null_descriptor = os.open(os.devnull, os.O_RDWR)
            if null_descriptor != descriptor:
                os.dup2(null_descriptor, descriptor)
                os.close(null_descriptor)
            stream = os.fdopen(descriptor, open_mode, closefd=False)
            setattr(sys, stream_name, stream)
            setattr(sys, f"__{stream_name}__", stream)
