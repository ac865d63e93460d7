"""A part of a test without root's rights, because no file mode restricts root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def make_reachable(path: Path) -> None:
    """Let all users reach a directory of a test, which pytest restricts to its own user."""
    for directory in (path, *path.parents):
        if directory == Path(tempfile.gettempdir()).resolve():
            return
        directory.chmod(0o755)


def reach_checkout() -> None:
    """Let all users import this project even from a clone in a private directory of its user, as in CI."""
    checkout = Path(__file__).resolve().parents[2]
    if Path(tempfile.gettempdir()).resolve() in checkout.parents:
        make_reachable(checkout)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run the block as another user if this process is root. Any other user stays as it is.

    Only the effective user changes, so that it can be restored. Make the files of the tests before the block.
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
