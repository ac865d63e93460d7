"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    """As installed; a package that travels as a bare zip (``--py-files``) does not know its own.

    >>> isinstance(program_version(), str)
    True
    """
    try:
        return version("bookkeeper-auditor")
    except PackageNotFoundError:
        return "unpackaged"
