"""A TOML file that may contain secrets.

Callers read its keys by name. It is an error if the file contains a key that no caller reads. Error
messages name the file and the key, never a value.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from auditor.errors import UsageError, path_error
from auditor.sources.regular_file import MAX_TOML_BYTES, open_regular, parse_toml, read_at_most


class SecretFile:
    """A TOML file that may contain secrets.

    ``holds_secrets`` becomes True when a caller reads a secret that is in the file itself, not in an
    environment variable.

    Raises:
        UsageError: there is no such file, or it is not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holds_secrets = False
        self.sections: list[Section] = []
        try:
            with open_regular(path) as stream:
                self._file_status = os.fstat(stream.fileno())
                values = parse_toml(read_at_most(stream, MAX_TOML_BYTES))
        except OSError as error:
            raise path_error(error, f"{path}: cannot read the credentials: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"{path}: not TOML: {error}") from None
        self.top_section = Section(self, "", values)

    def refuse_unread_keys(self) -> None:
        """Refuse a file that has unknown settings, or that lets other users read a secret.

        Like ssh, the method refuses a file with a secret if the permissions of the file let other users
        read it.

        Raises:
            UsageError: the file has an unknown setting, or wrong permissions.
        """
        for section in self.sections:
            section.refuse_unread_keys()
        if not self.holds_secrets or os.name != "posix":
            return
        # A mounted secret belongs to root and is readable by a group, which cannot change the file.
        allowed_mode = stat.S_IRGRP if self._file_status.st_uid == 0 else 0
        if stat.S_IMODE(self._file_status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO) & ~allowed_mode:
            raise UsageError(
                f"{self.path}: other users may read this file, which contains a secret. Run chmod 600 "
                "on it, or use an environment variable (password_env)"
            )


class Section:
    """One table of the file.

    `refuse_unread_keys` refuses the table if the table has a key that no caller has read.
    """

    def __init__(self, file: SecretFile, name: str, values: Mapping[str, Any]) -> None:
        self._file = file
        self._name = name
        self._values = values
        self._known_keys: list[str] = []
        file.sections.append(self)

    def has_key(self, key: str) -> bool:
        """Return whether the table has the key ``key`` or ``<key>_env``."""
        return key in self._values or f"{key}_env" in self._values

    def section(self, key: str) -> Section | None:
        """Return the table ``key`` inside this table, or None if there is no such table."""
        self._known_keys.append(key)
        values = self._values.get(key)
        if values is None:
            return None
        if not isinstance(values, dict):
            self.raise_wrong_value(key, f"must be a section, as in [{self._full_key(key)}]")
        return Section(self._file, self._full_key(key), values)

    def text(self, key: str, secret: bool = False) -> str | None:
        """Return the value of a key, or the value of the environment variable that ``<key>_env`` names.

        Return None if the table has neither of these keys. ``secret`` is True if the value is a secret.
        """
        self._known_keys += [key, f"{key}_env"]
        key_value, variable = self._values.get(key), self._values.get(f"{key}_env")
        for name, setting_value in ((key, key_value), (f"{key}_env", variable)):
            if setting_value is not None and (not isinstance(setting_value, str) or not setting_value):
                self.raise_wrong_value(name, "must be a string that is not empty")
        if key_value is not None and variable is not None:
            self.raise_wrong_value(key, f"given twice, here and as {key}_env; remove one")
        if variable is not None:
            key_value = os.environ.get(variable)
            if not key_value:
                self.raise_wrong_value(f"{key}_env", "the environment variable is not set, or is empty")
        elif key_value is not None and secret:
            self._file.holds_secrets = True
        return key_value

    def required_text(self, key: str, secret: bool = False) -> str:
        """Return the value of a key like `text`, but raise UsageError if the key is absent."""
        key_value = self.text(key, secret)
        if key_value is None:
            self.raise_wrong_value(key, "is required here")
        return key_value

    def boolean(self, key: str, default: bool = True) -> bool:
        """Return the boolean value of a key, or ``default`` if the key is absent."""
        self._known_keys.append(key)
        key_value = self._values.get(key, default)
        if not isinstance(key_value, bool):
            self.raise_wrong_value(key, "must be true or false")
        return key_value

    def file(self, key: str) -> str | None:
        """Return the path of the existing file that a key names, or None if the key is absent.

        A relative path in the table is relative to the directory of the TOML file.
        """
        key_value = self.text(key)
        if key_value is None:
            return None
        path = self._file.path.parent / key_value
        if not path.is_file():
            self.raise_wrong_value(key, "no such file")
        return str(path)

    def refuse_unread_keys(self) -> None:
        """Raise UsageError if the table has a key that no caller has read."""
        for key in self._values:
            if key not in self._known_keys:
                valid_keys = [name for name in self._known_keys if not name.endswith("_env")]
                self.raise_wrong_value(key, f"unknown key; the valid keys are {', '.join(valid_keys)}")

    def raise_wrong_value(self, key: str, problem: str) -> NoReturn:
        """Raise UsageError for a key with an invalid value. The message does not contain the value."""
        raise UsageError(f"{self._file.path}: {self._full_key(key)}: {problem}")

    def _full_key(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key
