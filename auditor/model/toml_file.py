"""A file of settings that a person wrote."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from auditor.errors import UsageError
from auditor.model.regular_file import read_regular


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a TOML file says.

    >>> read_toml("nowhere.toml")
    Traceback (most recent call last):
    auditor.errors.UsageError: nowhere.toml: No such file or directory

    Raises:
        UsageError: no such file, or not TOML; the message names the file.
    """
    try:
        return tomllib.loads(read_regular(path).decode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
