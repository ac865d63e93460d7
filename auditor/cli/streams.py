"""Standard streams that are closed, full, or that nobody reads any more: none of them is a bug."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from auditor.errors import UsageError


def open_closed_streams() -> None:
    """Give standard streams that the caller has closed to the null device.

    Else the next file that is opened gets their number, and what is printed goes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


@contextmanager
def output_errors() -> Iterator[None]:
    """Write out what the block prints. A reader that has left had enough: the rest goes nowhere.

    Raises:
        UsageError: standard output cannot be written, as on a full disk.
    """
    try:
        try:
            yield
        except click.exceptions.Exit:
            _flush()
            raise
        else:
            _flush()
    except BrokenPipeError:
        _discard()
    except OSError as error:
        # What has a name is another file.
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _discard()
        raise UsageError(f"standard output cannot be written: {error.strerror}") from error


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard()


def _discard() -> None:
    """Let standard output go nowhere from now on: Python writes out what it holds when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
