"""A part of a test without root's rights: to root no file mode forbids anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be another user in the block where this is root; anybody else is one already.

    Only the effective user changes, so that it can be taken back; files of the tests are to be made before.
    """
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
