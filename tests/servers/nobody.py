"""A part of a test without root's rights: to root no file mode forbids anything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def make_reachable(path: Path) -> None:
    """Let everybody get to a directory of a test, which pytest keeps to its own user."""
    for directory in (path, *path.parents):
        if directory == Path(tempfile.gettempdir()).resolve():
            return
        directory.chmod(0o755)


def reach_checkout() -> None:
    """Let everybody import this project where it is cloned into a directory of its user's own, as CI does."""
    checkout = Path(__file__).resolve().parents[2]
    if Path(tempfile.gettempdir()).resolve() in checkout.parents:
        make_reachable(checkout)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be another user in the block where this is root; anybody else is one already.

    Only the effective user changes, so that it can be taken back; files of the tests are to be made before.
    """
    if os.geteuid() != 0:
        yield
        return
    reach_checkout()
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
